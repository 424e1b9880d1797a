"""Kubernetes' own PodGroups and Workloads, on a real API server behind their gates; and on one that lacks them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kube_bed import Bed, until
from kube_world import World, all_bound

NATIVE = "scheduling.k8s.io/v1alpha2"
GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true,WorkloadAwarePreemption=true"


@pytest.fixture
def gated(bed: Bed) -> Iterator[Bed]:
    """The server with the gates on, for the time of a test."""
    bed.stop_server()
    bed.start_server(f"--feature-gates={GATES}", f"--runtime-config={NATIVE}=true")
    try:
        yield bed
    finally:
        bed.stop_server()
        bed.start_server()


def group(world: World, name: str, least: int, *, pods: int, notes: dict[str, str] | None = None, **spec: Any) -> None:
    """A PodGroup with its pods."""
    meta = {"name": name, "namespace": world.namespace, "annotations": notes or {}}
    policy = {"schedulingPolicy": {"gang": {"minCount": least}}, **spec}
    world.bed.create({"apiVersion": NATIVE, "kind": "PodGroup", "metadata": meta, "spec": policy})
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    for i in range(pods):
        own = {"schedulingGroup": {"podGroupName": name}, "schedulerName": "pumice", "containers": [container]}
        made = {"name": f"{name}-{i}", "namespace": world.namespace}
        world.bed.create({"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": own})


def condition(world: World, name: str) -> dict[str, Any]:
    """What a group says of its scheduling."""
    found = world.bed.call("GET", f"/apis/{NATIVE}/namespaces/{world.namespace}/podgroups/{name}")
    listed = found.get("status", {}).get("conditions", [])
    return next((c for c in listed if c["type"] == "PodGroupScheduled"), {})


@pytest.mark.smoke
def test_a_gang_of_kubernetes_own_starts_whole_in_one_domain_and_says_so(gated: Bed, world: World) -> None:
    world.node("near-1", cpu="2", rack="near")
    world.node("near-2", cpu="2", rack="near")
    world.node("far-1", cpu="3", rack="far")
    world.bed.create(
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": "native"},
            "spec": {"weight": 1},
        }
    )
    template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 4}}}
    notes = {"scheduling.volcano.sh/queue-name": "native"}
    meta = {"name": "train", "namespace": world.namespace, "annotations": notes}
    spec = {"podGroupTemplates": [template]}
    gated.create({"apiVersion": NATIVE, "kind": "Workload", "metadata": meta, "spec": spec})
    world.scheduler()
    reference = {"workload": {"workloadName": "train", "podGroupTemplateName": "workers"}}
    topology = {"topology": [{"key": "rack"}]}
    group(world, "train", 4, pods=4, podGroupTemplateRef=reference, schedulingConstraints=topology)
    all_bound(world, *(f"train-{i}" for i in range(4)))
    assert {node.partition("-")[0] for node in world.bound().values()} == {"near"}
    until(lambda: condition(world, "train").get("status") == "True", 20, "the group says that it was scheduled")
    assert condition(world, "train")["reason"] == "Scheduled"

    group(world, "big", 4, pods=4)
    until(lambda: "Insufficient cpu" in condition(world, "big").get("message", ""), 20, "the other says why it waits")
    assert condition(world, "big")["status"] == "False"
    assert condition(world, "big")["reason"] == "Unschedulable"
    assert not [name for name in world.bound() if name.startswith("big")]
    queue = "/apis/scheduling.volcano.sh/v1beta1/queues/native"
    until(lambda: gated.call("GET", queue).get("status", {}).get("allocated", {}).get("cpu") == "4", 20, "it counts")
    world.node("far-2", cpu="1", rack="far")
    all_bound(world, *(f"big-{i}" for i in range(4)))
    until(lambda: condition(world, "big").get("status") == "True", 20, "now it was")


@pytest.mark.smoke
def test_a_server_without_them_is_scheduled_as_ever(world: World) -> None:
    world.node("n1")
    scheduler = world.scheduler()
    world.gang("plain", 2)
    all_bound(world, "plain-0", "plain-1")
    assert "Traceback" not in scheduler.log
    assert "ERROR" not in scheduler.log
