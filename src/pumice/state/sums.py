"""What jobs, their parts, queues and namespaces hold and wait for: the sums that moves of tasks change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from pumice.model.job import Job, TaskGroup
from pumice.model.queue import Queue
from pumice.model.resources import Number
from pumice.model.status import STATUS_COUNT, TaskStatus
from pumice.model.task import Task
from pumice.state import writing as w
from pumice.state.counts import NOTHING, ON, OUT, SUMS, Items
from pumice.state.writing import find, put, take

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

_PENDING: Final = TaskStatus.PENDING


def count(group: TaskGroup, task: Task, before: int, after: int) -> None:
    """A task of the group went from one status to another, came (from `OUT`) or went."""
    uid, best_effort = task.uid, task.best_effort
    counts = group._role_counts.get(task.role)
    if counts is None:
        counts = group._role_counts[task.role] = [0] * (STATUS_COUNT + 1)
    waits = 0
    if before != OUT:
        take(group._by_status[before], uid)
        counts[before] -= 1
        if best_effort and before == _PENDING:
            waits -= 1
    if after != OUT:
        put(group._by_status[after], uid, task)
        counts[after] += 1
        if best_effort and after == _PENDING:
            waits += 1
    if waits:
        counts[STATUS_COUNT] += waits
        w.set_pending_best_effort(group, group.pending_best_effort_count + waits)
    w.set_group_version(group, group.version + 1)


def tally(state: ClusterState, job: Job, task: Task, before: int, after: int, times: int) -> None:
    """Move *times* equal requests of a job from the sums of one status to those of another."""
    moved = SUMS[before][after]
    if moved != NOTHING:
        if not state.adds_later:
            add_sums(state, job, task, moved, times)
        elif (last := state.moves) is not None and last.is_of(job, task, moved):
            last.times += times
        else:
            add_up(state)
            state.moves = EqualMoves(job, task, moved, times)
    if task.best_effort:
        if job.pending_best_effort_count:
            state.best_effort[job.uid] = job
        else:
            state.best_effort.pop(job.uid, None)
    state.mark(job)


class EqualMoves:
    """Tasks of one job and class that moved alike, one after the other, and count in no sum for it yet."""

    __slots__ = ("job", "moved", "task", "times")

    def __init__(self, job: Job, task: Task, moved: tuple[int, ...], times: int) -> None:
        self.job, self.task, self.moved, self.times = job, task, moved, times

    def is_of(self, job: Job, task: Task, moved: tuple[int, ...]) -> bool:
        """Would this be another one of them?"""
        return job is self.job and moved is self.moved and task.klass is self.task.klass


def add_up(state: ClusterState) -> None:
    """Add what tasks that moved lately change in the sums."""
    last, state.moves = state.moves, None
    if last is not None:
        add_sums(state, last.job, last.task, last.moved, last.times)


def add_sums(state: ClusterState, job: Job, task: Task, moved: tuple[int, ...], times: int) -> None:
    """Add what a move changes to the sums of job, namespace and queue."""
    allocated, held, pending, total = moved
    queue: Queue | None = find(state.queues, job.queue) if job.in_session else None
    sums: list[tuple[dict[int, Number], int]] = []
    if allocated:
        sums += (job._allocated, allocated), (state.namespace(task.namespace)._allocated, allocated)
        if queue is not None:
            sums.append((queue._allocated, allocated))
    if held:
        sums.append((job._held, held))
        if queue is not None:
            sums.append((queue._held, held))
    if pending:
        sums.append((job._pending, pending))
        if queue is not None:
            sums.append((queue._pending, pending))
            _wait(queue, job)
    if total:
        sums.append((job._total, total))
    items = task.klass.items
    for amounts, sign in sums:
        by = sign * times
        if by == 1 and not amounts:
            amounts.update(items)
            continue
        for d, v in items:
            amounts[d] = amounts[d] + by * v if d in amounts else by * v
    if queue is not None:
        w.set_queue_version(queue, queue.version + 1)


def _wait(queue: Queue, job: Job) -> None:
    """Keep the list of jobs with pending tasks."""
    if job._by_status[_PENDING]:
        put(queue.waiting, job.uid, job)
    else:
        take(queue.waiting, job.uid, None)


def tally_job(queue: Queue, job: Job, sign: int) -> None:
    """A job with all that it counts enters (+1) or leaves (-1) its queue."""
    if sign > 0:
        put(queue._jobs, job.uid, job)
        _wait(queue, job)
    else:
        take(queue._jobs, job.uid, None)
        take(queue.waiting, job.uid, None)
    for into, what in ((queue._allocated, job._allocated), (queue._held, job._held), (queue._pending, job._pending)):
        if what and (sign > 0 or any(what.values())):  # of a job that leaves, nothing is left most often
            add(into, tuple(what.items()), sign)
    w.set_queue_version(queue, queue.version + 1)


def count_in_queue(queue: Queue, items: Sequence[tuple[int, Number]], sign: int) -> None:
    """Count (+1) or no longer count (-1) amounts as held by a queue; for a moment, while a question is put."""
    add(queue._held, items, sign)
    w.set_queue_version(queue, queue.version + 1)


def add(into: dict[int, Number], items: Sequence[tuple[int, Number]], times: int) -> None:
    """Add amounts so many times, in place."""
    for d, v in items:
        into[d] = into[d] + times * v if d in into else times * v


def count_moved(state: ClusterState, task: Task, before: int, after: int, times: int) -> None:
    """So many tasks of a job, like this one to who counts them, went from one status to another, came or went.

    Where they are, and which tasks the job has in which status, is known already. Not for sub-jobs.
    """
    job, used = task.job, ON[after][1] - ON[before][1]
    counts = job._role_counts[task.role]
    if before != OUT:
        counts[before] -= times
    if after != OUT:
        counts[after] += times
    if used:
        add(state.used_total, task.klass.items, used * times)
    w.set_group_version(job, job.version + times)
    tally(state, job, task, before, after, times)


def count_placed(job: Job, role: str, status: TaskStatus, times: int) -> None:
    """So many tasks of a role, which are among its own already, came to a job with their place."""
    counts = job._role_counts.get(role)
    if counts is None:
        counts = job._role_counts[role] = [0] * (STATUS_COUNT + 1)
    counts[status] += times
    w.set_group_version(job, job.version + 1)


def add_placed(sums: Iterable[dict[int, Number]], items: Items, times: int) -> None:
    """So many tasks that have their place count in sums of what is allocated, held or used."""
    for d, v in items:
        more = times * v
        for each in sums:
            each[d] = each.get(d, 0) + more
