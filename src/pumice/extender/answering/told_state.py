"""The data of one caller's calls, as a cluster state: told objects become the objects that plugins see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn, Protocol, TypeVar, cast

from pumice.clock import Clock, SystemClock
from pumice.errors import InvalidInput, PumiceError
from pumice.extender.dialects.messages import (
    Cluster,
    JobMessage,
    Ledgers,
    NodeMessage,
    QueueMessage,
    TaskMessage,
    group_of,
    uid_of,
)
from pumice.model import api
from pumice.model.api import AnyObject
from pumice.model.events import ClusterEvent, Gone, Seen
from pumice.model.intents import Bind
from pumice.model.job import Job
from pumice.model.node import LedgerCells, Node
from pumice.model.queue import Queue
from pumice.model.resources import give_back
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.ports import Binder, EventSource
from pumice.state import overrides
from pumice.state.cluster import ClusterState
from pumice.state.table import NodeTable

T = TypeVar("T")


class NotTold(PumiceError):
    """The policy read something that neither the call nor a snapshot holds."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: not told by the call, and no onSessionOpen of this caller has brought it")


def _untold(what: str, *names: str) -> Callable[[type[T]], type[T]]:
    """A class whose attributes of these names cannot be read."""

    def read(self: Any) -> NoReturn:
        raise NotTold(f"{what} of {self!r}")

    def hide(cls: type[T]) -> type[T]:
        for name in names:
            setattr(cls, name, property(read))
        return cls

    return hide


@_untold("what is told", *("priority", "creation", "labels", "annotations", "phase"))
@_untold("what is told", *("min_resources", "sub_jobs", "tasks"))
@_untold("sums", *("min_available", "preemptible", "allocated", "held", "total_request"))
@_untold("sums", "ready_count", "waiting_count")
class UntoldJob(Job):
    """A job that a task names; only its names are known, and its queue where the task tells it."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def queue(self) -> str:
        """Its queue, if the task told it."""
        queue: str = Job.__dict__["queue"].__get__(self)
        if not queue:
            raise NotTold(f"queue of {self!r}")
        return queue

    def __repr__(self) -> str:
        return f"<Job {self.uid}>"


@_untold("sums", "allocated", "held", "pending", "inqueue", "elastic", "jobs")
class UntoldSums(Queue):
    """A queue whose sums were not told."""

    __slots__ = ()


@_untold("what is told", *("labels", "annotations", "taints", "allocatable", "capacity", "unschedulable", "gpus"))
@_untold("ledgers", *("idle", "used", "releasing", "pipelined", "future_idle", "idle_gpus", "gpu_utilization"))
class UntoldNode(Node):
    """A node that a task names; only its name is known, and the tasks that were told to be there."""

    __slots__ = ()


_LEDGERS: Final = frozenset({"idle", "used", "releasing", "pipelined", "evicted", "assumed", "pod_count"})
_CLUSTER: Final = frozenset(
    {"queues", "jobs", "session_jobs", "tasks", "total", "used_total", "keep_sum", "namespaces", "objects"}
    | {"total_resources", "nodes"}
)
_IN_SNAPSHOTS: Final = frozenset({"ResourceQuota"})
"""Kinds that the state only keeps, and that snapshots bring."""


class _UntoldCells(LedgerCells):
    """A ledger that was not told."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def cells(self) -> NoReturn:
        raise NotTold(f"{self._name} of the nodes")


class TableView:
    """The node table as a served policy sees it: ledgers of nodes that came without them cannot be read."""

    def __init__(self, table: NodeTable, untold: set[int]) -> None:
        self._table, self._untold = table, untold
        self.ledgers = {
            name: _UntoldCells(name) if name in _LEDGERS else cells for name, cells in table.ledgers.items()
        }
        """The source of amounts of nodes without told ledgers."""

    def __getattr__(self, name: str) -> Any:
        if name in _LEDGERS and self._untold:
            raise NotTold(f"{name} of the nodes")
        return getattr(self._table, name)


