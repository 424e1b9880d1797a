"""While everybody who waits has a promised place, actions are run only when something happened that matters to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest
from promised_cluster import Cluster, acted, assembly, waiting

from effort import WHOLE
from pumice.model.api import Condition, NodeObject, PodGroup, QueueObject
from pumice.model.intents import StatusUpdate
from pumice.scheduler.assembly import Assembly
from pumice.scheduler.dry import dry_cycle
from pumice.testing import job, node, queue


def test_cycles_run_no_action_while_everybody_who_waits_has_a_promised_place() -> None:
    world = waiting().promised()
    for _ in range(5):
        report = world.stirred()
        assert not acted(report)
        assert sorted(report.pipelined) == ["default/gang", "default/one", "default/two"]
        assert not [i for i in report.intents if isinstance(i, StatusUpdate) and i.key != "default/little"]


def test_each_of_them_is_bound_when_its_room_is_there() -> None:
    world = waiting().promised()
    bound: dict[str, str] = {}
    for pod in world.terminating():
        world.stirred()
        world.ends(pod)
        bound |= world.cycle().binds
    assert sorted(bound) == ["default/gang-0", "default/gang-1", "default/one-0", "default/two-0"]


def victim_ends(world: Cluster) -> None:
    world.ends(world.terminating()[0])


def job_comes(world: Cluster) -> None:
    world.tell(*job("more", cpu=1, phase="Inqueue"))


def job_comes_to_be_let_in(world: Cluster) -> None:
    world.tell(*job("more", cpu=1))


def pod_that_asks_for_nothing_comes(world: Cluster) -> None:
    world.tell(*job("nothing", cpu=0, phase="Inqueue"))


def node_joins(world: Cluster) -> None:
    world.tell(node("new", cpu=1))


def node_leaves(world: Cluster) -> None:
    world.apply(world.world.remove(NodeObject, "aside"))


def node_changes(world: Cluster) -> None:
    world.tell(node("n0", cpu=4, labels={"a": "b"}))


def queue_changes(world: Cluster) -> None:
    world.tell(queue("default", capability={"cpu": 4}))


def one_is_withdrawn(world: Cluster) -> None:
    world.ends("default/one-0")


def group_changes(world: Cluster) -> None:
    known = world.world.get(PodGroup, "default/one")
    world.tell(*(o for o in job("one", cpu=4, priority=50, phase="Inqueue") if isinstance(o, PodGroup)))
    assert world.world.get(PodGroup, "default/one") != known


def pod_comes_beside_them(world: Cluster) -> None:
    world.tell(*job("beside", on="n0", cpu=0))


def holds_are_over(world: Cluster) -> None:
    world.state.now += 1000


def other_conf(world: Cluster) -> None:
    world.assembly = assembly()


def kept_is_dropped(world: Cluster) -> None:
    world.runtime.drop_kept()


def dry(world: Cluster) -> None:
    dry_cycle(world.state, world.assembly, world.runtime, added=job("asked", cpu=1))


HAPPENINGS: list[Callable[[Cluster], None]] = [
    *(victim_ends, job_comes, job_comes_to_be_let_in, pod_that_asks_for_nothing_comes, node_joins, node_leaves),
    *(node_changes, queue_changes, one_is_withdrawn, group_changes, pod_comes_beside_them, holds_are_over),
    *(other_conf, kept_is_dropped, dry),
]


@pytest.mark.parametrize("happens", HAPPENINGS)
def test_whatever_matters_to_them_has_the_actions_run(happens: Callable[[Cluster], None]) -> None:
    world = waiting().promised()
    happens(world)
    assert acted(world.cycle())


def heart_beats(world: Cluster) -> None:
    """A node says no more than that it is still there."""
    known = world.world.get(NodeObject, "n0")
    beat = Condition(type="Ready", status="True", last_transition_time=datetime(2030, 1, 1, tzinfo=UTC))
    world.tell(msgspec.structs.replace(known, status=msgspec.structs.replace(known.status, conditions=(beat,))))


def queue_is_counted(world: Cluster) -> None:
    """A controller writes down what a queue holds."""
    known = world.world.get(QueueObject, "default")
    counted = msgspec.structs.replace(known.status, allocated={"cpu": 3})
    world.tell(msgspec.structs.replace(known, status=counted))


@pytest.mark.parametrize("happens", [heart_beats, queue_is_counted])
def test_what_matters_to_nobody_has_no_action_run(happens: Callable[[Cluster], None]) -> None:
    world = waiting().promised()
    happens(world)
    assert not acted(world.stirred())


def test_who_asks_for_more_or_looks_at_the_session_is_shown_the_promises() -> None:
    world = waiting().promised()
    assert acted(world.stirred(details=True))
    world.promised()
    seen: list[int] = []
    assert acted(world.stirred(inspect=lambda ssn: seen.extend(len(kept) for kept in ssn.outcome.kept)))
    assert sum(seen) == 4


def test_room_for_one_of_them_elsewhere_is_found() -> None:
    world = Cluster(assembly())
    world.tell(node("spare", cpu=4), *job("there", on="spare", cpu=4, queue="other", priority=1000))
    world.tell(*job("one", cpu=4, priority=100, phase="Inqueue"))
    world.cycle()
    world.promised()
    world.ends("default/there-0")
    assert world.cycle().binds == {"default/one-0": "spare"}


def test_a_queue_that_may_no_longer_take_them_says_so() -> None:
    world = Cluster(assembly(), nodes=0)
    world.tell(node("wide", cpu=30), *job("runs", on="wide", cpu=24, priority=1000))
    for n in range(4):
        world.tell(node(f"n{n}", cpu=4, gpu=1), *job(f"low{n}", on=f"n{n}", cpu=4, gpu=1, priority=1))
        world.tell(*job(f"high{n}", cpu=4, gpu=1, priority=100, phase="Inqueue"))
    world.cycle()
    world.promised()
    world.tell(*job("elsewhere", on="wide", cpu=36, queue="other"))  # more than its node has, as others placed it
    report = world.cycle()
    assert acted(report)
    assert {r.text for r in report.refusals.values()} == {"queue resource quota insufficient: insufficient cpu"}


@pytest.mark.parametrize("made", [assembly(extra="sla"), assembly(actions="enqueue, allocate, preempt, shuffle")])
def test_actions_are_run_where_somebody_does_not_say_that_he_answers_by_the_cluster_alone(made: Assembly) -> None:
    world = waiting(made)
    assert all(acted(world.stirred()) for _ in range(4))


def quiet_cycles(seed: int) -> int:
    """A story of random happenings; how many of its cycles ran no action."""
    rng, world, quiet = random.Random(seed), Cluster(assembly(), nodes=6), 0
    for n in range(rng.randint(1, 4)):
        world.tell(*job(f"j{n}", tasks=rng.randint(1, 2), cpu=rng.choice([2, 4]), priority=100, phase="Inqueue"))
    for step in range(14):
        match rng.randint(0, 9):
            case 0 if world.terminating():
                world.ends(rng.choice(world.terminating()))
            case 1:
                world.tell(*job(f"late{step}", cpu=rng.choice([1, 4]), priority=rng.choice([1, 100]), phase="Inqueue"))
            case 2:
                world.tell(queue("default", capability={"cpu": rng.choice([4, 12, 100])}))
            case 3:
                world.tell(*job(f"small{step}", on="aside", cpu="50m", queue=rng.choice(["default", "other"])))
            case 4:
                world.state.now += 50
            case _:
                pass
        quiet += not acted(world.stirred())
        for _ in range(rng.randint(0, 2)):
            world.cycle()
    return quiet


@pytest.mark.law
def test_it_is_decided_as_by_a_scheduler_that_starts_now() -> None:
    seeds, quiet = (8, 10) if WHOLE else (3, 3)
    assert sum(quiet_cycles(seed) for seed in range(seeds)) >= quiet
