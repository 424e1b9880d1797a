"""deviceshare on a real API server: what a bind says of cards is on the pod, and the next scheduler reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kube_bed import until
from kube_world import World, all_bound

CONF = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
"""
REGISTER = {"volcano.sh/node-vgpu-register": "GPU-0,10,16000,NVIDIA-V100,true,hami-core:"}
OFFER = {"cpu": "8", "memory": "64Gi", "pods": "110", "volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "16000"}


def _pod(world: World, name: str, memory: str) -> None:
    group: dict[str, Any] = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    spec = {"minMember": 1, "queue": "default"}
    world.bed.create({**group, "metadata": {"name": name, "namespace": world.namespace}, "spec": spec})
    amounts = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": memory}
    notes = {"scheduling.k8s.io/group-name": name}
    container = {"name": "c", "image": "none", "resources": {"limits": amounts, "requests": amounts}}
    world.bed.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": world.namespace, "annotations": notes},
            "spec": {"schedulerName": "pumice", "containers": [container]},
        }
    )


@pytest.mark.smoke
def test_cards_are_written_to_pods_and_read_by_the_next_scheduler(world: World, tmp_path: Path) -> None:
    conf = tmp_path / "shared.conf"
    conf.write_text(CONF)
    world.node("gpu", cpu="8")
    world.bed.call("PATCH", "/api/v1/nodes/gpu", {"metadata": {"annotations": REGISTER}}, patch="merge")
    world.bed.call(
        "PATCH", "/api/v1/nodes/gpu/status", {"status": {"allocatable": OFFER, "capacity": OFFER}}, patch="merge"
    )
    first = world.scheduler("--scheduler-conf", str(conf))
    _pod(world, "a", "9000")
    all_bound(world, "a")
    notes = world.pods()["a"]["metadata"]["annotations"]
    assert notes["volcano.sh/vgpu-ids-new"] == "GPU-0,NVIDIA,9000,0:"
    assert (notes["volcano.sh/vgpu-node"], notes["volcano.sh/bind-phase"]) == ("gpu", "allocating")
    assert first.stop() == 0
    world.kubelet()
    world.scheduler("--scheduler-conf", str(conf))
    _pod(world, "b", "9000")
    _pod(world, "c", "7000")
    all_bound(world, "c")
    until(lambda: "vgpu-memory" in json.dumps(world.group("b").get("status", {})), 20, "the other says what it lacks")
    assert "b" not in world.bound()
