"""What a waiting job costs that its queue may not take: one question for all of its like."""

from __future__ import annotations

from collections import Counter

import pytest

from pumice import Job, Plugin, Queue, Session, Task, Verdict, reject
from pumice.testing import Scenario

asked: Counter[str] = Counter()


class Full(Plugin):
    """Queues are full; its answer depends on queue and class alone."""

    name = "full"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_allocatable_fn(self.name, self._allocatable, max_tasks=lambda queue, task: 0)
        ssn.add_pre_predicate_fn(self.name, self._seen)

    def _allocatable(self, queue: Queue, task: Task) -> Verdict:
        asked["allocatable"] += 1
        return reject(f"{queue.name} is full")

    def _seen(self, task: Task) -> None:
        asked["tried"] += 1


class Prepares(Full):
    """The same, and wants to be told of every job that is tried."""

    name = "prepares"

    def on_session_open(self, ssn: Session) -> None:
        super().on_session_open(ssn)
        ssn.add_pre_job_allocation_fn(self.name, self._prepare)

    def _prepare(self, job: Job) -> None:
        asked["prepared"] += 1


def waiting() -> Scenario:
    s = Scenario()
    s.node("n0", cpu=64)
    for n in range(30):
        s.job(f"j{n:02d}", cpu=1 + n % 3, phase="Inqueue")
    return s


def test_jobs_of_one_task_that_their_queue_may_not_take_cost_one_question_a_class() -> None:
    asked.clear()
    cycle = waiting().run(plugins=["gang", Full])
    assert not cycle.binds
    assert asked == {"allocatable": 3}
    for n in range(30):
        assert "default is full" in cycle.why(f"j{n:02d}").text


def test_who_wants_to_be_told_of_jobs_that_are_tried_is_told_although_the_queue_is_full() -> None:
    asked.clear()
    cycle = waiting().run(plugins=["gang", Prepares])
    assert not cycle.binds
    assert asked["prepared"] >= 3
    assert "default is full" in cycle.why("j29").text


@pytest.mark.parametrize("compat", [None, "volcano"])
@pytest.mark.parametrize(("asked", "bound"), [(True, {"default/small-0": "n0"}), (False, {})])
def test_where_nobody_is_asked_whether_a_gang_may_wait_it_holds_what_it_was_given(
    asked: bool, bound: dict[str, str], compat: str | None
) -> None:
    """It needs more than there is, and keeps others from what there is until the cycle ends."""
    scenario = Scenario().node("n0", cpu=2).job("wide", tasks=4, cpu=1, priority=5).job("small", cpu=1, priority=1)
    gang = {"name": "gang", "enableJobPipelined": asked}
    assert scenario.run(actions=["allocate"], plugins=["priority", gang, "predicates"], compat=compat).binds == bound
