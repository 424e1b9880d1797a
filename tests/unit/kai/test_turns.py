"""Whose turn it is among a few jobs, told without looking at all who wait."""

from __future__ import annotations

import random

import pytest
from kai_cases import job, node, queue
from kai_plans import world

from pumice.kai.search.ordering import WorkOrder
from pumice.kai.search.runs import RankedJobs
from pumice.kai.search.turns import EqualTurns
from pumice.kai.view.jobs import JobView
from pumice.kai.view.world import KaiWorld


def cluster(seed: int, *, gpus: tuple[str, ...] = ("1",)) -> KaiWorld:
    """Departments of some queues, with jobs that run and jobs that wait, all of one pod."""
    rng = random.Random(seed)
    parts = [node("n1", gpu=200)]
    leaves = []
    for d in range(rng.randint(1, 3)):
        parts.append(queue(f"d{d}", quota=rng.choice((0, 4, 8))))
        for q in range(rng.randint(1, 3)):
            leaves.append(f"d{d}q{q}")
            parts.append(queue(leaves[-1], parent=f"d{d}", quota=rng.choice((0, 2, 4))))
    for n in range(24):
        runs = rng.random() < 0.4
        parts.append(job(f"j{n}", rng.choice(leaves), on=("n1",) if runs else (), gpu=rng.choice(gpus), minute=n))
    return world(*parts)


def turns(seen: KaiWorld, chosen: list[JobView], waiting: RankedJobs, told: EqualTurns | None) -> list[str]:
    """The chosen jobs as they are served, each of which counts in its queues from then on."""
    found = []

    def serve(one: JobView) -> None:
        found.append(one.name)
        for each in one.queue.chain():
            cpu, memory, gpu = each.allocated
            more = seen.next_request(one)
            each.allocated = (cpu + more[0], memory + more[1], gpu + more[2])

    before = {q.name: q.allocated for q in seen.queues.values()}
    if told is not None:
        rest = list(chosen)
        while rest:
            one = told.first(rest)
            rest.remove(one)
            serve(one)
    else:
        uids = {one.job.uid for one in chosen}
        order = WorkOrder.of_runs(seen, waiting.runs(), admits=lambda one: one.job.uid not in uids, more=chosen)
        for one in order:
            if one.job.uid in uids:
                serve(one)
    for each in seen.queues.values():
        each.allocated = before[each.name]
    return found


@pytest.mark.parametrize("seed", range(40))
def test_a_few_jobs_have_their_turns_as_among_all_who_wait(seed: int) -> None:
    seen = cluster(seed)
    waiting = RankedJobs(seen, lambda one: one.pending, victims=False)
    pending = [one for one in seen.jobs.values() if one.pending]
    chosen = random.Random(seed).sample(pending, 5)
    told = EqualTurns(seen, waiting)
    assert told.tell(chosen)
    assert turns(seen, chosen, waiting, told) == turns(seen, chosen, waiting, None)


def test_it_is_not_told_where_somebody_who_waits_asks_for_more() -> None:
    seen = cluster(1, gpus=("1", "1", "2"))
    waiting = RankedJobs(seen, lambda one: one.pending, victims=False)
    small = [one for one in seen.jobs.values() if one.pending and seen.next_request(one)[2] == 1]
    assert not EqualTurns(seen, waiting).tell(small[:2])


def test_it_is_not_told_where_bounds_of_queues_are_in_no_one_order() -> None:
    """Of two queues one may have more GPUs, and the other more of something else."""
    seen = world(
        *(node("n1", gpu=8), queue("a", limit=2), queue("b", limit=4)),
        *(job("x", "a"), job("y", "b", minute=1)),
    )
    waiting = RankedJobs(seen, lambda one: one.pending, victims=False)
    jobs = list(seen.jobs.values())
    assert EqualTurns(seen, waiting).tell(jobs)
    seen.queues["a"].allocatable, seen.queues["b"].allocatable = (9.0, 9.0, 1.0), (5.0, 9.0, 2.0)
    assert not EqualTurns(seen, waiting).tell(jobs)
