"""Whom KAI's actions may touch, and in what they leave him, on random clusters full of work that may be evicted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from kai_worlds import random_case
from test_laws_of_kai import conf_of, look

from effort import WHOLE
from pumice.framework.arguments import Arguments
from pumice.kai.plugins.minruntime import MinRuntime
from pumice.kai.view.jobs import GroupSet, JobView, Member
from pumice.kai.view.tasks import ACTIVE, TaskStage, TaskView
from pumice.kai.view.world import KaiWorld
from pumice.model.kai import TopologyConstraint

pytestmark = pytest.mark.law
SEEDS = int(os.environ.get("PUMICE_KAI_SEEDS", "60" if WHOLE else "20"))
NAMES: dict[str, tuple[str, ...]] = {
    "zone": ("zone",),
    "rack": ("zone", "rack"),
    "kubernetes.io/hostname": ("zone", "rack", "kubernetes.io/hostname"),
}
"""Level -> the labels that tell a domain of it."""


def had_a_place(task: TaskView) -> bool:
    """Was it on a node when the cycle began?"""
    return bool(task.task.pod.spec.node_name)


def leaves(task: TaskView) -> bool:
    """Is it on its way out, whatever is decided?"""
    return task.task.pod.metadata.deletion_timestamp is not None


def evicted(world: KaiWorld) -> list[TaskView]:
    """Who lost a place in this cycle."""
    return [t for t in world.tasks.values() if t.stage is TaskStage.RELEASING and t.virtual]


def helped(world: KaiWorld) -> list[JobView]:
    """Jobs that wait for room now and had none."""
    return [
        job
        for job in world.jobs.values()
        if any(t.stage is TaskStage.PIPELINED and not had_a_place(t) for t in job.tasks.values())
    ]


def look_by(seed: int, actions: str, compat: str | None, see: Any) -> Any:
    case = random_case(seed, actions=actions, full=True)
    return look(case, see, conf_of(case, compat))


BOTH = pytest.mark.parametrize("compat", [None, "kai"])


@BOTH
@pytest.mark.parametrize("seed", range(0, SEEDS, 4))
def test_preempt_takes_from_the_same_queue_and_from_lower_priority(seed: int, compat: str | None) -> None:
    def wrong(world: KaiWorld) -> list[str]:
        winners = helped(world)
        return [
            task.uid
            for task in evicted(world)
            if not any(task.job.queue is w.queue and task.job.priority < w.priority for w in winners)
        ]

    assert look_by(seed, "preempt", compat, wrong) == []


@BOTH
@pytest.mark.parametrize("seed", range(0, SEEDS, 4))
def test_nobody_who_may_not_be_evicted_is(seed: int, compat: str | None) -> None:
    def wrong(world: KaiWorld) -> list[str]:
        moved = [t for t in world.tasks.values() if t.virtual and had_a_place(t)]
        return [t.uid for t in moved if not t.job.preemptible]

    assert look_by(seed, "allocate, consolidation, reclaim, preempt", compat, wrong) == []


@BOTH
@pytest.mark.parametrize("seed", range(0, SEEDS, 4))
def test_a_victim_keeps_what_it_needs_or_nothing(seed: int, compat: str | None) -> None:
    """A gang that was whole shrinks to its minimum, in pods and sub-groups, or goes."""

    def wrong(world: KaiWorld) -> list[str]:
        found = []
        for job in {id(t.job): t.job for t in evicted(world)}.values():
            was_whole = _would_be_satisfied(
                job.root, {t.uid for t in job.tasks.values() if had_a_place(t) and not leaves(t)}
            )
            if was_whole and job.active and not job.root.satisfied:
                found.append(job.job.uid)
        return found

    assert look_by(seed, "allocate, reclaim, preempt", compat, wrong) == []


def _would_be_satisfied(member: Member, active: set[str]) -> bool:
    if isinstance(member, GroupSet):
        return sum(_would_be_satisfied(m, active) for m in member.members) >= member.need
    return sum(t.uid in active for t in member.tasks) >= member.minimum


@BOTH
@pytest.mark.parametrize("seed", range(0, SEEDS, 4))
@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_who_has_just_begun_keeps_its_minimum(seed: int, compat: str | None, action: str) -> None:
    def wrong(world: KaiWorld) -> list[str]:
        plugin = MinRuntime(Arguments())
        plugin._known = {}
        winners, found = helped(world), []
        for job in {id(t.job): t.job for t in evicted(world)}.values():
            times = [
                plugin.preempt_time(job.queue) if action == "preempt" else plugin.reclaim_time(w.queue, job.queue)
                for w in winners
                if (w.queue is job.queue) is (action == "preempt")
            ]
            protected = job.last_start is not None and world.now < job.last_start + min(times, default=0.0)
            kept = all(p.count(ACTIVE) >= p.minimum for p in job.pod_sets())
            if protected and not kept:
                found.append(job.job.uid)
        return found

    assert look_by(seed, action, compat, wrong) == []


@BOTH
@pytest.mark.parametrize("seed", range(0, SEEDS, 4))
def test_who_requires_a_domain_is_placed_in_one(seed: int, compat: str | None) -> None:
    def wrong(world: KaiWorld) -> list[str]:
        return [
            f"{job.job.uid}/{member.name}"
            for job in world.jobs.values()
            for member, constraint in _required(job.root)
            if len(_domains(member, constraint)) > 1
        ]

    assert look_by(seed, "allocate, consolidation, reclaim, preempt", compat, wrong) == []


def _required(member: Member) -> Iterator[tuple[Member, TopologyConstraint]]:
    if member.topology is not None and member.topology.required_topology_level:
        yield member, member.topology
    for each in member.members if isinstance(member, GroupSet) else ():
        yield from _required(each)


def _domains(member: Member, constraint: TopologyConstraint) -> set[tuple[str | None, ...]]:
    """The domains of those whom this cycle placed; who was there before may be anywhere."""
    labels = NAMES[constraint.required_topology_level]
    placed = [t for t in member.active_tasks() if not had_a_place(t) and t.node is not None]
    return {tuple(t.node.labels.get(label) for label in labels) for t in placed if t.node is not None}
