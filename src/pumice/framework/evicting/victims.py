"""Who is evicted first, and what a plan of evictions looks like to those who may refuse it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key

from pumice.engine.heap import GoHeap
from pumice.framework.points import table as points
from pumice.framework.session.rounds import not_back_from, tell_spared
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Operation, OperationKind
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.task import Task

ASKS = (points.VICTIM_QUEUE_ORDER, points.QUEUE_ORDER, points.JOB_ORDER, points.TASK_ORDER)


@dataclass(slots=True)
class EvictionScenario:
    """A plan as `scenario_validator` sees it: for whom, and who has to go."""

    action: str
    job: Job
    task: Task | None = None
    victims: dict[str, list[Task]] = field(default_factory=dict)
    """By the UID of their job; tasks without one under nothing."""


@dataclass(slots=True)
class EvictionContext:
    """What `unified_evictable` is asked about: kind is GangPreempt or GangReclaim."""

    kind: str
    job: Job
    task: Task | None = None
    hypernode: str = ""


def scenario_of(action: str, job: Job, operations: Iterable[Operation], task: Task | None = None) -> EvictionScenario:
    """The scenario that a statement's operations amount to."""
    scenario = EvictionScenario(action, job, task)
    for op in operations:
        if op.kind is OperationKind.EVICT:
            scenario.victims.setdefault(op.task.job_key, []).append(op.task)
    return scenario


def without_rounds(ssn: Session, job: Job, victims: list[Task]) -> list[Task]:
    """Those who may be evicted for a job without that jobs take turns; it is told for whom it may not."""
    spared = not_back_from(ssn, job)
    if not spared:
        return victims
    for uid in sorted({t.job_key for t in victims if t.job_key in spared}):
        tell_spared(ssn, job, uid)
    return [t for t in victims if t.job_key not in spared]


def victim_order(ssn: Session, tasks: Iterable[Task], preemptor: Task) -> list[Task]:
    """Candidates in the order in which they are to be evicted for *preemptor*, first to go first.

    Within a job the last task goes first; within a queue tasks of the worst job; between queues `victim_queue_order`
    decides. Tasks of no job in the session go before all others.
    """
    listed = list(tasks)
    if len(listed) < 2:
        return listed
    queue = _queue_of(ssn, preemptor)
    by_queue: dict[str, list[Task]] = {}
    for task in listed:
        job = task.job
        by_queue.setdefault(job.queue if job is not None and job.in_session else "", []).append(task)
    ordered = ssn.orders.sorted_tasks(by_queue.pop("", ()))[::-1]
    if queue is None:
        return ordered + _by_job(ssn, [t for group in by_queue.values() for t in group])
    names = list(by_queue)
    if len(names) > 1:

        def compare(left: str, right: str) -> int:
            return -1 if ssn.orders.victim_queue_less(ssn.queues[left], ssn.queues[right], queue) else 1

        names.sort(key=cmp_to_key(compare))
    for name in names:
        ordered += _by_job(ssn, by_queue[name])
    return ordered


def _queue_of(ssn: Session, preemptor: Task) -> Queue | None:
    job = preemptor.job
    return ssn.queues.get(job.queue) if job is not None and job.in_session else None


def _by_job(ssn: Session, tasks: list[Task]) -> list[Task]:
    """Tasks of one queue: those of the worst job first, the last task of a job first."""
    tasks = ssn.orders.sorted_tasks(tasks)[::-1]
    return ssn.orders.worst_job_first(tasks) if len({t.job_key for t in tasks}) > 1 else tasks


def victim_less(ssn: Session, preemptor: Task) -> Callable[[Task, Task], bool]:
    """The same order as a relation of two tasks, with what holds when it is asked."""
    queue, order = _queue_of(ssn, preemptor), ssn.orders.compare_jobs()

    def less(left: Task, right: Task) -> bool:
        a, b = left.job, right.job
        if a is b:
            return not ssn.orders.task_less(left, right)
        known_a, known_b = a is not None and a.in_session, b is not None and b.in_session
        if a is None or b is None or not (known_a and known_b):
            return not known_a if known_a != known_b else not ssn.orders.task_less(left, right)
        if queue is None or a.queue == b.queue:
            c = order(a, b)
            return c > 0 if c else not ssn.orders.task_less(left, right)
        return ssn.orders.victim_queue_less(ssn.queues[a.queue], ssn.queues[b.queue], queue)

    return less


def victim_queue(ssn: Session, victims: Sequence[Task], preemptor: Task) -> GoHeap[Task]:
    """Victims to be popped one by one; the order follows what the evictions change (shares of jobs)."""
    less = victim_less(ssn, preemptor)
    if len({t.job_key for t in victims}) == 1:
        place = {t.uid: n for n, t in enumerate(victim_order(ssn, victims, preemptor))}
        return GoHeap(lambda a, b: place[a.uid] < place[b.uid], victims)
    return GoHeap(less, victims)
