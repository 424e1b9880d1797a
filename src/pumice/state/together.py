"""Moves of many tasks at once: as `ledger.shift` one by one, from the same table, only faster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pumice.errors import IllegalMove
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.status import STATUS_COUNT, TaskStatus
from pumice.model.task import Task, TaskClass
from pumice.state import writing as w
from pumice.state.counts import ON
from pumice.state.ledger import show
from pumice.state.sums import add, count, tally
from pumice.state.table import NodeTable
from pumice.state.writing import empty, put, put_all, take

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

S = TaskStatus
_PENDING: Final = S.PENDING
_FEW: Final = 8
"""Up to so many rows are written one by one."""


def shift_many(state: ClusterState, tasks: Sequence[Task], nodes: Sequence[Node], status: TaskStatus) -> None:
    """Give equal, pending tasks of one job their places at once; as `shift` one by one, only faster.

    :raises IllegalMove: one of them is not pending; nothing was changed.
    """
    for task in tasks:
        if task.status is not _PENDING:
            raise IllegalMove(f"task {task.key}: cannot go from {task.status.title} to {status.title} with others")
    first = tasks[0]
    klass, job, table, k = first.klass, first.job, state.table, len(tasks)
    _book_many(table, klass, [node.row for node in nodes], status)
    if used := ON[status][1]:
        add(state.used_total, klass.items, used * k)
    set_status, set_node = w.set_status, w.set_node
    for task, node in zip(tasks, nodes, strict=True):
        set_status(task, status)
        set_node(task, node)
        put(node.tasks, task.uid, task)
        if task.sub_job is not None:
            count(task.sub_job, task, _PENDING, status)
    _count_many(job, tasks, _PENDING, status)
    if first.best_effort:
        for role, n in Counter([task.role for task in tasks]).items():
            job._role_counts[role][STATUS_COUNT] -= n
        w.set_pending_best_effort(job, job.pending_best_effort_count - k)
    tally(state, job, first, _PENDING, status, k)


def book_placed(table: NodeTable, klass: TaskClass, rows: Sequence[int]) -> None:
    """Tasks of a class came that have their place: one on each of the rows, which may be named several times."""
    _book_many(table, klass, rows, S.RUNNING)


def _book_many(table: NodeTable, klass: TaskClass, rows: Sequence[int], status: TaskStatus) -> None:
    """Tasks of a class are now on rows in a status: one on each, which may be named several times."""
    idle, used, releasing, pipelined = ON[status]
    several = len(set(rows)) < len(rows)
    if len(rows) <= _FEW or several:
        on = Counter(rows)
        if len(on) <= _FEW:
            for row, n in sorted(on.items()):
                table.book(row, klass.items, idle * n, used * n, releasing * n, pipelined * n)
                show(table, row, klass, n)
                table.touched.add(row)
            return
        table.book_many(list(on), list(on.values()), klass, ON[status])
    else:
        table.book_many(rows, 1, klass, ON[status])
    table.in_flux += (releasing + pipelined) * len(rows)


def confirm_many(tasks: Sequence[Task]) -> None:
    """Allocated tasks of one job are now being bound; as `confirm` one by one, only faster. Not for sub-jobs.

    :raises IllegalMove: one of them is not allocated; nothing was changed.
    """
    for task in tasks:
        if task.status is not S.ALLOCATED:
            raise IllegalMove(f"task {task.key}: cannot go from {task.status.title} to Binding")
    set_status = w.set_status
    for task in tasks:
        set_status(task, S.BINDING)
    _count_many(tasks[0].job, tasks, S.ALLOCATED, S.BINDING)


def _count_many(job: Job, tasks: Sequence[Task], before: TaskStatus, after: TaskStatus) -> None:
    """Tasks of a job, all of them different, went from one status to another."""
    uids = [task.uid for task in tasks]
    were = job._by_status[before]
    if len(were) == len(tasks):
        empty(were)
    else:
        for uid in uids:
            take(were, uid)
    put_all(job._by_status[after], zip(uids, tasks, strict=True))
    for role, n in Counter([task.role for task in tasks]).items():
        counts = job._role_counts[role]
        counts[before] -= n
        counts[after] += n
    w.set_group_version(job, job.version + 1)
