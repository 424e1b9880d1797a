"""A node goes away while pods are being bound to it."""

from __future__ import annotations

import pytest
from faults_moments import moments
from faults_proxy import Fault, Proxy
from faults_witness import Witness
from kube_bed import until
from kube_world import World


@pytest.mark.parametrize("bind", moments("nodes", 3, 28))
def test_pods_of_a_node_that_is_gone_find_another_when_they_come_back(
    world: World, proxy: Proxy, witness: Witness, bind: int
) -> None:
    for i in range(4):
        world.node(f"n{i}", cpu="10")
    proxy.add(Fault("pass", skip=bind, then=lambda: world.delete_node("n0")))
    world.scheduler("--no-leader-elect", "bindsInFlight=1", kubeconfig=proxy.kubeconfig)
    world.gang("g", 30, resources=True)
    until(lambda: len(world.bound()) == 30, 60, "all are bound, some perhaps to the node that is gone")
    lost = [name for name, node in world.bound().items() if node == "n0"]
    assert len(lost) <= 10
    for name in lost:  # as the garbage collector of pods and the gang's controller do
        world.delete(name)
        world.pod(name, "g")
    witness.check()
    assert "n0" not in world.bound().values()


def test_a_node_that_comes_back_under_its_name_is_used_and_not_overfilled(
    world: World, proxy: Proxy, witness: Witness
) -> None:
    world.node("n0", cpu="10")
    world.node("n1", cpu="10")

    def replace() -> None:
        world.delete_node("n0")
        world.node("n0", cpu="10")

    proxy.add(Fault("pass", skip=6, then=replace))
    world.scheduler("--no-leader-elect", "bindsInFlight=4", kubeconfig=proxy.kubeconfig)
    world.gang("full", 20, resources=True)
    world.gang("late", 1, resources=True)
    witness.check(waiting=("late",))
    assert "late-0" not in world.bound()
