"""What counts a task: groups by status and role."""

from __future__ import annotations

from pumice.model.job import TaskGroup
from pumice.model.status import STATUS_COUNT, TaskStatus
from pumice.model.task import Task
from pumice.state import writing as w
from pumice.state.writing import put, take

_PENDING = TaskStatus.PENDING


def count(group: TaskGroup, task: Task, before: TaskStatus, after: TaskStatus) -> None:
    """A task of the group went from one status to another."""
    uid = task.uid
    take(group._by_status[before], uid)
    put(group._by_status[after], uid, task)
    counts = group._role_counts[task.role]
    counts[before] -= 1
    counts[after] += 1
    if task.best_effort and (before is _PENDING) is not (after is _PENDING):
        _wait(group, counts, 1 if after is _PENDING else -1)
    w.set_group_version(group, group.version + 1)


def enter(group: TaskGroup, task: Task) -> None:
    """A task became one of the group, in the status that it has."""
    _come(group, task, 1)


def leave(group: TaskGroup, task: Task) -> None:
    """A task is no longer one of the group."""
    _come(group, task, -1)


def _come(group: TaskGroup, task: Task, sign: int) -> None:
    status = task.status
    if sign > 0:
        put(group._by_status[status], task.uid, task)
    else:
        take(group._by_status[status], task.uid)
    counts = group._role_counts.get(task.role)
    if counts is None:
        counts = group._role_counts[task.role] = [0] * (STATUS_COUNT + 1)
    counts[status] += sign
    if status is _PENDING and task.best_effort:
        _wait(group, counts, sign)
    w.set_group_version(group, group.version + 1)


def _wait(group: TaskGroup, counts: list[int], sign: int) -> None:
    counts[STATUS_COUNT] += sign
    w.set_pending_best_effort(group, group.pending_best_effort_count + sign)
