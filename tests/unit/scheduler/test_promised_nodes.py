"""A node that changes leaves promised places standing, unless it is their own or has idle room for who waits."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from promised_cluster import Cluster, acted, assembly, waiting
from test_promised_again import Counting, beside_another

from effort import WHOLE
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Repeated
from pumice.model.api import NodeObject, PodSpec
from pumice.scheduler.cycle import run_cycle
from pumice.testing import job, node
from steps import calls_of

CHANGES: list[dict[str, Any]] = [
    *({"annotations": {"seen": "later"}}, {"labels": {"a": "b"}}, {"taints": ["a=b:NoSchedule"]}),
    *({"unschedulable": True}, {"pods": 1}, {"cpu": 2}, {"memory": "1Gi"}),
]


@pytest.mark.parametrize("changed", CHANGES)
def test_no_action_is_run_when_a_node_changes_on_which_nobody_waits_and_which_has_no_room(
    changed: dict[str, Any],
) -> None:
    world = waiting().promised()
    for obj in (node("aside", **{"cpu": 1, **changed}), node("aside", cpu=1)):
        world.tell(obj)
        assert not acted(world.cycle())
        assert not acted(world.stirred())


@pytest.mark.parametrize("changed", CHANGES)
def test_actions_are_run_when_one_of_their_own_nodes_changes(changed: dict[str, Any]) -> None:
    world = waiting().promised()
    world.tell(node("n0", **{"cpu": 4, **changed}))
    assert acted(world.cycle())


def test_a_node_that_grows_until_there_is_room_for_one_of_them_is_used() -> None:
    world = waiting().promised()
    world.tell(node("aside", cpu=3))
    assert not acted(world.cycle())
    world.tell(node("aside", cpu=4))
    assert list(world.cycle().binds.values()) == ["aside"]


def test_a_node_with_room_that_lets_one_of_them_in_is_used() -> None:
    world = Cluster(assembly(), nodes=3)
    world.tell(node("roomy", cpu=8, unschedulable=True), *job("one", cpu=4, priority=100, phase="Inqueue"))
    assert len(world.cycle().evictions) == 1
    for _ in range(3):
        world.stirred()
    world.tell(node("roomy", cpu=8))
    assert world.cycle().binds == {"default/one-0": "roomy"}


def repeated(world: Cluster) -> int:
    """How many tasks are promised their places without a search in a cycle."""
    seen: list[int] = []

    def count(ssn: Session) -> None:
        seen.extend(len(kept) for kept in ssn.outcome.kept if isinstance(kept, Repeated))

    world.cycle(inspect=count)
    return sum(seen)


def test_beside_others_who_wait_only_those_on_a_node_that_changed_are_placed_anew() -> None:
    world = beside_another(6)
    world.tell(node("aside", cpu=1, labels={"a": "b"}))
    assert repeated(world) == 6
    world.tell(node("n3", cpu=4, labels={"a": "b"}))
    assert repeated(world) == 5
    world.tell(node("aside", cpu=1))
    assert repeated(world) == 6


def test_promises_that_stood_for_long_are_made_again_without_a_search_when_another_job_comes() -> None:
    world = waiting().promised()
    for number in range(6000):  # more than is kept of what happened to rows
        world.tell(node("aside", cpu=1, annotations={"seen": str(number)}))
        if number % 500 == 0:
            assert not acted(world.cycle())
    world.tell(*job("big", cpu=64, phase="Inqueue"))
    assert repeated(world) == 4


def all_promised(jobs: int) -> Cluster:
    world = Cluster(assembly(), nodes=jobs)
    for n in range(jobs):
        world.tell(*job(f"high{n}", cpu=4, priority=100, phase="Inqueue"))
    return world.promised()


@pytest.mark.parametrize(("made", "at_most"), [(all_promised, 5), (beside_another, 150)])
def test_a_node_that_changes_elsewhere_costs_next_to_nothing_for_each_promised_job(
    made: Callable[[int], Cluster], at_most: int
) -> None:
    def calls(jobs: int) -> int:
        world = made(jobs)
        world.tell(node("aside", cpu=1, labels={"a": "b"}))
        report, calls = calls_of(partial(run_cycle, world.state, world.assembly, world.runtime))
        assert len(report.pipelined) == jobs
        return calls

    assert (calls(25) - calls(5)) / 20 < at_most


POOLS = ("red", "blue")


def story(seed: int) -> tuple[int, int]:
    """Nodes that change under promised jobs and others: cycles that ran no action, tasks that were promised again."""
    rng = random.Random(seed)
    world, quiet = Counting(assembly(), nodes=0), 0
    calm = seed % 2 == 0  # nobody else waits, and there are mostly nodes without idle room
    world.counts = not calm

    def changed(name: str) -> NodeObject:
        more: dict[str, Any] = {"labels": {"pool": rng.choice(POOLS)}, "unschedulable": rng.random() < 0.1}
        if rng.random() < 0.1:
            more["taints"] = ["no:NoSchedule"]
        return node(name, cpu=4 if calm or rng.random() < 0.8 else rng.choice([2, 3, 6, 8]), **more)

    names = [f"n{n}" for n in range(rng.randint(4, 8))]
    for name in names:
        world.tell(node(name, cpu=4, labels={"pool": rng.choice(POOLS)}))
        world.tell(*job(f"low-{name}", on=name, cpu=4, priority=1, queue=rng.choice(["default", "other"])))

    def arrive(name: str, priority: int) -> None:
        asks: dict[str, Any] = {"tasks": rng.choice([1, 1, 2]), "cpu": 4 if calm else rng.choice([2, 4, 4, 9])}
        if rng.random() < 0.6:
            asks["spec"] = PodSpec(node_selector={"pool": rng.choice(POOLS)})
        world.tell(*job(name, priority=priority, phase="Inqueue", **asks))

    for n in range(rng.randint(1, 3)):
        arrive(f"j{n}", 100)
    for step in range(14):
        match rng.randint(0, 9):
            case 0 if world.terminating():
                world.ends(rng.choice(world.terminating()))
            case 1 if not calm or rng.random() < 0.2:
                arrive(f"late{step}", rng.choice([1, 100]))
            case 2:
                world.tell(node(f"x{step}", cpu=rng.choice([1, 2, 4]), labels={"pool": rng.choice(POOLS)}))
            case 3:
                world.tell(node("aside", cpu=rng.choice([1, 2, 3, 4]), annotations={"seen": str(step)}))
            case 4 if len(names) > 2:
                world.apply(world.world.remove(NodeObject, names.pop(rng.randrange(len(names)))))
            case 5 | 6 | 7:
                world.tell(changed(rng.choice(names)))
            case _:
                pass
        report = world.stirred()
        quiet += bool(report.pipelined) and not acted(report)
    return quiet, world.again


@pytest.mark.law
def test_whatever_becomes_of_nodes_it_is_decided_as_by_a_scheduler_that_starts_now() -> None:
    seeds, least = (200, 100) if WHOLE else (12, 1)
    quiet, again = map(sum, zip(*map(story, range(seeds)), strict=True))
    assert min(quiet, again) >= least
