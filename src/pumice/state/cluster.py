"""ClusterState: the objects, their columns and their sums. Events come in through `apply`, sessions change it through
the few moves at the end, and nothing else changes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from pumice.model import resources as dimensions
from pumice.model.api import AnyObject
from pumice.model.events import BindFailed, ClusterEvent, EvictFailed, Gone, Seen
from pumice.model.job import Job, JobMap
from pumice.model.node import Node, NodeMap
from pumice.model.queue import Namespace, Queue, QueueMap
from pumice.model.reason import forget_reason
from pumice.model.resources import Number, Resources
from pumice.model.status import JobPhase, TaskStatus
from pumice.model.task import Task, TaskMap
from pumice.state import assumed, handlers, ledger
from pumice.state import writing as w
from pumice.state.assumed import RefusedWrite, Stopped
from pumice.state.classes import ClassTable
from pumice.state.devices import DeviceTable
from pumice.state.ledger import Contribution, JobSum, add, contribute, count_in_queue, of_queue
from pumice.state.pods import FromLabels
from pumice.state.table import NodeTable

S = TaskStatus
_NAMES_EVERY: Final = 10.0
"""Seconds between two looks for names of resources that nobody uses."""


class ClusterState:
    """All we know of the cluster. One thread owns it.

    A session sees one instant because events wait until it is over. ``jobs`` holds every job, also those that cannot be
    scheduled (no PodGroup, no queue). ``session_jobs`` holds those that can.
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
        self.job_sums: dict[str, JobSum] = {}
        """Sums over jobs that plugins declared, by name."""
        self.problems: dict[tuple[str, str], str] = {}
        """The problem of an object, by (kind, key)."""
        self.unnamed: dict[tuple[str, str], AnyObject] = {}
        """Objects with a problem that is over when a node offers the resource that they name, by (kind, key)."""
        self.assumed: dict[str, Task] = {}
        """Binds and evictions sent but not yet seen back, by UID."""
        self.leaving: dict[str, Task] = {}
        """Tasks of jobs that are being released and not gone yet, by UID."""
        self.refused: dict[str, RefusedWrite] = {}
        """Tasks that the cluster did not let us bind or evict, by UID."""
        self.stopped: dict[str, Stopped] = {}
        """The jobs of the session at its opening."""
        self.dirty: dict[str, Job] = {}
        """Jobs whose sums must be made anew."""
        self.changed_jobs: dict[str, Job] = {}
        """Jobs that changed since the last session closed, and are to be told of."""
        self.backlog_changes: dict[str, Job] = {}
        """Jobs whose place among the waiting ones must be looked at again."""
        self.admission_changes: dict[str, Job] | None = None
        """The jobs that wait for admission; None until they are asked for."""
        self.followed: dict[str, Job] | None = None
        """The changed jobs for a reader that keeps a view across sessions; None until they are asked for."""
        self.follower: object = None
        """The last reader; another reader has missed changes."""
        self.best_effort: dict[str, Job] = {}
        """Jobs with waiting tasks that ask for nothing."""
        self.unadmitted: dict[str, Job] = {}
        """Jobs that have not been let into their queue yet."""
        self.queue_version = 0
        """Grows when the set of queues or one of their objects changes."""
        self.revision = 0
        """Grows with each change that lasts beyond a session: events, phases, what was sent, what was nominated."""
        self.evicted_now: list[Task] = []
        self.rooms: dict[str, tuple[Task, Node]] = {}
        """Room held for pending tasks in this session, by UID."""
        self.second: dict[str, tuple[Task, Node]] = {}
        """The new nodes of tasks that are leaving in this session, by UID."""
        self.held_rooms: dict[str, dict[int, Number]] = {}
        """The amounts held for pending tasks in this session, by the queue of their jobs."""
        self.asides: set[str] = set()
        """Queues whose sums this session changed while a question was answered, also after the answer."""
        self.class_offers: Mapping[str, Mapping[str, int]] = {}
        """The offers of device classes by node and resource, beside those of nodes (`nodes.offer_by_classes`)."""
        self.now = 0.0
        self.last_labels: FromLabels | None = None
        """The labels and annotations of the last pod, as read."""
        self._names_again = 0.0

    # -- events ---------------------------------------------------------------------------------------------------
    def apply(self, event: ClusterEvent) -> None:
        """Take in one cluster event. Cost: the rows the event touches, not the cluster.

        An object that breaks a rule is remembered in `problems` and does not stop anything else.
        """
        self.revision += 1
        if event.__class__ is Seen:
            handlers.seen(self, event.object)
            return
        match event:
            case Gone(kind=kind, key=key):
                handlers.gone(self, kind, key)
            case BindFailed():
                assumed.bind_failed(self, event)
            case EvictFailed():
                assumed.evict_failed(self, event)

    def pauses(self, job: str) -> Stopped | None:
        """Why nothing of a job is placed for now: a bind of it was refused, or a cycle failed at it; else None."""
        stopped = self.stopped.get(job)
        return stopped if stopped is not None and stopped.paused else None

    def leave_out(self, job: Job, why: str) -> None:
        """Let no action look at a job until this is called with nothing."""
        w.set_left_out(job, why)
        self.note_admission(job)
        self.mark(job)

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
        """The amounts that all nodes offer."""
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
            if job.in_session or job._contribution[0]:  # else it contributes nothing since it left its queue
                self.recontribute(job)
        self.dirty = {}

    def give_names_back(self) -> None:
        """Between two cycles: names of resources that nobody uses any more are forgotten, for others to be known."""
        if not dimensions.worth_a_look() or self.now < self._names_again:
            return
        self._names_again = self.now + _NAMES_EVERY
        for sums in (self.used_total, *(sum_._amounts for sum_ in self.job_sums.values())):
            _drop_zeros(sums)
        for queue in self.queues.values():
            for sums in (queue._allocated, queue._held, queue._pending, queue._inqueue, queue._elastic, queue._in_vain):
                _drop_zeros(sums)
        for namespace in self.namespaces.values():
            _drop_zeros(namespace._allocated)
        gone = dimensions.give_back()
        for name in gone:
            forget_reason("resources", f"Insufficient {name}")
        if gone and self.unnamed:
            self.name_again()

    def name_again(self) -> None:
        """Objects with a resource for which there was no name may have one now."""
        for waiting in list(self.unnamed.values()):
            self.apply(Seen(waiting))

    def rest(self) -> None:
        """Outside of decisions: sums are up to date, and changes of deleted jobs are not remembered."""
        self.refresh()
        self._trim_rows()
        self._forget_changes(0 if dimensions.worth_a_look() else 2 * len(self.jobs) + 100)

    def _forget_changes(self, many: int) -> None:
        """Changes of jobs that are gone are not remembered, where there are more than *many*."""
        for changes in (self.changed_jobs, self.backlog_changes, self.admission_changes or {}):
            if len(changes) > many:
                for uid in [uid for uid, job in changes.items() if self.jobs.get(uid) is not job]:
                    del changes[uid]

    def recontribute(self, job: Job) -> None:
        """Count anew what a job contributes to the sums that depend on whole jobs."""
        for kept in self.job_sums.values():
            kept.follow(job)
        new = of_queue(job)
        if contribute(self.queues, job._contribution, new):
            w.set_contribution(job, new)

    def keep_sum(self, name: str, contribution: Contribution) -> JobSum:
        """The sum of what every job in session contributes, as of the session's opening; kept from now on.

        The same function under the same name goes on where it was; another one is asked about every job anew.
        """
        known = self.job_sums.get(name)
        if known is None or known.contribution is not contribution:
            known = self.job_sums[name] = JobSum(contribution, self.session_jobs.values())
        return known

    # -- moves ----------------------------------------------------------------------------------------------------
    def move(
        self, task: Task, status: TaskStatus, node: Node | None, *, devices: Sequence[int] = (), evicted: bool = False
    ) -> None:
        """Change the status and place of a task, for a session. *devices*: the GPUs that it shall have there.

        :raises IllegalMove: the table of moves does not allow it; nothing was changed.
        """
        ledger.check(task, status)
        ledger.shift(self, task, task.status, status, node, devices=devices, evicted=evicted)

    def set_status(self, task: Task, status: TaskStatus, node: Node | None) -> None:
        """Put a task where the cluster says that it is; the table of moves does not bind the cluster."""
        ledger.shift(self, task, task.status, status, node)

    def place_many(self, tasks: Sequence[Task], nodes: Sequence[Node], status: TaskStatus) -> None:
        """Give equal, pending tasks of one job their places at once; as `move` one by one, only faster.

        :raises IllegalMove: one of them is not pending.
        """
        first = tasks[0]
        held = self.rooms and any(t.uid in self.rooms for t in tasks)
        if first.klass.requires_gpu or first.job is None or len(tasks) == 1 or held:
            for task, node in zip(tasks, nodes, strict=True):
                self.move(task, status, node)
        else:
            ledger.place_many(self, tasks, nodes, status)

    def confirm(self, task: Task) -> None:
        """An allocated task is now being bound: it is assumed until it is seen.

        :raises IllegalMove: it is not allocated.
        """
        ledger.confirm(task)
        self.assume(task)

    def confirm_many(self, tasks: Sequence[Task]) -> None:
        """Allocated tasks of one job without sub-jobs are now being bound.

        :raises IllegalMove: one of them is not allocated; nothing was changed.
        """
        ledger.confirm_many(tasks)
        self.revision += 1
        now, set_assumed_at = self.now, w.set_assumed_at
        for task in tasks:
            set_assumed_at(task, now)
        self.assumed.update({task.uid: task for task in tasks})

    def mark(self, job: Job) -> None:
        """A job changed: whatever follows from it must be made anew."""
        uid = job.uid
        self.dirty[uid] = self.changed_jobs[uid] = job
        self.backlog_changes[uid] = job
        if self.followed is not None:
            self.followed[uid] = job
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
        self.revision += 1
        w.set_nominated_node(task, node)
        if task.job is not None:
            self.mark(task.job)

    def count_in_queue(self, queue: Queue, tasks: Iterable[Task], sign: int) -> None:
        """Count (+1) or no longer count (-1) requests as held by a queue; for a moment, while a question is put."""
        self.asides.add(queue.name)
        for task in tasks:
            count_in_queue(queue, task.klass.items, sign)

    def held_for_others(self, queue: Queue, job: Job) -> list[tuple[int, Number]]:
        """The amounts held for pending tasks of the queue's other jobs."""
        sums = self.held_rooms.get(queue.name)
        if not sums:
            return []
        others = dict(sums)
        if job.queue == queue.name:
            waiting = job.with_status(S.PENDING)
            mine = waiting if len(waiting) <= len(self.rooms) else self.rooms
            for uid in mine:
                if uid in waiting and uid in self.rooms:
                    add(others, waiting[uid].klass.items, -1)
        return [(d, v) for d, v in others.items() if v]

    @contextmanager
    def also_held(self, queue: Queue, amounts: Sequence[tuple[int, Number]]) -> Iterator[None]:
        """Within the block a queue holds so much more, while a question is put."""
        if not amounts:
            yield
            return
        self.asides.add(queue.name)
        count_in_queue(queue, amounts, 1)
        try:
            yield
        finally:
            count_in_queue(queue, amounts, -1)

    def _hold_follows(self, task: Task, sign: int) -> None:
        node = self.rooms[task.uid][1]
        row = node.row
        if task.job is not None:
            add(self.held_rooms.setdefault(task.job.queue, {}), task.klass.items, sign)
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

    def promise_second(self, task: Task, node: Node) -> None:
        """A task that is leaving is to go to a node once there is room."""
        self.second[task.uid] = (task, node)
        self.table.book(node.row, task.klass.items, 0, 0, 0, 1)
        self.devices.promise(task, node)
        self.table.touched.add(node.row)

    def withdraw_second(self, task: Task) -> Node | None:
        """It is to go nowhere; where it was to go."""
        found = self.second.pop(task.uid, None)
        if found is None:
            return None
        node = found[1]
        self.table.book(node.row, task.klass.items, 0, 0, 0, -1)
        self.devices.withdraw(task)
        self.table.touched.add(node.row)
        return node

    def release_rooms(self) -> None:
        """Hold nothing any more."""
        for task, _ in self.rooms.values():
            if task.status is S.PENDING:
                self._hold_follows(task, -1)
        self.rooms.clear()
        self.held_rooms.clear()

    def end_session(self) -> None:
        """A pod that this session evicted counts as terminating from now on."""
        for task, _ in list(self.second.values()):
            self.withdraw_second(task)
        if self.rooms or self.held_rooms:
            self.release_rooms()
        self.asides.clear()
        for task in self.evicted_now:
            if task.evicted:
                ledger.forget_eviction(self, task)
        self.evicted_now = []
        self._trim_rows()

    def _trim_rows(self) -> None:
        """Forget changes of rows so long ago that whoever reads them looks at all rows anyway."""
        table = self.table
        keep = 4 * max(table.size, 1024)
        table.touched.trim(keep)
        table.changed.trim(keep)

    def set_phase(self, job: Job, phase: str) -> None:
        """Change the phase of a job's PodGroup."""
        self.revision += 1
        w.set_phase(job, phase)
        w.set_group_version(job, job.version + 1)
        self.note_admission(job)
        self.mark(job)

    def note_admission(self, job: Job) -> None:
        """Keep the list of jobs that have not been let in."""
        if job.in_session and not job.left_out and job.phase in ("", JobPhase.PENDING):
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
        self.revision += 1
        w.set_assumed_at(task, self.now if since is None else since)
        self.assumed[task.uid] = task


def _drop_zeros(sums: dict[int, Number]) -> None:
    """A sum of which nothing is left, of a name that objects brought, is no longer mentioned."""
    for d in [d for d, v in sums.items() if not v and isinstance(d, dimensions.Dimension)]:
        del sums[d]
