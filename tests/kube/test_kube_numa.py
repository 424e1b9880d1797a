"""numa-aware on a real API server: Numatopology objects come in, and what a node reports frees the next pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kube_bed import Bed, until
from kube_world import World, all_bound

from pumice.kube.kinds import RESOURCES

CONF = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: numa-aware
"""
POLICY = "volcano.sh/numa-topology-policy"


def _topology(bed: Bed, node: str, free: str) -> None:
    """What a node of two NUMA nodes with 4 CPUs each reports, made or changed."""
    spec = {
        "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"},
        "numares": {"cpu": {"allocatable": free, "capacity": 8}},
        "cpuDetail": {str(c): {"numa": c // 4, "socket": c // 4, "core": c} for c in range(8)},
    }
    body: dict[str, Any] = {"apiVersion": "nodeinfo.volcano.sh/v1alpha1", "kind": "Numatopology", "spec": spec}
    if free == "0-7":
        bed.create({**body, "metadata": {"name": node}})
    else:
        bed.call("PATCH", RESOURCES["Numatopology"].path(node), body, patch="merge")


def _pod(world: World, name: str, cpus: str) -> None:
    amounts = {"cpu": cpus, "memory": "1Gi"}
    notes = {"scheduling.k8s.io/group-name": name, POLICY: "single-numa-node"}
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "spec": {"minMember": 1, "queue": "default"},
    }
    world.bed.create({**group, "metadata": {"name": name, "namespace": world.namespace}})
    world.bed.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": world.namespace, "annotations": notes},
            "spec": {
                "schedulerName": "pumice",
                "containers": [{"name": "c", "image": "none", "resources": {"limits": amounts, "requests": amounts}}],
            },
        }
    )


@pytest.mark.smoke
def test_pods_get_cpus_of_one_numa_node_as_their_node_reports_them(world: World, tmp_path: Path) -> None:
    conf = tmp_path / "numa.conf"
    conf.write_text(CONF)
    world.node("plain", cpu="8")
    world.node("zones", cpu="8")
    _topology(world.bed, "zones", "0-7")
    try:
        world.scheduler("--scheduler-conf", str(conf))
        _pod(world, "a", "3")
        all_bound(world, "a")
        _pod(world, "b", "3")
        all_bound(world, "b")
        _pod(world, "c", "2")
        until(
            lambda: "1 free in the roomiest" in str(world.group("c").get("status")), 20, "the third says why it waits"
        )
        assert set(world.bound().values()) == {"zones"}
        world.kubelet()
        world.delete("a")
        _topology(world.bed, "zones", "0-3,4")
        all_bound(world, "c")
    finally:
        world.bed.call("DELETE", RESOURCES["Numatopology"].path("zones"))
