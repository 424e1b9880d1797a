"""Binds that are refused, cut or never answered, before and after the server carried them out."""

from __future__ import annotations

import threading
import time
from typing import Literal

import pytest
from faults_proxy import BINDING, Fault, Proxy
from faults_witness import Witness
from kube_bed import Refusal, until
from kube_world import World

EVENTS = "/api/v1/namespaces/{}/events"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("does", [409, 429, 500, 503, "cut", "hang"])
def test_a_gang_is_whole_in_the_end_whatever_is_answered_to_its_binds(
    world: World, proxy: Proxy, witness: Witness, does: int | Literal["cut", "hang"], after: bool
) -> None:
    for i in range(3):
        world.node(f"n{i}", cpu="10")
    fault = proxy.add(Fault(does, skip=5, times=8, after=after))
    scheduler = world.scheduler("--no-leader-elect", "bindsInFlight=8", kubeconfig=proxy.kubeconfig)
    world.gang("full", 30, resources=True)
    world.gang("late", 2, resources=True)
    witness.check(waiting=("late",))
    assert fault.met >= 13
    assert scheduler.code is None
    assert not any(name.startswith("late") for name in world.bound())


def test_binds_whose_answers_were_lost_hold_their_room_while_a_server_that_starts_knows_nobody(
    world: World, proxy: Proxy, witness: Witness
) -> None:
    """It refuses everything with 403 for a moment, and the watch that shows the first binds comes late."""
    for i in range(3):
        world.node(f"n{i}", cpu="10")
    refusing = [Fault(403, times=0), Fault(403, path=r"/pods/[^/]*$", method="GET", times=0)]

    def start_anew() -> None:
        for fault in refusing:
            fault.times = 200

        def relent() -> None:
            for fault in refusing:
                fault.times = 0

        threading.Timer(4.0, relent).start()

    lost = Fault("cut", skip=5, times=8, after=True, then=start_anew)
    proxy.faults[:] = [lost, *refusing]
    world.scheduler("--no-leader-elect", "bindsInFlight=8", kubeconfig=proxy.kubeconfig)
    world.gang("full", 22, resources=True)
    until(lambda: len(world.pods()) == 22, 40, "the pods are there")
    proxy.delay = 8.0
    for i in range(4):
        world.gang(f"late-{i}", 2, resources=True)
    witness.check()
    assert lost.met > 8
    assert refusing[0].met > 8


def test_a_server_that_fails_every_other_bind_for_a_while_does_not_split_gangs(
    world: World, proxy: Proxy, witness: Witness
) -> None:
    for i in range(3):
        world.node(f"n{i}", cpu="10")
    faults = [proxy.add(Fault(500, path=rf"-[0-9]*[02468]{BINDING}", times=40, after=bool(i % 2))) for i in range(2)]
    world.scheduler("--no-leader-elect", kubeconfig=proxy.kubeconfig)
    for name in ("a", "b", "c"):
        world.gang(name, 10, resources=True)
    witness.check()
    assert faults[0].met > 40


def test_a_gang_with_a_member_that_is_always_refused_gives_its_room_back(
    world: World, proxy: Proxy, witness: Witness
) -> None:
    world.node("n1", cpu="4")
    refused = proxy.add(Fault(403, path=rf"g-3{BINDING}", times=10**9))
    world.scheduler("--no-leader-elect", "halfGangTimeout=5s", kubeconfig=proxy.kubeconfig)
    world.gang("g", 4)
    until(lambda: len(world.bound()) == 3, 40, "three are bound")
    world.gang("next", 4)

    def released() -> bool:
        world.remove_deleted()
        return [name for name in world.pods() if name.startswith("g-")] == ["g-3"]

    until(released, 40, "the three are evicted")
    witness.check(waiting=("g-",), half=25.0)
    reasons = {e["reason"] for e in world.bed.call("GET", EVENTS.format(world.namespace))["items"]}
    assert "HalfGangReleased" in reasons
    assert refused.met > 2
    refused.times = 0
    for i in range(4):
        world.delete(f"next-{i}")
    for i in range(3):
        world.pod(f"g-{i}", "g")
    witness.check(half=25.0)


def test_a_gang_that_was_whole_and_lost_a_pod_keeps_its_room(world: World, witness: Witness) -> None:
    world.node("n1", cpu="4")
    world.scheduler("--no-leader-elect", "halfGangTimeout=2s")
    world.gang("g", 4)
    witness.check()
    time.sleep(1.1)  # the server counts in seconds; the next pod is to be younger than the last bind
    world.pod("other", "", scheduler="nobody")
    world.delete("g-3")
    world.bed.call("POST", world.path("other", "binding"), {"metadata": {"name": "other"}, "target": {"name": "n1"}})
    world.pod("g-3", "g")
    time.sleep(5.0)
    assert sorted(world.bound()) == ["g-0", "g-1", "g-2", "other"]
    assert not any("deletionTimestamp" in pod["metadata"] for pod in world.pods().values())
    world.delete("other")
    witness.check(contested=True)


def test_a_pod_that_is_deleted_while_its_bind_is_under_way_leaves_room_for_the_next_of_its_name(
    world: World, proxy: Proxy, witness: Witness
) -> None:
    world.node("n1", cpu="4")

    def again() -> None:
        world.delete("g-1")
        world.pod("g-1", "g")

    proxy.add(Fault("pass", path=rf"g-1{BINDING}", then=again))
    world.scheduler("--no-leader-elect", kubeconfig=proxy.kubeconfig)
    world.gang("g", 4)
    witness.check()
    with pytest.raises(Refusal, match="404"):
        world.bed.call("GET", world.path("g-4"))
