"""The ledger: the one way in which a task goes from one status and place to another.

`counts.py` has the table of which sums a task counts in; this moves one task, `together.py` many at once, and
`sums.py` keeps what groups, queues and namespaces hold. Nothing else writes these sums. Entering and leaving the
cluster are moves too, from and to `OUT`; a job that enters or leaves its queue brings its sums along (`tally_job`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pumice.errors import IllegalMove
from pumice.model.node import Node
from pumice.model.status import TaskStatus
from pumice.model.task import Task, TaskClass
from pumice.state import writing as w
from pumice.state.counts import ALLOWED, COLUMNS, HOLDS, NOTHING, ON, OUT, THERE, Items
from pumice.state.sums import add, count, tally
from pumice.state.table import NodeTable
from pumice.state.writing import put, take

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

S = TaskStatus
_PENDING: Final = S.PENDING
_RELEASING: Final = S.RELEASING


def check(task: Task, status: TaskStatus) -> None:
    """:raises IllegalMove: a session may not take the task from its status to this one."""
    if not ALLOWED[task.status][status]:
        raise IllegalMove(f"task {task.key}: cannot go from {task.status.title} to {status.title}")


def shift(
    state: ClusterState,
    task: Task,
    before: int,
    after: int,
    node: Node | None,
    *,
    devices: Sequence[int] = (),
    evicted: bool = False,
) -> None:
    """Take a task from one status to another and to its place there; everything that counts it follows.

    *before* is its status, or `OUT` if nothing counts it yet.
    """
    old, place = task.node, node if THERE[after] else None
    stays = old is place and (before == OUT or COLUMNS[before][after] == NOTHING)
    if old is not place:
        if old is not None:
            _leave(state, task, before, old)
        if place is not None:
            _arrive(state, task, after, place, evicted)
    elif place is not None:
        _stay(state, task, COLUMNS[before][after], place, evicted)
    holds = state.rooms and task.uid in state.rooms and (before == _PENDING) is not (after == _PENDING)
    if holds and after != _PENDING:
        state._hold_follows(task, -1)
    if evicted is not task.evicted:
        w.set_evicted(task, evicted)
    if after != OUT:
        w.set_status(task, after)  # type: ignore[arg-type]
    if place is not old:
        w.set_node(task, place)
    if not stays and task.klass.requires_gpu:
        state.devices.follow(task, before, after, old, place, devices)
    if holds and after == _PENDING:
        state._hold_follows(task, 1)
    if task.job is not None:
        if before == _RELEASING:
            state.leaving.pop(task.uid, None)
        if after == _RELEASING:
            state.leaving[task.uid] = task
        count(task.job, task, before, after)
        if task.sub_job is not None:
            count(task.sub_job, task, before, after)
        tally(state, task.job, task, before, after, 1)


def _leave(state: ClusterState, task: Task, before: int, node: Node) -> None:
    """A task is no longer on a node, and counts nowhere there."""
    table, row, klass = state.table, node.row, task.klass
    take(node.tasks, task.uid, None)
    if used := ON[before][1]:
        add(state.used_total, klass.items, -used)
    if HOLDS[before] and not task.evicted:
        table.place(row, klass, -1)
        return
    table.book(row, klass.items, *COLUMNS[before][OUT])
    if task.evicted:
        _evict(table, row, klass.items, -1)
    else:
        show(table, row, klass, -1)
    table.touched.add(row)


def _arrive(state: ClusterState, task: Task, after: int, node: Node, evicted: bool) -> None:
    """A task is now on a node, and counts there."""
    table, row, klass = state.table, node.row, task.klass
    put(node.tasks, task.uid, task)
    if used := ON[after][1]:
        add(state.used_total, klass.items, used)
    if HOLDS[after] and not evicted:
        table.place(row, klass, 1)
        return
    table.book(row, klass.items, *ON[after])
    table.touched.add(row)
    if evicted:
        _evict(table, row, klass.items, 1)
        state.evicted_now.append(task)
    else:
        show(table, row, klass, 1)


def _stay(state: ClusterState, task: Task, moved: tuple[int, ...], node: Node, evicted: bool) -> None:
    """A task is where it was, in another status."""
    table, row, klass = state.table, node.row, task.klass
    if moved != NOTHING:
        table.book(row, klass.items, *moved)
        if used := moved[1]:
            add(state.used_total, klass.items, used)
    if evicted is not task.evicted:
        show(table, row, klass, -1 if evicted else 1)
        _evict(table, row, klass.items, 1 if evicted else -1)
        if evicted:
            state.evicted_now.append(task)
    table.touched.add(row)


def show(table: NodeTable, row: int, klass: TaskClass, sign: int) -> None:
    """Count (+1) or no longer count (-1) a pod where kube-scheduler would see it."""
    table.show(row, klass.nonzero_cpu, klass.nonzero_memory, sign)


def _evict(table: NodeTable, row: int, items: Items, sign: int) -> None:
    for d, v in items:
        table.evicted[d, row] += sign * v


def forget_eviction(state: ClusterState, task: Task) -> None:
    """What this session evicted is from now on simply terminating."""
    w.set_evicted(task, False)
    if task.node is not None:
        _evict(state.table, task.node.row, task.klass.items, -1)
        show(state.table, task.node.row, task.klass, 1)
        state.table.touched.add(task.node.row)


def confirm(state: ClusterState, task: Task) -> None:
    """An allocated task is now being bound: it counts in the same sums, so that only its status changes.

    :raises IllegalMove: it is not allocated.
    """
    if task.status is not S.ALLOCATED:
        raise IllegalMove(f"task {task.key}: cannot go from {task.status.title} to {S.BINDING.title}")
    w.set_status(task, S.BINDING)
    for group in (task.job, task.sub_job):
        if group is not None:
            count(group, task, S.ALLOCATED, S.BINDING)
