"""The table of Kubernetes' own filters: each dialect asks the rows that are meant for it."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session
from pumice.model.api import decode
from pumice.model.events import Seen
from pumice.plugins.predicates import shared_filters
from pumice.plugins.predicates.shared_filters import TABLE, FilterRow, SharedFilter
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState

PLUGINS = {"kai": ("predicates", "proportion", "priority"), "volcano": ("priority", "gang", "predicates")}
LABELS = {"app": "a"}
CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
SAME = {"labelSelector": {"matchLabels": LABELS}, "topologyKey": "kubernetes.io/hostname"}
SPREAD = {**SAME, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
PODS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], int]] = {
    "NodePorts": ({"containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]}, [], 1),
    "PodAffinity": (
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [SAME]}}},
        [],
        1,
    ),
    "PodTopologySpread": ({"topologySpreadConstraints": [SPREAD]}, [], 1),
    "VolumeRestrictions": (CLAIM, [{"accessModes": ["ReadWriteOncePod"]}], 1),
    "NodeVolumeLimits": (CLAIM, [{"accessModes": ["ReadWriteMany"]}], 2),
    "VolumeZone": (CLAIM, [{"accessModes": ["ReadWriteMany"]}], 2),
    "VolumeBinding": (CLAIM, [{"accessModes": ["ReadWriteMany"], "storageClassName": "none", "volumeName": ""}], 0),
}
"""Row -> what two pods ask for, the claim that they share, and how many of them one node takes."""


def cycle(dialect: str, name: str) -> int:
    """How many of two pods, which a row may keep apart, are bound: on one node, or on two of which one is full."""
    conf = {"dialect": dialect, "actions": "allocate", "tiers": [{"plugins": [{"name": n} for n in PLUGINS[dialect]]}]}
    registry, state = default_registry(), ClusterState(scheduler_names=None)
    state.now = 1_000_000.0
    kai = dialect == "kai"
    spec, claims, _ = PODS[name]

    def tell(kind: str, meta: dict[str, Any], **parts: Any) -> None:
        state.apply(Seen(decode(kind, {"metadata": meta, **parts})))

    for n in range(2):  # spread counts domains: the second node has no room
        offered = {"cpu": "0" if n else "8", "memory": "8Gi", "pods": "10"}
        ready = [{"type": "Ready", "status": "True"}]
        meta = {"name": f"n{n}", "labels": {"kubernetes.io/hostname": f"n{n}"}}
        tell("Node", meta, status={"allocatable": offered, "conditions": ready})
    versions = ("scheduling.run.ai/v2", "scheduling.run.ai/v2alpha2") if kai else ("scheduling.volcano.sh/v1beta1",) * 2
    tell("Queue", {"name": "q"}, spec={}, apiVersion=versions[0])
    for claim in claims:
        volume = {"volumeName": "pv", **claim}
        bound = {"status": {"phase": "Bound"}} if volume["volumeName"] else {}
        tell("PersistentVolumeClaim", {"name": "c", "namespace": "d"}, spec=volume, **bound)
        tell(
            "PersistentVolume",
            {"name": "pv"},
            spec={"claimRef": {"namespace": "d", "name": "c"}},
            status={"phase": "Bound"},
        )
    for n in range(2):
        group = {"name": f"g{n}", "namespace": "d"}
        status = {} if kai else {"status": {"phase": "Inqueue"}}
        tell("PodGroup", group, spec={"minMember": 1, "queue": "q"}, apiVersion=versions[1], **status)
        notes = {"pod-group-name": f"g{n}", "scheduling.k8s.io/group-name": f"g{n}"}
        meta = {"name": f"p{n}", "namespace": "d", "uid": f"p{n}", "labels": LABELS, "annotations": notes}
        containers = [
            {"name": "c", **each, "resources": {"requests": {"cpu": "1"}}} for each in spec.get("containers", [{}])
        ]
        tell("Pod", meta, spec={**spec, "containers": containers}, status={"phase": "Pending"})
    made = assemble(from_data(conf, catalogue_of(registry)).conf, registry)
    report = run_cycle(state, made, Runtime())
    assert report.errors == []
    return len(report.binds)


@pytest.mark.parametrize("name", [row.name for row in TABLE])
@pytest.mark.parametrize("dialect", PLUGINS)
def test_a_row_is_asked_where_the_table_says_so(dialect: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def noted(row: FilterRow) -> FilterRow:
        def make(ssn: Session) -> SharedFilter:
            made.append(row.name)
            return row.make(ssn)

        return row._replace(make=make)

    rows = [noted(row) for row in TABLE]
    monkeypatch.setattr(shared_filters, "TABLE", rows)
    assert cycle(dialect, name) == PODS[name][2]
    (row,) = (row for row in TABLE if row.name == name)
    assert (name in made) == (dialect != "kai" or row.kai)


@pytest.mark.parametrize("name", [row.name for row in TABLE if row.kai])
@pytest.mark.parametrize("dialect", PLUGINS)
def test_what_a_row_forbids_is_allowed_without_it(dialect: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_filters, "TABLE", [row for row in TABLE if row.name != name])
    before_nodes = (dialect, name) == ("kai", "VolumeBinding")  # KAI's claims are looked at before any node, too
    assert cycle(dialect, name) == (0 if before_nodes else 2)
