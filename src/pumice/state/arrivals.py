"""Pods that have their place already and come one after the other: what they add to is added to once for many.

At a start the whole cluster comes this way. Each task is where it belongs at once; only the sums and the columns of
the node table wait, until anything else happens to the state or the events are over (`ClusterState.apply_all`).
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING

from msgspec.structs import force_setattr

from pumice.model.api import Pod, PodSpec
from pumice.model.events import ClusterEvent, Seen
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus
from pumice.model.task import Task, TaskClass
from pumice.state import writing as w
from pumice.state.counts import OUT
from pumice.state.nodes import NodeOffer
from pumice.state.sums import add_placed, count_placed
from pumice.state.together import book_placed
from pumice.state.writing import find, put, put_all

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

S = TaskStatus


class _Run:
    """Tasks that come one after the other, each alike to those who count it but for its node."""

    __slots__ = ("before", "job", "klass", "last", "queue", "role", "rows", "said", "status")

    def __init__(self, job: Job, task: Task, status: TaskStatus, queue: Queue, rows: list[int]) -> None:
        self.job, self.klass, self.role, self.status, self.queue = job, task.klass, task.role, status, queue
        self.rows, self.before = rows, len(rows)
        """The rows on which tasks of the class came, those of this run at the end; and how many came before it."""
        self.last: Task | None = None
        """A task of it whose likes need not be read."""
        self.said: PodSpec | None = None
        """What the spec of its pod says; its place is that of whoever it is compared with."""

    def remember(self, task: Task) -> None:
        """Others may say of themselves what this one does."""
        spec = task.pod.spec
        readable = not task.invalid and spec.scheduling_group is None
        self.last, self.said = (task, copy(spec)) if readable else (None, None)


class GatheredTasks:
    """Tasks that were taken in, and what has not been added for them yet."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._rows: dict[TaskClass, list[int]] = {}
        """Class -> the rows on which tasks of it came."""
        self._queued: dict[tuple[Queue, str, TaskClass], int] = {}
        """(Queue, namespace, class) -> how many came."""
        self._run: _Run | None = None
        self.last_offer: tuple[object, object, NodeOffer] | None = None
        """What the last node without annotations wrote that it offers, and what that is."""
        self._alike = 0
        """How many pods were not read."""

    def take(self, task: Task, status: TaskStatus, node: Node) -> bool:
        """Take in a task that has its place. False, and nothing happened, where it is not for gathering."""
        run = self._run
        if (
            run is None
            or run.klass is not task.klass
            or run.job.uid != task.job_key
            or run.role != task.role
            or run.status is not status
        ):
            run = self._begin(task, status)
            if run is None:
                return False
        job, uid = run.job, task.uid
        w.set_job(task, job)
        w.set_status(task, status)
        w.set_node(task, node)
        put(job._tasks, uid, task)
        put(job._by_status[status], uid, task)
        put(node.tasks, uid, task)
        run.rows.append(node.row)
        if run.klass.requires_gpu:
            self._state.devices.follow(task, OUT, status, None, node, ())
        run.remember(task)
        return True

    def take_likes(self, events: Iterator[ClusterEvent]) -> ClusterEvent | None:
        """Take in pods that say of themselves what the last one did, but for their names, their ages and their places.

        The first event that is another, or of a pod that was heard of before; None where there is none.
        """
        run = self._run
        if run is None or run.last is None or run.said is None:
            return next(events, None)
        state, last, said, rows = self._state, run.last, run.said, run.rows
        known, by_key, by_name, problems = state.tasks, state.task_by_key, state.table.by_name, state.problems
        like, beside, counts_gpus = last.pod.metadata, last._beside, run.klass.requires_gpu
        labels, notes, namespace, phase = like.labels, like.annotations, like.namespace, last.pod.status.phase
        uids: list[str] = []
        taken: list[Task] = []
        try:
            for event in events:
                if event.__class__ is not Seen or event.object.__class__ is not Pod:
                    return event
                pod = event.object
                meta, spec = pod.metadata, pod.spec
                if (
                    meta.annotations is not notes  # equal ones are one object
                    or meta.labels is not labels
                    or meta.namespace != namespace
                    or meta.deletion_timestamp is not None
                    or pod.status.phase != phase
                ):
                    return event
                place = spec.node_name
                force_setattr(said, "node_name", place)
                if said != spec:
                    return event
                key = f"{namespace}/{meta.name}"
                node: Node | None = find(by_name, place)
                if node is None or (problems and ("Pod", key) in problems):
                    return event
                try:
                    task = beside(pod, key, node)
                except Exception:  # a time or a name that is none: whoever reads it says so
                    return event
                uid = task.uid
                if by_key.setdefault(key, task) is not task:
                    return event
                if put(known, uid, task) is not task:
                    del by_key[key]
                    return event
                put(node.tasks, uid, task)
                rows.append(node.row)
                uids.append(uid)
                taken.append(task)
                if counts_gpus:
                    state.devices.follow(task, OUT, run.status, None, node, ())
            return None
        finally:
            self._alike += len(taken)
            for tasks in (run.job._tasks, run.job._by_status[run.status]):
                put_all(tasks, zip(uids, taken, strict=True))

    def _begin(self, task: Task, status: TaskStatus) -> _Run | None:
        """Begin a run; None where such tasks are counted in more than is gathered here."""
        state = self._state
        job: Job | None = find(state.jobs, task.job_key)
        if job is None or not job.in_session or job.policies or not (status is S.RUNNING or status is S.BOUND):
            return None
        queue: Queue | None = find(state.queues, job.queue)
        if queue is None:
            return None
        self._end_run()
        state.table.ensure_width()
        rows = self._rows.get(task.klass)
        if rows is None:
            rows = self._rows[task.klass] = []
        self._run = _Run(job, task, status, queue, rows)
        return self._run

    def _end_run(self) -> None:
        """Add up what came of one job and class."""
        run = self._run
        if run is None:
            return
        job, klass = run.job, run.klass
        times = len(run.rows) - run.before
        count_placed(job, run.role, run.status, times)
        add_placed((job._total, job._allocated, job._held), klass.items, times)
        key = run.queue, job.namespace, klass
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
            add_placed(sums, klass.items, times)
            w.set_queue_version(queue, queue.version + 1)
        for klass, rows in self._rows.items():
            book_placed(state.table, klass, rows)
        self._queued, self._rows = {}, {}

    def end(self) -> int:
        """The events are over: add everything, and know nothing of them; how many pods were not read."""
        self.settle()
        alike, self._alike, self.last_offer = self._alike, 0, None
        return alike
