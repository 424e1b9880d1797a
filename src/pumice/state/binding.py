"""Equal tasks of several jobs that come to be bound on one node: what they have in common is written once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pumice.errors import IllegalMove
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.resources import Number
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state import ledger, sums
from pumice.state import writing as w
from pumice.state.counts import COUNTS, Items
from pumice.state.writing import find, put, take

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

_PENDING: Final = TaskStatus.PENDING
_BINDING: Final = TaskStatus.BINDING


def bind_on(state: ClusterState, tasks: Sequence[Task], node: Node) -> None:
    """Have equal, pending tasks be bound on a node; as allocating and confirming one by one, only faster.

    For tasks of jobs, that ask for something, while no room is held for anybody. Devices are the first that are free.
    :raises IllegalMove: one of them is not pending; nothing was changed.
    """
    for task in tasks:
        if task.status is not _PENDING:
            raise IllegalMove(f"task {task.key}: cannot go from {task.status.title} to {_BINDING.title} with others")
    klass, table, row, many = tasks[0].klass, state.table, node.row, len(tasks)
    idle, used, releasing, pipelined = COUNTS[_BINDING][:4]
    table.book(row, klass.items, idle * many, used * many, releasing * many, pipelined * many)
    sums.add(state.used_total, klass.items, used * many)
    ledger.show(table, row, klass, many)
    table.touched.add(row)
    if klass.requires_gpu:
        state.devices.take_in_turn(tasks, node)
    queues: dict[str, tuple[Queue, int]] = {}
    spaces: dict[str, int] = {}
    here, now, assumed, items = node.tasks, state.now, state.assumed, klass.items
    set_status, set_node, set_assumed_at, mark = w.set_status, w.set_node, w.set_assumed_at, state.mark
    for task in tasks:
        uid, job = task.uid, task.job
        set_status(task, _BINDING)
        set_node(task, node)
        set_assumed_at(task, now)
        put(here, uid, task)
        assumed[uid] = task
        sums.count(job, task, _PENDING, _BINDING)
        if task.sub_job is not None:
            sums.count(task.sub_job, task, _PENDING, _BINDING)
        _add(job._allocated, items)
        _add(job._held, items)
        waiting = job._pending
        if job._by_status[_PENDING]:
            sums.add(waiting, items, -1)
        else:  # nobody of it waits any more
            for d in waiting:
                waiting[d] = 0
        spaces[task.namespace] = spaces.get(task.namespace, 0) + 1
        queue: Queue | None = find(state.queues, job.queue) if job.in_session else None
        if queue is not None:
            queues[queue.name] = (queue, queues[queue.name][1] + 1 if queue.name in queues else 1)
            if not job._by_status[_PENDING]:
                take(queue.waiting, job.uid, None)
        mark(job)
    state.moment += many
    totals = [(state.namespace(name)._allocated, n) for name, n in spaces.items()]
    for queue, n in queues.values():
        totals += (queue._allocated, n), (queue._held, n), (queue._pending, -n)
        w.set_queue_version(queue, queue.version + n)
    for amounts, n in totals:
        sums.add(amounts, items, n)


def _add(amounts: dict[int, Number], items: Items) -> None:
    if amounts:
        sums.add(amounts, items, 1)
    else:
        amounts.update(items)
