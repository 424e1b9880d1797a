"""KAI-Scheduler's objects on a real API server: its queues and PodGroups are followed, its decisions carried out."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube_bed import ROOT, Refusal, until
from kube_world import World, all_bound

CONF = """\
actions: "allocate, consolidation, reclaim, preempt, stalegangeviction"
dialect: kai
schedulerParams: {nodePoolLabelValue: blue}
"""
POOL = {"kai.scheduler/node-pool": "blue"}
OFFER = {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "2"}
RUN_AI = "/apis/scheduling.run.ai"


def _install(world: World) -> None:
    """KAI's kinds, as far as a scheduler reads them."""
    for definition in yaml.safe_load_all((ROOT / "tests" / "kube" / "kai_crds.yaml").read_text()):
        world.bed.create(definition)
    for path in (f"{RUN_AI}/v2/queues", f"{RUN_AI}/v2alpha2/podgroups", "/apis/kai.scheduler/v1alpha1/topologies"):
        until(partial(_served, world, path), 30, f"{path} is served")


def _served(world: World, path: str) -> bool:
    try:
        return "items" in world.bed.call("GET", path)
    except Refusal:
        return False


def _queue(world: World, name: str, quota: int) -> None:
    part = {"quota": quota, "limit": -1, "overQuotaWeight": 1}
    other = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec = {"resources": {"gpu": part, "cpu": other, "memory": other}}
    meta = {"name": name, "labels": POOL}
    world.bed.create({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": meta, "spec": spec})


def _job(world: World, name: str, queue: str, pods: int = 1, fraction: str = "", labels: dict[str, str] = POOL) -> None:
    group: dict[str, Any] = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
    meta = {"name": name, "namespace": world.namespace, "labels": labels}
    world.bed.create({**group, "metadata": meta, "spec": {"minMember": pods, "queue": queue}})
    requests = {"cpu": "1", "memory": "1Gi", **({} if fraction else {"nvidia.com/gpu": "1"})}
    notes = {"pod-group-name": name, **({"gpu-fraction": fraction} if fraction else {})}
    for n in range(pods):
        container = {"name": "c", "image": "none", "resources": {"requests": requests, "limits": requests}}
        world.bed.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{name}-{n}", "namespace": world.namespace, "annotations": notes},
                "spec": {"schedulerName": "pumice", "containers": [container]},
            }
        )


def _leave(world: World, *names: str) -> bool:
    return all(world.pods()[name]["metadata"].get("deletionTimestamp") for name in names)


def _status(world: World, name: str) -> dict[str, Any]:
    path = f"{RUN_AI}/v2alpha2/namespaces/{world.namespace}/podgroups/{name}"
    status: dict[str, Any] = world.bed.call("GET", path).get("status", {})
    return status


def _notes(world: World, name: str) -> dict[str, str]:
    path = f"{RUN_AI}/v2alpha2/namespaces/{world.namespace}/podgroups/{name}"
    notes: dict[str, str] = world.bed.call("GET", path)["metadata"].get("annotations", {})
    return notes


@pytest.mark.smoke
def test_queues_and_groups_of_kai_are_scheduled_by_its_rules(world: World, tmp_path: Path) -> None:
    _install(world)
    conf = tmp_path / "kai.yaml"
    conf.write_text(CONF)
    world.node("gpu", cpu="8", **POOL, **{"nvidia.com/gpu.memory": "40000", "nvidia.com/gpu.count": "2"})
    offer = {"status": {"allocatable": OFFER, "capacity": OFFER}}
    world.bed.call("PATCH", "/api/v1/nodes/gpu/status", offer, patch="merge")
    _queue(world, "kai-low", quota=0)
    _queue(world, "kai-high", quota=2)
    world.grant("scheduler-kai")
    scheduler = world.scheduler("--scheduler-conf", str(conf))

    # shares of one GPU are bound with the group that KAI's binder would give them
    _job(world, "part", "kai-low", pods=2, fraction="0.5")
    all_bound(world, "part-0", "part-1")
    notes = [world.pods()[f"part-{n}"]["metadata"]["annotations"] for n in range(2)]
    assert notes[0]["runai-gpu-group"] == notes[1]["runai-gpu-group"]
    assert notes[0]["received-resource-type"] == "Fraction"
    world.kubelet()

    # a gang within the quota of its queue reclaims the whole of it
    _job(world, "other", "kai-high", labels={})
    _job(world, "gang", "kai-high", pods=2)
    until(partial(_leave, world, "part-0", "part-1"), 30, "the shares are reclaimed")
    world.remove_deleted()
    all_bound(world, "gang-0", "gang-1")
    until(lambda: _status(world, "gang").get("phase") == "Running", 30, "the group of the gang says that it runs")
    assert "other-0" not in world.bound()  # its group is of another pool
    noted = [f"kai.scheduler/last-{what}-timestamp" for what in ("start", "eviction")]
    until(lambda: [name in _notes(world, "gang") for name in noted] == [True, False], 30, "the gang says since when")
    assert noted[1] in _notes(world, "part")
    assert scheduler.stop() == 0
