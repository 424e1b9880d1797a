"""Equal tasks of several jobs that come to be bound: what they have in common is written once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from pumice.errors import IllegalMove
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state import ledger, sums
from pumice.state import writing as w
from pumice.state.counts import COUNTS
from pumice.state.writing import find, put, take

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

Placed: TypeAlias = Sequence[tuple[Node, Sequence[Task]]]
"""Nodes with the tasks that go there."""
_PENDING: Final = TaskStatus.PENDING
_BINDING: Final = TaskStatus.BINDING


def bind_equal(state: ClusterState, placed: Placed) -> None:
    """Have equal, pending tasks be bound; as allocating and confirming one by one, only faster.

    For tasks of jobs, that ask for something, while no room is held for anybody. Devices are the first that are free.
    :raises IllegalMove: one of them is not pending; nothing was changed.
    """
    for _, tasks in placed:
        for task in tasks:
            if task.status is not _PENDING:
                raise IllegalMove(f"task {task.key}: cannot go from {task.status.title} to Binding with others")
    queues: dict[str, tuple[Queue, int]] = {}
    spaces: dict[str, int] = {}
    for node, tasks in placed:
        _take_room(state, tasks, node)
        for task in tasks:
            _bind(state, task, node)
            spaces[task.namespace] = spaces.get(task.namespace, 0) + 1
            queue: Queue | None = find(state.queues, task.job.queue) if task.job.in_session else None
            if queue is not None:
                queues[queue.name] = (queue, queues[queue.name][1] + 1 if queue.name in queues else 1)
                if not task.job._by_status[_PENDING]:
                    take(queue.waiting, task.job.uid, None)
    state.moment += sum(spaces.values())
    items = placed[0][1][0].klass.items
    for name, n in spaces.items():
        sums.add(state.namespace(name)._allocated, items, n)
    for queue, n in queues.values():
        for amounts, sign in ((queue._allocated, 1), (queue._held, 1), (queue._pending, -1)):
            sums.add(amounts, items, sign * n)
        w.set_queue_version(queue, queue.version + n)


def _take_room(state: ClusterState, tasks: Sequence[Task], node: Node) -> None:
    """Have a node, and its devices, count tasks that come."""
    klass, table, row, many = tasks[0].klass, state.table, node.row, len(tasks)
    idle, used, releasing, pipelined = COUNTS[_BINDING][:4]
    table.book(row, klass.items, idle * many, used * many, releasing * many, pipelined * many)
    sums.add(state.used_total, klass.items, used * many)
    ledger.show(table, row, klass, many)
    table.touched.add(row)
    if klass.requires_gpu:
        state.devices.take_in_turn(tasks, node)


def _bind(state: ClusterState, task: Task, node: Node) -> None:
    """Have a task, and its job, be what they are when it is bound; its queue and namespace do not count it yet."""
    uid, job, items = task.uid, task.job, task.klass.items
    w.set_status(task, _BINDING)
    w.set_node(task, node)
    w.set_assumed_at(task, state.now)
    put(node.tasks, uid, task)
    state.assumed[uid] = task
    sums.count(job, task, _PENDING, _BINDING)
    if task.sub_job is not None:
        sums.count(task.sub_job, task, _PENDING, _BINDING)
    for amounts in (job._allocated, job._held):
        if amounts:
            sums.add(amounts, items, 1)
        else:
            amounts.update(items)
    waiting = job._pending
    if job._by_status[_PENDING]:
        sums.add(waiting, items, -1)
    else:  # nobody of it waits any more
        for d in waiting:
            waiting[d] = 0
    state.mark(job)
