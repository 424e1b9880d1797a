"""The API server dies while a gang is being bound, and comes back."""

from __future__ import annotations

import threading

import pytest
from faults_moments import SHORT, Kept, moments
from faults_proxy import Fault, Proxy
from faults_witness import Witness
from kube_world import World


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("bind", moments("server", 2, 38))
def test_a_gang_is_whole_in_the_end_when_the_server_dies_at_a_bind(
    world: World, proxy: Proxy, witness: Witness, bind: int, after: bool
) -> None:
    for i in range(4):
        world.node(f"n{i}", cpu="10")
    dead = threading.Event()

    def die() -> None:
        world.bed.stop_server(kill=True)
        dead.set()

    proxy.add(Fault("cut", skip=bind, then=die, after=after))
    with Kept(world, *SHORT, "bindsInFlight=4", kubeconfig=proxy.kubeconfig):
        world.gang("full", 40, resources=True)
        assert dead.wait(60), f"bind {bind} was not sent"
        world.bed.start_server()
        world.gang("late", 2, resources=True)
        witness.check(waiting=("late",))
    assert not any(name.startswith("late") for name in world.bound())