class StateView:
    """The state as a served policy sees it: without a snapshot nothing that speaks of the whole cluster.

    A snapshot tells of jobs, tasks, nodes, queues and quotas; of other kinds (hyper-nodes, claims, budgets) none does.
    """

    def __init__(self, state: ClusterState, table: TableView, *, complete: bool, followed: bool) -> None:
        self._state, self.table, self._complete, self._followed = state, table, complete, followed

    def __getattr__(self, name: str) -> Any:
        if name in _CLUSTER and not self._complete:
            raise NotTold(f"the cluster's {name.replace('_', ' ')}")
        return getattr(self._state, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_state", "table", "_complete", "_followed"):
            super().__setattr__(name, value)
        else:
            setattr(self._state, name, value)

    def kind(self, name: str) -> dict[str, AnyObject]:
        if not (self._followed or (self._complete and name in _IN_SNAPSHOTS)):
            raise NotTold(f"the cluster's objects of kind {name}")
        return self._state.kind(name)


_MOST_OBJECTS: Final = 50_000
"""Without snapshots objects of old calls are forgotten when there are so many."""


class ToldState:
    """The cluster as told so far.

    An object of a call replaces what was known of it. A mere name stands for what a snapshot told, and for nothing
    where none came. *complete* says whether one did; without it, objects of earlier calls are there but not shown as
    a cluster.
    """

    followed = False
    """Whether the cluster itself tells of everything."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._forget()

    def _forget(self) -> None:
        self.state = ClusterState()
        self.state.now = self._clock.now()
        self.complete = False
        self._loading = False
        """A whole cluster is being taken in: in it nothing is a mere name."""
        self.untold: set[int] = set()
        """Rows of nodes without told ledgers."""
        self.table = TableView(self.state.table, self.untold)
        self._last: dict[tuple[str, str], object] = {}
        give_back()

    def load(self, cluster: Cluster) -> None:
        """Start anew from a whole cluster.

        :raises InvalidInput: an object in it breaks a rule; then nothing is known.
        """
        self._forget()
        self.complete = self._loading = True
        queues, nodes = cluster.queues, cluster.nodes
        try:
            for thing in (*cluster.others, *(one.queue for one in queues), *(one.node for one in nodes)):
                self._apply(thing)
            for job in cluster.jobs:
                self.job(job)
            for node in nodes:
                self.node(node)
            for told in queues:
                if told.held:
                    overrides.tell_sums(self.state.queues[told.queue.metadata.name], told.held)
        except InvalidInput:
            self._forget()
            raise
        self._loading = False

    def renewed(self) -> bool:
        """Whether the cluster is not the one of the last question: what old calls told was too much, and is gone."""
        if self.complete or len(self._last) < _MOST_OBJECTS:
            return False
        self._forget()
        return True

    # -- objects --------------------------------------------------------------------------------------------------
    def node(self, told: NodeMessage) -> Node | None:
        """The node of a call; None if the cluster has not shown it.

        :raises NotTold: the call names it, and no snapshot told of it.
        """
        name = told.node.metadata.name
        if self._last.get(("Node", name)) is told:
            return self.state.table.by_name[name]
        known = self.state.table.by_name.get(name)
        if told.bare and not self._loading:
            return self._named(known, f"node {name}")
        if isinstance(known, UntoldNode):
            overrides.show_as(known, Node)
        self._apply(told.node)
        node = self.state.table.by_name[name]
        if (tasks := told.tasks) is not None:
            self._only(node.tasks.values(), tasks)
            for task in tasks:
                self.task(task)
        if told.ledgers is not None:
            self._ledgers(node, told.ledgers)
            self.untold.discard(node.row)
            overrides.read_through(node, self.state.table)
        elif not self.complete:
            self.untold.add(node.row)
            overrides.read_through(node, cast("NodeTable", self.table))
        self._last["Node", name] = told
        return node

    def task(self, told: TaskMessage, *, moved: bool = False) -> Task:
        """The task of a call. *moved*: its status and place count even if it comes by name alone.

        :raises NotTold: the call names it, and no snapshot told of it.
        """
        pod = told.pod
        uid, meta = uid_of(pod), pod.metadata
        known = self.state.tasks.get(uid)
        if known is not None and self._last.get(("Pod", uid)) is told:
            if moved:
                self._place(known, told)
            return known
        if told.bare and not (self._loading and moved):
            known = self._named(known, f"task {meta.namespace}/{meta.name or uid}")
            if meta.name and known.key != pod.key:
                raise NotTold(f"task {pod.key} of UID {uid}")
            if moved:
                self._place(known, told)
            return known
        if known is not None and known.key != pod.key:
            self._drop(known)
        job = group_of(pod)
        if job and job not in self.state.jobs:
            namespace, _, name = job.partition("/")
            overrides.name_job(self.state, Job(namespace, name), told.queue or "", UntoldJob)
        self._apply(pod)
        task = self.state.tasks[uid]
        self._place(task, told)
        self._last["Pod", uid] = told
        return task

    def job(self, told: JobMessage) -> Job:
        """The job of a call, with its tasks.

        :raises NotTold: the call names it or one of its tasks, and no snapshot told of it.
        """
        uid = told.group.key
        known = self.state.jobs.get(uid)
        if told.bare and not self._loading:
            self._named(known if known is not None and known.group is not None else None, f"job {uid}")
        elif self._last.get(("PodGroup", uid)) is not told:
            if isinstance(known, UntoldJob):
                for task in [task for task in self.state.tasks.values() if task.job is known]:
                    self._drop(task)
                overrides.forget_job(self.state, uid)
            self._apply(told.group)
            self._last["PodGroup", uid] = told
            self._only(self.state.jobs[uid].tasks.values(), told.tasks)
        job = self.state.jobs[uid]
        overrides.tell_job(job, *told.counts, told.group.status.phase)
        for member in told.tasks:
            self.task(member, moved=True)
        return job

    def queue(self, told: QueueMessage) -> Queue:
        """The queue of a call; what it holds, where neither the call nor a snapshot says so, cannot be read."""
        self._apply(told.queue)
        queue = self.state.queues[told.queue.metadata.name]
        if told.held is None and not self.complete:
            overrides.show_as(queue, UntoldSums)
        else:
            overrides.show_as(queue, Queue)
            if told.held is not None and not self.complete:
                overrides.tell_sums(queue, told.held)
        return queue

    # -- parts ----------------------------------------------------------------------------------------------------
    def _named(self, known: T | None, what: str) -> T:
        """The snapshot's data of an object that a call only names.

        :raises NotTold: it told nothing of it, or there was none.
        """
        if known is None or not self.complete:
            raise NotTold(what)
        return known

    def _apply(self, thing: api.AnyObject) -> None:
        """Take in an object.

        :raises InvalidInput: it breaks a rule.
        """
        self.state.apply(Seen(thing))
        problem = self.state.problems.get((thing.kind_name, thing.key))
        node = self.state.table.by_name.get(thing.key) if isinstance(thing, api.NodeObject) else None
        if problem is not None and (node is None or node.object is not thing):  # else it was taken in all the same
            raise InvalidInput(problem)

    def _only(self, known: Iterable[Task], told: Iterable[TaskMessage]) -> None:
        uids = {uid_of(task.pod) for task in told}
        for task in [task for task in known if task.uid not in uids]:
            self._drop(task)

    def _drop(self, task: Task) -> None:
        self.state.apply(Gone("Pod", task.key))
        self._last.pop(("Pod", task.uid), None)

    def _place(self, task: Task, told: TaskMessage) -> None:
        """Give a task the status and the place that were told."""
        node = self.state.table.by_name.get(told.node) if told.node else None
        if node is None and told.node and not self.complete:
            self._apply(api.NodeObject(metadata=api.Metadata(name=told.node)))
            node = self.state.table.by_name[told.node]
            overrides.show_as(node, UntoldNode)
        if (task.status, task.node) != (told.status, node):
            self.state.set_status(task, told.status, node)

    def _ledgers(self, node: Node, told: Ledgers) -> None:
        """Told ledgers of a node win over the sums of its tasks."""
        table, row = self.state.table, node.row
        table.ensure_width()
        for name, ledger in told._asdict().items():
            column = getattr(table, name)
            column[:, row] = 0
            for dimension, amount in ledger.items():
                column[dimension, row] = amount
        table.touched.add(row)


class AnsweredCluster(EventSource, Binder, Protocol):
    """A cluster to answer questions about: its events, and a way to bind."""

    def trouble(self) -> str:
        """Why it cannot be spoken of, or nothing."""
        ...


class NotReady(PumiceError):
    """The cluster has not been read yet, or is out of reach for good."""

    retryable = True


class FollowedState(ToldState):
    """The cluster as it is, up to what the watch has not brought yet.

    Data of a question about an object is used only if the cluster has not shown that object, and forgotten with the
    next question.
    """

    followed = True

    def __init__(self, cluster: AnsweredCluster, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self.cluster = cluster
        self.complete = True
        self._guests: dict[str, ClusterEvent] = {}
        """Pods that only the last question told of, and what makes them forgotten."""

    def load(self, cluster: Cluster) -> None:
        """A snapshot is not needed."""

    def renewed(self) -> bool:
        """Take in what happened; True if anything did.

        :raises NotReady: not everything was read yet.
        """
        trouble = self.cluster.trouble()
        if trouble:
            raise NotReady(trouble)
        state, changed = self.state, bool(self._guests)
        state.apply_all(self._guests.values())
        self._guests.clear()
        self._last.clear()
        for event in self.cluster.drain():
            state.apply(event)
            changed = True
        if changed:
            state.now = self._clock.now()
            state.end_session()
            state.changed_jobs.clear()
            state.backlog_changes.clear()
        return changed

    def node(self, told: NodeMessage) -> Node | None:
        """The node, if the cluster has shown it."""
        return self.state.table.by_name.get(told.node.metadata.name)

    def task(self, told: TaskMessage, *, moved: bool = False) -> Task:
        """The task as the cluster shows it; a placement that a caller tries out is not the cluster's."""
        key, meta = told.pod.key, told.pod.metadata
        known = self.state.task_by_key.get(key) if meta.name else self.state.tasks.get(meta.uid)
        if known is not None and (not meta.uid or known.uid == meta.uid):
            return known
        if not told.bare:
            self._guests.setdefault(key, Gone("Pod", key) if known is None else Seen(known.pod))
        return super().task(told)

    def job(self, told: JobMessage) -> Job:
        """The job as the cluster shows it, or as it is told."""
        known = self.state.jobs.get(told.group.key)
        return known if known is not None and known.group is not None else super().job(told)

    def queue(self, told: QueueMessage) -> Queue:
        """The queue as the cluster shows it, or as it is told."""
        known = self.state.queues.get(told.queue.metadata.name)
        return known if known is not None else super().queue(told)

    def bound(self, intent: Bind) -> None:
        """A bind was carried out: from now on the pod is there, though the watch has not shown it."""
        state = self.state
        task, node = state.tasks.get(intent.uid), state.table.by_name.get(intent.node)
        if task is not None and node is not None and task.status is TaskStatus.PENDING:
            state.move(task, TaskStatus.ALLOCATED, node)
            state.confirm(task)
