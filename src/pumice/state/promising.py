"""Room that is held for a task is promised to it and given back, in as few steps as there are.

What is held on a node counts there as what is promised does, so that the node's amounts stay as they are. As moves of
the task (`ledger.py`), only that its job does not count as changed: it is as it was when both are done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pumice.errors import IllegalMove
from pumice.model.node import Node
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state import writing as w
from pumice.state.counts import SUMS
from pumice.state.ledger import show
from pumice.state.sums import add, add_sums, count
from pumice.state.writing import put, take

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

_PENDING: Final = TaskStatus.PENDING
_PIPELINED: Final = TaskStatus.PIPELINED
_TO: Final = SUMS[_PENDING][_PIPELINED]
_BACK: Final = SUMS[_PIPELINED][_PENDING]


def promise_held(state: ClusterState, task: Task) -> Node:
    """Promise a pending task the room that is held for it; the node on which it is. Not for tasks of a sub-job.

    :raises IllegalMove: it is not pending, or nothing is held for it; nothing was changed.
    """
    held = state.rooms.get(task.uid)
    if task.status is not _PENDING or held is None:
        raise IllegalMove(f"task {task.key}: cannot be promised room that is not held for it")
    node = held[1]
    put(node.tasks, task.uid, task)
    _shift(state, task, node, 1)
    w.set_node(task, node)
    return node


def give_back_held(state: ClusterState, task: Task) -> None:
    """A task that was promised the room held for it is pending again, and the room still held.

    :raises IllegalMove: it was not; nothing was changed.
    """
    node = task.node
    if task.status is not _PIPELINED or node is None or task.uid not in state.rooms:
        raise IllegalMove(f"task {task.key}: was not promised room that is held for it")
    take(node.tasks, task.uid)
    _shift(state, task, node, -1)
    w.set_node(task, None)


def _shift(state: ClusterState, task: Task, node: Node, sign: int) -> None:
    """To what is promised (+1) or back to what is held (-1)."""
    klass, job, row = task.klass, task.job, node.row
    before, after, sums = (_PENDING, _PIPELINED, _TO) if sign > 0 else (_PIPELINED, _PENDING, _BACK)
    show(state.table, row, klass, sign)
    state.table.touched.add(row)
    add(state.held_rooms[job.queue], klass.items, -sign)
    w.set_status(task, after)
    count(job, task, before, after)
    add_sums(state, job, task, sums, 1)
