"""Two replicas, and a leader that stands still or is cut off for longer than its lease."""

from __future__ import annotations

import threading

import pytest
from faults_moments import STEADY, moments
from faults_proxy import Fault, Proxy
from faults_witness import Witness
from kube_bed import until
from kube_world import World


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("bind", moments("leader", 2, 28))
def test_a_leader_that_is_frozen_at_a_bind_past_its_lease_ends_and_writes_nothing(
    world: World, proxy: Proxy, witness: Witness, bind: int, after: bool
) -> None:
    for i in range(3):
        world.node(f"n{i}", cpu="10")
    frozen = threading.Event()
    first = world.scheduler(*STEADY, "bindsInFlight=4", kubeconfig=proxy.kubeconfig)
    until(lambda: " leads " in first.log, 40, "the first leads")
    second = world.scheduler(*STEADY)

    def freeze() -> None:
        first.freeze()
        frozen.set()

    proxy.add(Fault("pass" if not after else "cut", skip=bind, then=freeze, after=after))
    world.gang("full", 30, resources=True)
    assert frozen.wait(60), f"bind {bind} was not sent"
    world.gang("late", 2, resources=True)
    until(lambda: " leads " in second.log, 40, "the second leads")
    witness.check(waiting=("late",))
    before = {name: pod["metadata"]["resourceVersion"] for name, pod in world.pods().items() if "late" not in name}
    first.thaw()
    assert first.wait(30) == 1
    now = {name: pod["metadata"]["resourceVersion"] for name, pod in world.pods().items() if "late" not in name}
    assert now == before
    witness.check(waiting=("late",))


@pytest.mark.smoke
def test_a_leader_that_is_cut_off_ends_and_the_other_goes_on(world: World, proxy: Proxy, witness: Witness) -> None:
    for i in range(3):
        world.node(f"n{i}", cpu="10")
    first = world.scheduler(*STEADY, "bindsInFlight=4", kubeconfig=proxy.kubeconfig)
    until(lambda: " leads " in first.log, 40, "the first leads")
    second = world.scheduler(*STEADY)
    proxy.add(Fault("pass", skip=10, then=proxy.freeze))
    world.gang("full", 30, resources=True)
    assert first.wait(60) == 1
    witness.check()
    proxy.thaw()
    assert " leads " in second.log
    witness.check()
