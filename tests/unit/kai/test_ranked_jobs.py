"""Jobs kept in order while some change: as if all were put in order anew."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kai_cases import job, node, queue
from kai_plans import world

from pumice.kai.search.work_order import RankedJobs, WorkOrder
from pumice.kai.view.jobs import JobView
from pumice.kai.view.statement import ChangePlan
from pumice.kai.view.world import KaiWorld

PRIORITIES = ("low", "train", "build")


def made(seed: int) -> KaiWorld:
    """Queues of two levels; jobs of a few sizes, some of which run."""
    draw = random.Random(seed)
    parts: list[dict[str, Any]] = [node(f"n{n}", gpu=40) for n in range(3)]
    parts += [queue("top"), queue("other"), queue("a", parent="top"), queue("b", parent="top")]
    for n in range(30):
        pods = draw.randint(1, 3)
        on = tuple(draw.choice(["n0", "n1", "n2"]) for _ in range(draw.choice([0, 0, pods])))
        where, size = draw.choice(["a", "b", "other"]), draw.choice(["1", "1", "2"])
        more: dict[str, Any] = {"least": draw.randint(1, pods), "priority": draw.choice(PRIORITIES)}
        parts.append(job(f"j{n:02d}", where, on=on, pods=pods, gpu=size, minute=draw.randint(0, 59), **more))
    return world(*parts)


def waits(job: JobView) -> bool:
    return job.pending


def gives(job: JobView) -> bool:
    return job.preemptible and job.active


def shuffle(seen: KaiWorld, draw: random.Random) -> list[JobView]:
    """Somebody starts or is evicted, in mind; who."""
    plan = ChangePlan(seen)
    chosen = draw.sample(list(seen.jobs.values()), 3)
    for one in chosen:
        for task in one.tasks.values():
            if task.node is None:
                plan.pipeline(task, seen.nodes.nodes[0])
            elif draw.random() < 0.5 and task.stage.value == "Running":
                plan.evict(task, "test")
    return chosen


@pytest.mark.parametrize("victims", [False, True])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.part(4)
def test_who_is_told_of_changes_has_all_in_the_order_of_one_who_looks_anew(seed: int, victims: bool) -> None:
    seen, draw = made(seed), random.Random(seed)
    belongs = gives if victims else waits
    kept = RankedJobs(seen, belongs, victims=victims)
    kept.listed()
    for _ in range(6):
        kept.learn(shuffle(seen, draw))
        anew = RankedJobs(seen, belongs, victims=victims).listed()
        flat = {name: [j.name for _, j in listed] for name, listed in kept.listed().items() if listed}
        assert flat == {name: [j.name for _, j in listed] for name, listed in anew.items()}


@pytest.mark.parametrize("seed", range(12))
def test_jobs_that_ask_for_the_same_are_passed_as_job_by_job(seed: int) -> None:
    """A few jobs are of interest; the others only have their turn, and it is nobody else's meanwhile."""
    seen, draw = made(seed), random.Random(seed)
    wanted = draw.sample([j for j in seen.jobs.values() if j.pending], 4)
    names = {j.name for j in wanted}
    listed = RankedJobs(seen, waits, victims=False).listed()

    def walk(quickly: bool) -> list[str]:
        order = WorkOrder.of_listed(seen, listed, admits=lambda j: j.name not in names, more=wanted)
        came = []
        while order:
            one = order.pop()
            if one.name in names:
                came.append(one.name)
            elif quickly:
                order.pass_likes(one)
        return came

    assert walk(quickly=True) == walk(quickly=False)
    assert sorted(walk(quickly=True)) == sorted(names)
