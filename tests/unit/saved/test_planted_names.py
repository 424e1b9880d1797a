"""Names and secrets are planted in every text that an API object has: redaction leaves none, and saving no secret."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pumice.config import load
from pumice.framework.registry import default_registry
from pumice.model import api, keys
from pumice.model.events import Seen
from pumice.saved.cycle import SavedCycle, objects_of
from pumice.saved.redact import redacted
from pumice.scheduler.assembly import catalogue_of
from pumice.scheduler.recording import record, replay
from pumice.state.cluster import ClusterState
from pumice.testing import Scenario

sys.path.insert(0, str(Path(__file__).parents[2] / "promises"))
from test_taking_in import SCALARS, whole

STAY = {("metadata", "uid"), ("metadata", "resourceVersion"), ("metadata", "generation")}
"""What the page says stays, beside names of nodes."""
KEYED = {"key", "topologyKey", "matchLabelKeys", "mismatchLabelKeys", "topologyKeys", "uid", "matchAttribute"}
"""Keys of labels and names of devices' attributes, which stay, and UIDs."""


def planted() -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """An object for every text of every kind, with a secret in it; and the secrets."""
    objects: dict[str, list[dict[str, Any]]] = {}
    secrets = []
    for number, (kind, at, typ) in enumerate(SCALARS):
        field = next(part for part in reversed(at) if isinstance(part, str))
        if typ not in (str, Any) or at in STAY or field in KEYED or (kind == "Node" and at == ("metadata", "name")):
            continue
        data = whole(kind)
        data["metadata"].setdefault("name", "")
        if at != ("metadata", "name"):
            data["metadata"]["name"] = f"own{number}"
        inner: Any = data
        for part in at[:-1]:
            inner = inner[part]
        if not isinstance(inner[at[-1]], str):
            continue
        secret = f"acmesecret{number:03}"
        inner[at[-1]] = f'device.driver == "{secret}"' if field == "expression" else secret
        objects.setdefault(kind, []).append(data)
        secrets.append(secret)
    return objects, secrets


def test_two_hundred_planted_names_are_gone_after_redaction() -> None:
    objects, secrets = planted()
    assert len(secrets) > 200
    assert set(api.KINDS) - set(objects) <= {"CSIDriver"}
    cycle = SavedCycle(now=0.0, objects=objects, conf={"actions": "allocate", "tiers": []})
    text = msgspec.json.encode(redacted(cycle)).decode()
    assert [secret for secret in secrets if secret in text] == []


@pytest.mark.parametrize("key", sorted(keys.KEYS))
def test_a_planted_value_of_a_key_that_is_read_is_gone_after_redaction(key: str) -> None:
    marks = {key: "acmesecret", "acme.com/note": "acmesecret"}
    meta = {"name": "p", "namespace": "ns", "labels": {key: "acmesecret"}, "annotations": marks}
    cycle = SavedCycle(now=0.0, objects={kind: [{"metadata": meta}] for kind in api.KINDS}, conf={})
    assert b"acmesecret" not in msgspec.json.encode(redacted(cycle))


def test_what_drivers_alone_read_is_never_saved() -> None:
    secret = {"password": "acmesecret"}
    refs = {"volumeAttributes": secret, "nodePublishSecretRef": {"name": "acmesecret"}}
    opaque = [{"opaque": {"driver": "d", "parameters": secret}}]
    state = ClusterState()
    parts: dict[str, dict[str, Any]] = {
        "PersistentVolume": {"spec": {"csi": {"driver": "d", "volumeHandle": "h", **refs}}},
        "Pod": {"spec": {"volumes": [{"name": "v", "csi": {"driver": "d", **refs}}]}},
        "ResourceClaim": {
            "spec": {"devices": {"config": opaque}},
            "status": {"allocation": {"devices": {"config": opaque}}},
        },
        "DeviceClass": {"spec": {"config": opaque}},
    }
    for kind, data in parts.items():
        meta = {"name": "x", "namespace": "ns", "annotations": {keys.GROUP_ANNOTATION: "g"}}
        state.apply(Seen(api.decode(kind, {"metadata": meta, **data})))
    saved = msgspec.json.encode(objects_of(state))
    assert b"acmesecret" not in saved
    assert saved.count(b'"driver":"d"') == 2


def test_a_redacted_cycle_decides_as_the_cycle_does(scenario: Scenario) -> None:
    """Roles, node groups, topology, claims and selectors have other names, and belong together as before."""
    wanted = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["acmegroup"]}}
    queue = {"metadata": {"name": "acmequeue"}, "spec": {"weight": 1, "affinity": wanted}}
    scenario.add(api.decode("Queue", queue))
    for number in range(4):
        labels = {keys.NODE_GROUP: "acmegroup" if number % 2 else "acmeother", "zone": f"acmezone{number}"}
        scenario.node(f"n{number}", cpu=4, labels=labels)
    topology = {keys.TOPOLOGY_AFFINITY: "acmeps,acmeworker", keys.TOPOLOGY_ANTI_AFFINITY: "acmeps"}
    meta = {"name": "acmejob", "namespace": "default", "annotations": topology}
    spec = {"minMember": 3, "minTaskMember": {"acmeps": 1, "acmeworker": 2}, "queue": "acmequeue"}
    scenario.add(api.decode("PodGroup", {"metadata": meta, "spec": spec, "status": {"phase": "Inqueue"}}))
    for role in ("acmeps", "acmeworker", "acmeworker"):
        marks = {keys.GROUP_ANNOTATION: "acmejob", keys.ROLE_KEY: role}
        name = f"acmejob-{role}-{len(scenario.state.tasks)}"
        container = {"resources": {"requests": {"cpu": "1"}}}
        selector = {"zone": "acmezone3"} if role == "acmeps" else {}
        pod = {"metadata": {"name": name, "namespace": "default", "annotations": marks}, "status": {"phase": "Pending"}}
        scenario.add(api.decode("Pod", {**pod, "spec": {"containers": [container], "nodeSelector": selector}}))
    conf = load(CONF, catalogue_of(default_registry())).conf
    begun = record(scenario.state, conf, scenario.runtime)
    begun.decisions = replay(begun, default_registry()).decisions
    assert {decision["node"] for decision in begun.decisions} <= {"n1", "n3"}
    assert len(begun.decisions) == 3
    hidden = redacted(begun)
    assert b"acme" not in msgspec.json.encode(hidden)
    assert replay(hidden, default_registry()).decisions == hidden.decisions


CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}, {name: task-topology}, {name: nodegroup}]
"""
