"""kube-scheduler works on the same nodes at the same time.

Two schedulers can give the same room away at once; kubelets then refuse the pod that came last, and its owner makes
another. The test plays both, and in the end everything has its place.
"""

from __future__ import annotations

from typing import Any

import pytest
from faults_witness import Witness
from kube_bed import Missing, until
from kube_world import World


def test_everything_finds_its_place_beside_kube_scheduler(world: World, witness: Witness) -> None:
    for i in range(3):
        world.node(f"n{i}", cpu="10")
    try:
        other = world.bed.beside(
            "kube-scheduler",
            f"--kubeconfig={world.bed.admin}",
            f"--authentication-kubeconfig={world.bed.admin}",
            f"--authorization-kubeconfig={world.bed.admin}",
            "--leader-elect=false",
            "--secure-port=0",
        )
    except Missing as exc:
        pytest.fail(str(exc), pytrace=False)
    try:
        world.scheduler("--no-leader-elect")
        for i in range(3):
            world.gang(f"gang{i}", 5, resources=True)
            for j in range(5):
                world.pod(f"app{i}-{j}", "", scheduler="default-scheduler")
        kubelets = Kubelets(world)
        until(kubelets.settled, 90, "every pod runs")
        witness.check(contested=True)
    finally:
        world.bed.end(other)
    assert len(world.bound()) == 30
    assert all(kubelets.held(node) <= 10 for node in world.nodes)


class Kubelets:
    """Take pods in the order in which they come and refuse what has no room; what is refused is made anew."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.refused = 0

    def held(self, node: str) -> int:
        """How many pods run on a node; each asks for one CPU."""
        pods = self._world.pods().values()
        return sum(p["status"]["phase"] == "Running" and p["spec"].get("nodeName") == node for p in pods)

    def settled(self) -> bool:
        """Do what kubelets and owners do once; whether every pod runs."""
        for name, pod in self._world.pods().items():
            node = pod["spec"].get("nodeName", "")
            if node and pod["status"]["phase"] == "Pending":
                self._start(name, node)
            elif pod["status"]["phase"] == "Failed":
                self._again(name, pod)
        return all(p["status"]["phase"] == "Running" for p in self._world.pods().values())

    def _start(self, name: str, node: str) -> None:
        room = self.held(node) < self._world.room[node] // 1000
        status: dict[str, Any] = {"phase": "Running"} if room else {"phase": "Failed", "reason": "OutOfcpu"}
        self.refused += not room
        self._world.bed.call("PATCH", self._world.path(name, "status"), {"status": status})

    def _again(self, name: str, pod: dict[str, Any]) -> None:
        self._world.delete(name)
        group = pod["metadata"]["labels"]["group"]
        self._world.pod(name, group, scheduler=pod["spec"]["schedulerName"])
