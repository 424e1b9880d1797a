"""Watches that are cut, delayed, repeated, or frozen."""

from __future__ import annotations

import time

from faults_proxy import Proxy
from faults_witness import Witness
from kube_bed import until
from kube_world import GROUPS, World


def busy(world: World) -> None:
    """Gangs that fill three nodes exactly."""
    for i in range(6):
        world.gang(f"gang{i}", 5, resources=True)


def cluster(world: World) -> None:
    for i in range(3):
        world.node(f"n{i}", cpu="10")


def test_watches_that_are_cut_again_and_again_lose_nothing(world: World, proxy: Proxy, witness: Witness) -> None:
    cluster(world)
    world.scheduler("--no-leader-elect", kubeconfig=proxy.kubeconfig)
    until(lambda: proxy.watching > 8, 40, "watches are open")
    for i in range(6):
        world.gang(f"gang{i}", 5, resources=True)
        proxy.cut()
        time.sleep(0.3)
        proxy.cut()
    witness.check()
    for name in list(world.pods()):
        world.delete(name)
    world.bed.call("DELETE", f"{GROUPS}/namespaces/{world.namespace}/podgroups")
    proxy.cut()
    world.gang("next", 30, resources=True)
    witness.check()
    assert proxy.cuts > 20


def test_watches_that_lag_by_seconds_do_not_make_room_that_is_not_there(
    world: World, proxy: Proxy, witness: Witness
) -> None:
    cluster(world)
    proxy.delay = 3.0
    world.scheduler("--no-leader-elect", kubeconfig=proxy.kubeconfig)
    busy(world)
    world.gang("late", 2, resources=True)
    witness.check(waiting=("late",))
    time.sleep(4.0)
    assert len(world.bound()) == 30


def test_what_watches_repeat_counts_once(world: World, proxy: Proxy, witness: Witness) -> None:
    cluster(world)
    proxy.repeat = True
    world.scheduler("--no-leader-elect", kubeconfig=proxy.kubeconfig)
    busy(world)
    witness.check()
    for i in range(5):  # names come back at once: old lines about the first pods of these names follow
        world.delete(f"gang0-{i}")
        world.pod(f"gang0-{i}", "gang0")
    witness.check()


def test_a_connection_that_stands_still_and_goes_on_loses_nothing(world: World, proxy: Proxy, witness: Witness) -> None:
    cluster(world)
    scheduler = world.scheduler("--no-leader-elect", "bindsInFlight=4", kubeconfig=proxy.kubeconfig)
    for i in range(3):
        world.gang(f"early{i}", 5, resources=True)
        if i == 1:
            proxy.freeze()
    time.sleep(8.0)
    for i in range(3):
        world.gang(f"late{i}", 5, resources=True)
    proxy.thaw()
    witness.check()
    assert scheduler.code is None
