"""Pods that have their place already and come one after the other: what they add to is added to once for many.

At a start the whole cluster comes this way. Each task is where it belongs at once; only the sums and the columns of
the node table wait, until anything else happens to the state or the events are over (`ClusterState.apply_all`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus
from pumice.model.task import Task, TaskClass
from pumice.state import ledger
from pumice.state import writing as w
from pumice.state.writing import put

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState


class GatheredTasks:
    """Tasks that were taken in, and what has not been added for them yet."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._rows: dict[TaskClass, list[int]] = {}
        """Class -> the rows on which tasks of it came."""
        self._queued: dict[tuple[Queue, str, TaskClass], int] = {}
        """(Queue, namespace, class) -> how many came."""
        self._run: tuple[Job, TaskClass, Queue] | None = None
        self._came: list[int] = []
        self._since = 0

    def add(self, task: Task, status: TaskStatus, node: Node, queue: Queue) -> None:
        """A task of a job in *queue* that has its place. Not for tasks with GPUs or sub-jobs."""
        job, klass = task.job, task.klass
        w.set_status(task, status)
        w.set_node(task, node)
        put(node.tasks, task.uid, task)
        ledger.count(job, task, ledger.OUT, status)
        run = self._run
        if run is None or run[0] is not job or run[1] is not klass:
            self._end_run()
            self._run = job, klass, queue
            came = self._rows.get(klass)
            if came is None:
                came = self._rows[klass] = []
            self._came, self._since = came, len(came)
        self._came.append(node.row)

    def _end_run(self) -> None:
        """Add up what came of one job and class."""
        run = self._run
        if run is None:
            return
        job, klass, queue = run
        times = len(self._came) - self._since
        ledger.add_placed((job._total, job._allocated, job._held), klass.items, times)
        key = queue, job.namespace, klass
        self._queued[key] = self._queued.get(key, 0) + times
        self._state.mark(job)
        self._run = None

    def settle(self) -> None:
        """Add everything that was not added yet."""
        if self._run is None:
            return
        self._end_run()
        state = self._state
        for (queue, namespace, klass), times in self._queued.items():
            sums = queue._allocated, queue._held, state.namespace(namespace)._allocated, state.used_total
            ledger.add_placed(sums, klass.items, times)
            w.set_queue_version(queue, queue.version + 1)
        for klass, rows in self._rows.items():
            ledger.book_placed(state.table, klass, rows)
        self._queued, self._rows = {}, {}
