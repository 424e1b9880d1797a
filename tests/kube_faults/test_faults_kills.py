"""The scheduler is killed at any moment, and started again."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import pytest
from faults_moments import SHORT, Kept, chance, moments
from faults_proxy import Fault, Proxy
from faults_witness import Witness
from kube_bed import until
from kube_world import World


def led_beyond(kept: Any, times: int) -> bool:
    """Did more than so many lead?"""
    return bool(kept.led > times)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("bind", moments("kills", 2, 38))
def test_a_gang_is_whole_in_the_end_when_the_scheduler_is_killed_at_a_bind(
    world: World, proxy: Proxy, witness: Witness, bind: int, after: bool
) -> None:
    for i in range(4):
        world.node(f"n{i}", cpu="10")
    dead = threading.Event()
    with Kept(world, *SHORT, "bindsInFlight=4", kubeconfig=proxy.kubeconfig) as kept:

        def die() -> None:
            kept.current.kill()
            dead.set()

        proxy.add(Fault("cut", skip=bind, then=die, after=after))
        world.gang("full", 40, resources=True)
        world.gang("late", 2, resources=True)
        assert dead.wait(60), f"bind {bind} was not sent"
        until(lambda: kept.led == 2, 40, "the next one leads")
        witness.check(waiting=("late",))
    assert not any(name.startswith("late") for name in world.bound())


def test_work_goes_on_when_the_scheduler_is_killed_again_and_again(world: World, witness: Witness) -> None:
    draw = chance("again and again")
    for i in range(4):
        world.node(f"n{i}", cpu="10")
    with Kept(world, *SHORT) as kept:
        for i in range(4):
            world.gang(f"gang{i}", 10, resources=True)
            until(partial(led_beyond, kept, i), 60, "the next one leads")
            time.sleep(draw.uniform(0.0, 0.5))
            kept.current.kill()
        world.gang("late", 2, resources=True)
        until(lambda: kept.led == 5, 40, "the last one leads")
        witness.check(waiting=("late",))


@pytest.mark.usefixtures("kubelets")
def test_waves_of_gangs_run_to_their_end_although_the_scheduler_is_killed(world: World, witness: Witness) -> None:
    draw = chance("waves")
    for i in range(2):
        world.node(f"n{i}", cpu="10")
    with Kept(world, *SHORT) as kept:
        for i in range(5):
            world.gang(f"gang{i}", 8, resources=True, run_for="3s")
        for i in range(3):
            until(partial(led_beyond, kept, i), 60, "the next one leads")
            time.sleep(draw.uniform(0.0, 3.0))
            kept.current.kill()
        witness.check()
        until(lambda: {p["status"]["phase"] for p in world.pods().values()} == {"Succeeded"}, 60, "all have finished")
