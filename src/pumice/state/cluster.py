"""ClusterState: the objects, their columns and their sums. Events come in through `apply`, sessions change it through
the few moves at the end, and nothing else changes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from pumice.errors import IllegalMove
from pumice.model.api import AnyObject
from pumice.model.events import BindFailed, ClusterEvent, EvictFailed, Gone, Seen
from pumice.model.job import Job, JobMap
from pumice.model.namespace import Namespace
from pumice.model.node import Node, NodeMap
from pumice.model.queue import Queue, QueueMap
from pumice.model.resources import EMPTY, Number, Resources
from pumice.model.status import IS_ALLOCATED, IS_HELD, LEDGER, MOVES, JobPhase, TaskStatus
from pumice.model.task import Task, TaskClass, TaskMap
from pumice.state import handlers
from pumice.state import writing as w
from pumice.state.classes import ClassTable
from pumice.state.devices import DeviceTable
from pumice.state.ledger import count
from pumice.state.refused import RefusedEviction
from pumice.state.table import NodeTable
from pumice.state.writing import find, put, take

S = TaskStatus
_ABSENT = (True, False, False, False, False, False, False, True, True, False)
"""Statuses in which a task is not on its node."""


class ClusterState:
    """All we know of the cluster. One thread owns it.

    A session sees one instant because events wait until it is over. ``jobs`` holds every job, those that cannot be
    scheduled (no PodGroup, no queue) too; ``session_jobs`` those that can.
    """

    def __init__(self, *, default_queue: str = "default", scheduler_names: Iterable[str] | None = None) -> None:
        self.default_queue = default_queue
        self.scheduler_names = frozenset(scheduler_names) if scheduler_names is not None else None
        self.table = NodeTable()
        self.devices = DeviceTable()
        self.table.devices = self.devices
        self.classes = ClassTable()
        self.tasks = TaskMap()
        self.task_by_key: dict[str, Task] = {}
        self.jobs = JobMap()
        self.session_jobs = JobMap()
        self.queues = QueueMap()
        self.queueless = JobMap()
        """Jobs with a PodGroup whose queue does not exist."""
        self.namespaces: dict[str, Namespace] = {}
        self.objects: dict[str, dict[str, AnyObject]] = {}
        self.versions: dict[str, int] = {}
        """Per kind, how often objects of it changed."""
        self.orphans: dict[str, dict[str, Task]] = {}
        """Tasks on nodes that we have not seen yet, by node name."""
        self.total: dict[int, Number] = {}
        self.used_total: dict[int, Number] = {}
        self.overcommit_inqueue: dict[int, Number] = {}
        self.problems: dict[tuple[str, str], str] = {}
        """What is wrong with an object, by (kind, key)."""
        self.assumed: dict[str, Task] = {}
        """Binds and evictions sent but not yet seen back, by UID."""
        self.refused: dict[str, RefusedEviction] = {}
        """Tasks that the cluster did not let us evict, by UID."""
        self.dirty: dict[str, Job] = {}
        """Jobs whose sums must be made anew."""
        self.changed_jobs: dict[str, Job] = {}
        """Jobs that changed since the last session closed."""
        self.backlog_changes: dict[str, Job] = {}
        """Jobs whose place among the waiting ones must be looked at again."""
        self.admission_changes: dict[str, Job] | None = None
        """The same for those that have to be let in; None until somebody looks."""
        self.unadmitted: dict[str, Job] = {}
        """Jobs that have not been let into their queue yet."""
        self.queue_version = 0
        """Grows when the set of queues or one of their objects changes."""
        self.evicted_now: list[Task] = []
        self.rooms: dict[str, tuple[Task, Node]] = {}
        """Room held for pending tasks in this session, by UID."""
        self.now = 0.0

    # -- events ---------------------------------------------------------------------------------------------------
    def apply(self, event: ClusterEvent) -> None:
        """Take in one cluster event. Cost: the rows the event touches, not the cluster.

        An object that breaks a rule is remembered in `problems` and does not stop anything else.
        """
        if isinstance(event, Seen):
            handlers.seen(self, event.object)
            return
        match event:
            case Gone(kind=kind, key=key):
                handlers.gone(self, kind, key)
            case BindFailed(uid=uid, node=node):
                handlers.bind_failed(self, uid, node)
            case EvictFailed():
                handlers.evict_failed(self, event)

    def apply_all(self, events: Iterable[ClusterEvent]) -> None:
        """Take in several events in order."""
        for event in events:
            self.apply(event)

    # -- reading --------------------------------------------------------------------------------------------------
    @property
    def nodes(self) -> NodeMap:
        """Every node by name."""
        return self.table.by_name

    def total_resources(self) -> Resources:
        """What all nodes offer."""
        return Resources(dict(self.total))

    def kind(self, name: str) -> dict[str, AnyObject]:
        """Objects of a kind that the state only keeps (PriorityClass, HyperNode, …), by key."""
        return self.objects.setdefault(name, {})

    # -- sums that follow from jobs -------------------------------------------------------------------------------
    def refresh(self) -> None:
        """Bring the sums that depend on whole jobs (inqueue, elastic) up to date. Cost: jobs that changed."""
        if not self.dirty:
            return
        for job in self.dirty.values():
            self._recontribute(job)
        self.changed_jobs.update(self.dirty)
        self.dirty = {}

    def rest(self) -> None:
        """Nobody decides for now: the sums are up to date, and changes of jobs that are gone are not remembered."""
        self.refresh()
        self._trim_rows()
        for changes in (self.changed_jobs, self.backlog_changes, self.admission_changes or {}):
            if len(changes) > 2 * len(self.jobs) + 1000:
                for uid in [uid for uid, job in changes.items() if self.jobs.get(uid) is not job]:
                    del changes[uid]

    def _recontribute(self, job: Job) -> None:
        queue_name, inqueue, elastic, overcommit = job._contribution
        new = _contribution(job) if job.in_session else ("", EMPTY, EMPTY, EMPTY)
        if new == job._contribution:
            return
        old_queue = self.queues.get(queue_name)
        if old_queue is not None:
            _add(old_queue._inqueue, inqueue, -1)
            _add(old_queue._elastic, elastic, -1)
        _add(self.overcommit_inqueue, overcommit, -1)
        w.set_contribution(job, new)
        queue_name, inqueue, elastic, overcommit = new
        new_queue = self.queues.get(queue_name)
        if new_queue is not None:
            _add(new_queue._inqueue, inqueue, 1)
            _add(new_queue._elastic, elastic, 1)
        _add(self.overcommit_inqueue, overcommit, 1)

    # -- moves ----------------------------------------------------------------------------------------------------
    def move(
        self, task: Task, status: TaskStatus, node: Node | None, *, devices: Sequence[int] = (), evicted: bool = False
    ) -> None:
        """What a session does to a task: change its status and place. *devices*: the GPUs that it shall have there.

        :raises IllegalMove: the table of moves does not allow it; nothing was changed.
        """
        if (task.status, status) not in MOVES:
            raise IllegalMove(f"task {task.key}: cannot go from {task.status.title} to {status.title}")
        self.set_status(task, status, node, devices=devices, evicted=evicted)

    def set_status(
        self, task: Task, status: TaskStatus, node: Node | None, *, devices: Sequence[int] = (), evicted: bool = False
    ) -> None:
        """Put a task into a status on a node, and everything that counts it with it."""
        old, old_node = task.status, task.node
        items = task.klass.items
        table = self.table
        was_there = old_node is not None and not _ABSENT[old]
        is_there = node is not None and not _ABSENT[status]
        i0, u0, r0, p0 = LEDGER[old] if was_there else LEDGER[0]
        i1, u1, r1, p1 = LEDGER[status] if is_there else LEDGER[0]
        if node is old_node:
            if node is not None:
                table.book(node.row, items, i1 - i0, u1 - u0, r1 - r0, p1 - p0)
        else:
            if was_there and old_node is not None:
                table.book(old_node.row, items, -i0, -u0, -r0, -p0)
            if is_there and node is not None:
                table.book(node.row, items, i1, u1, r1, p1)
        if u1 != u0:
            used = self.used_total
            for d, v in items:
                used[d] = used.get(d, 0) + (u1 - u0) * v
        seen_before = was_there and not task.evicted
        seen_now = is_there and not evicted
        if evicted != task.evicted or (evicted and node is not old_node):
            if task.evicted and old_node is not None:
                for d, v in items:
                    table.evicted[d, old_node.row] -= v
            if evicted and node is not None:
                for d, v in items:
                    table.evicted[d, node.row] += v
                self.evicted_now.append(task)
        if seen_before and (not seen_now or node is not old_node) and old_node is not None:
            self._view(old_node.row, task.klass, -1)
        if seen_now and (not seen_before or node is not old_node) and node is not None:
            self._view(node.row, task.klass, 1)
        if old_node is not None and (node is not old_node or not is_there):
            take(old_node.tasks, task.uid, None)
            table.touched.add(old_node.row)
        if node is not None:
            if is_there:
                put(node.tasks, task.uid, task)
            table.touched.add(node.row)
        hold = (old == 0) - (status == 0) if self.rooms and task.uid in self.rooms else 0
        if hold > 0:
            self._hold_follows(task, -1)
        if evicted != task.evicted:
            w.set_evicted(task, evicted)
        w.set_status(task, status)
        w.set_node(task, node if is_there else None)
        if task.klass.requires_gpu:
            self._devices(task, old, old_node if was_there else None, node if is_there else None, devices)
        if hold < 0:
            self._hold_follows(task, 1)
        job = task.job
        if job is not None:
            count(job, task, old, status)
            if task.sub_job is not None:
                count(task.sub_job, task, old, status)
            self._sum(job, task, items, old, status, 1)

    def _devices(
        self, task: Task, old: TaskStatus, old_node: Node | None, node: Node | None, wanted: Sequence[int]
    ) -> None:
        """Device bookkeeping for tasks that ask for GPUs: a promised place holds no device yet, but keeps it."""
        status, devices = task.status, self.devices
        if old is S.PIPELINED:
            devices.withdraw(task)
        held_before = old_node is not None and old is not S.PIPELINED
        holds_now = node is not None and status is not S.PIPELINED
        if held_before and old_node is not None:
            if old is S.RELEASING:
                devices.set_releasing(task, old_node.row, -1)
            if not holds_now or node is not old_node:
                devices.give_back(task, old_node.row)
        if holds_now and node is not None:
            if not held_before or node is not old_node:
                devices.take(task, node, wanted or devices.pick(task, node))
            if status is S.RELEASING:
                devices.set_releasing(task, node.row, 1)
        if status is S.PIPELINED and node is not None:
            devices.promise(task, node)

    def _view(self, row: int, klass: TaskClass, sign: int) -> None:
        table = self.table
        table.pod_count[row] += sign
        table.assumed[0, row] += sign * klass.assumed_cpu
        table.assumed[1, row] += sign * klass.assumed_memory

    def _sum(
        self,
        job: Job,
        task: Task,
        items: tuple[tuple[int, int], ...],
        old: TaskStatus,
        status: TaskStatus,
        times: int,
    ) -> None:
        """Move *times* equal requests of a job from one status's sums to another's."""
        da = (IS_ALLOCATED[status] - IS_ALLOCATED[old]) * times
        dh = (IS_HELD[status] - IS_HELD[old]) * times
        dp = ((status == 0) - (old == 0)) * times
        queue: Queue | None = find(self.queues, job.queue) if job.in_session else None
        if da:
            sums = [job._allocated, self.namespace(task.namespace)._allocated]
            if queue is not None:
                sums.append(queue._allocated)
            for s in sums:
                for d, v in items:
                    s[d] = s.get(d, 0) + da * v
        if dh:
            for s in (job._held, queue._held) if queue is not None else (job._held,):
                for d, v in items:
                    s[d] = s.get(d, 0) + dh * v
        if dp:
            for s in (job._pending, queue._pending) if queue is not None else (job._pending,):
                for d, v in items:
                    s[d] = s.get(d, 0) + dp * v
            if queue is not None:
                if job._by_status[S.PENDING]:
                    put(queue.waiting, job.uid, job)
                else:
                    take(queue.waiting, job.uid, None)
        if queue is not None:
            w.set_queue_version(queue, queue.version + 1)
        self.mark(job)

    def confirm(self, task: Task) -> None:
        """An allocated task is now being bound: nothing but its status changes, and it is assumed until seen."""
        w.set_status(task, S.BINDING)
        for group in (task.job, task.sub_job):
            if group is not None:
                count(group, task, S.ALLOCATED, S.BINDING)
        self.assume(task)

    def mark(self, job: Job) -> None:
        """A job changed: whatever follows from it must be made anew."""
        uid = job.uid
        self.dirty[uid] = job
        self.backlog_changes[uid] = job
        if self.admission_changes is not None:
            self.admission_changes[uid] = job

    # -- held room ------------------------------------------------------------------------------------------------
    def hold(self, task: Task, node: Node) -> None:
        """Keep room on a node for a pending task until the session ends: nobody else sees it as free.

        The hold is off while the task has a place, and on again when it is pending again.
        """
        self.rooms[task.uid] = (task, node)
        w.set_nominated_node(task, node.name)
        if task.status is S.PENDING:
            self._hold_follows(task, 1)

    def lift(self, task: Task) -> Node:
        """Hold no room for a task any more; the node on which it was held."""
        node = self.rooms[task.uid][1]
        if task.status is S.PENDING:
            self._hold_follows(task, -1)
        del self.rooms[task.uid]
        return node

    def nominate(self, task: Task, node: str) -> None:
        """Name the node that a task is to look at before the others; nothing for none."""
        w.set_nominated_node(task, node)
        if task.job is not None:
            self.mark(task.job)

    def count_in_queue(self, queue: Queue, tasks: Iterable[Task], sign: int) -> None:
        """Count (+1) or no longer count (-1) requests as held by a queue; for a moment, while a question is put."""
        for task in tasks:
            w.set_queue_version(queue, queue.version + 1)
            for d, v in task.klass.items:
                queue._held[d] = queue._held.get(d, 0) + sign * v

    def _hold_follows(self, task: Task, sign: int) -> None:
        node = self.rooms[task.uid][1]
        row = node.row
        self.table.book(row, task.klass.items, 0, 0, 0, sign)
        if task.klass.gpu is not None:
            if sign > 0:
                self.devices.promise(task, node)
            else:
                self.devices.withdraw(task)
        self.table.touched.add(row)

    @contextmanager
    def shown_at(self, task: Task, node: Node | None) -> Iterator[None]:
        """Within the block a task that gave its place back still shows which place that was."""
        if task.node is not None or node is None:
            yield
            return
        w.set_node(task, node)
        try:
            yield
        finally:
            w.set_node(task, None)

    @contextmanager
    def lifted(self, task: Task) -> Iterator[None]:
        """The room held for a task is free within the block, for the task itself to take."""
        if task.uid not in self.rooms:
            yield
            return
        node = self.lift(task)
        try:
            yield
        finally:
            self.hold(task, node)

    def release_rooms(self) -> None:
        """Hold nothing any more."""
        for task, _ in self.rooms.values():
            if task.status is S.PENDING:
                self._hold_follows(task, -1)
        self.rooms.clear()

    def place_many(self, tasks: Sequence[Task], nodes: Sequence[Node], status: TaskStatus) -> None:
        """Give equal, pending tasks of one job their places at once; as `move` one by one, only faster."""
        first = tasks[0]
        klass, job, table = first.klass, first.job, self.table
        items = klass.items
        held = self.rooms and any(t.uid in self.rooms for t in tasks)
        if klass.requires_gpu or job is None or len(tasks) == 1 or held:
            for task, node in zip(tasks, nodes, strict=True):
                self.move(task, status, node)
            return
        i1, u1, _, p1 = LEDGER[status]
        rows = np.array([n.row for n in nodes], dtype=np.intp)
        unique, counts = np.unique(rows, return_counts=True)
        for d, v in items:
            amounts = counts * v
            if i1:
                table.idle[d, unique] += i1 * amounts
                table.used[d, unique] += u1 * amounts
            if p1:
                table.pipelined[d, unique] += p1 * amounts
        table.pod_count[unique] += counts
        table.assumed[0, unique] += counts * klass.assumed_cpu
        table.assumed[1, unique] += counts * klass.assumed_memory
        table.touched.extend(unique.tolist())
        k = len(tasks)
        table.in_flux += p1 * k
        if u1:
            used = self.used_total
            for d, v in items:
                used[d] = used.get(d, 0) + u1 * v * k
        pending, target = job._by_status[S.PENDING], job._by_status[status]
        roles: dict[str, int] = {}
        for task, node in zip(tasks, nodes, strict=True):
            uid = task.uid
            if task.status is not S.PENDING:
                raise IllegalMove(f"task {task.key}: cannot go from {task.status.title} to {status.title}")
            w.set_status(task, status)
            w.set_node(task, node)
            put(node.tasks, uid, task)
            take(pending, uid)
            put(target, uid, task)
            roles[task.role] = roles.get(task.role, 0) + 1
            sub_job = task.sub_job
            if sub_job is not None:
                count(sub_job, task, S.PENDING, status)
        for role, n in roles.items():
            counted = job._role_counts[role]
            counted[0] -= n
            counted[status] += n
        w.set_group_version(job, job.version + 1)
        self._sum(job, first, items, S.PENDING, status, k)

    def end_session(self) -> None:
        """What this session evicted is from now on simply terminating."""
        self.release_rooms()
        table = self.table
        for task in self.evicted_now:
            if task.evicted:
                w.set_evicted(task, False)
                if task.node is not None:
                    for d, v in task.klass.items:
                        table.evicted[d, task.row] -= v
                    self._view(task.row, task.klass, 1)
                    table.touched.add(task.row)
        self.evicted_now = []
        self._trim_rows()

    def _trim_rows(self) -> None:
        """Forget changes of rows so long ago that whoever reads them looks at all rows anyway."""
        table = self.table
        table.touched.trim(4 * max(table.size, 1024))
        table.changed.trim(4 * max(table.size, 1024))

    def set_phase(self, job: Job, phase: str) -> None:
        """Change the phase of a job's PodGroup."""
        w.set_phase(job, phase)
        w.set_group_version(job, job.version + 1)
        self.note_admission(job)
        self.mark(job)

    def note_admission(self, job: Job) -> None:
        """Keep the list of jobs that have not been let in."""
        if job.in_session and job.phase in ("", JobPhase.PENDING):
            self.unadmitted[job.uid] = job
        else:
            self.unadmitted.pop(job.uid, None)

    def namespace(self, name: str) -> Namespace:
        """The namespace of a name, made when first seen."""
        found = self.namespaces.get(name)
        if found is None:
            found = self.namespaces[name] = Namespace(name)
        return found

    # -- assumed placements ---------------------------------------------------------------------------------------
    def assume(self, task: Task, since: float | None = None) -> None:
        """A bind or eviction of this task was sent (now, or *since*); hold to it until it is seen or has failed."""
        w.set_assumed_at(task, self.now if since is None else since)
        self.assumed[task.uid] = task

    def expire(self, older_than: float) -> list[Task]:
        """Give up assumptions made before *older_than* that nobody confirmed; returns the tasks."""
        late = [t for t in self.assumed.values() if t.assumed_at is not None and t.assumed_at < older_than]
        for task in late:
            handlers.unassume(self, task)
        return late


def _add(into: dict[int, Number], what: Resources, sign: int) -> None:
    for d, v in what.items():
        into[d] = into.get(d, 0) + sign * v


def _contribution(job: Job) -> tuple[str, Resources, Resources, Resources]:
    """(queue, still to come by the queue's rule, elastic, still to come by the overcommit rule)."""
    minimum = job.min_resources
    if minimum is None and not job._allocated:
        return job.queue, EMPTY, EMPTY, EMPTY
    inqueue = overcommit = EMPTY
    if minimum is not None:
        admitted = job.phase == JobPhase.INQUEUE
        running = job.phase == JobPhase.RUNNING and job.allocated_count() >= job.min_available
        if admitted or running:
            held = job._allocated
            inqueue = job.without_gated(Resources({d: max(v - held.get(d, 0), 0) for d, v in minimum.items()}))
            overcommit = job.without_gated(minimum) if admitted else inqueue
    return job.queue, inqueue, job.elastic(), overcommit
