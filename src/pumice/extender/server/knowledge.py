"""What the calls have told, as a cluster state: objects of messages become what plugins see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

import msgspec

from pumice.errors import InvalidInput
from pumice.extender.server.untold import NotTold, TableView, UntoldJob, UntoldSums
from pumice.extender.wire import to_kube
from pumice.extender.wire.amounts import scale
from pumice.extender.wire.objects import Amounts, Json, WireJob, WireNode, WireQueue, WireSnapshot, WireTask
from pumice.model import api
from pumice.model.events import Gone, Seen
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.resources import Number, dim, unit
from pumice.model.status import TaskStatus
from pumice.model.task import GROUP_ANNOTATION, PREEMPTABLE_KEY, ROLE_KEY, Task
from pumice.state import told as told_facts
from pumice.state.cluster import ClusterState
from pumice.state.table import NodeTable

_STATUS: Final = {status.title: status for status in TaskStatus}
DEFAULT: Final = "default"
"""Of tasks and jobs that name none."""
_MOST_OBJECTS: Final = 50_000
"""Without snapshots objects of old calls are forgotten when there are so many."""


class Knowledge:
    """The cluster as told so far.

    An object of a call replaces what was known of it, unless it is a mere name of something known. *complete* says
    whether a snapshot came; without one, objects of earlier calls are there but not shown as a cluster.
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Know nothing."""
        self.state = ClusterState()
        self.complete = False
        self.untold: set[int] = set()
        """Rows of nodes whose ledgers nobody told."""
        self.table = TableView(self.state.table, self.untold)
        self._last: dict[tuple[str, str], object] = {}

    def load(self, snapshot: WireSnapshot) -> None:
        """Start anew from a whole cluster."""
        self._forget()
        self.complete = True
        for queue in snapshot.queues:
            self.queue(queue, sums_told=True)
        for node in snapshot.nodes:
            self._apply("Node", to_kube.node_of(node))
        for job in snapshot.jobs:
            self.job(job)
        for node in snapshot.nodes:
            self.node(node)
        for queue in snapshot.queues:
            self._sums(self.state.queues[queue.name], queue)

    def renewed(self) -> bool:
        """Whether the cluster is not the one of the last question: what old calls told was too much, and is gone."""
        if self.complete or len(self._last) < _MOST_OBJECTS:
            return False
        self._forget()
        return True

    # -- objects --------------------------------------------------------------------------------------------------
    def found(self, told: WireNode, *, ledgers_told: bool = True) -> Node | None:
        """The node of a call; None if nothing can be said of it."""
        return self.node(told, ledgers_told=ledgers_told)

    def named(self, told: WireNode, *, ledgers_told: bool = True) -> Node | None:
        """The node that a call knows by its name alone; None if nothing can be said of it.

        :raises NotTold: nobody ever told of it.
        """
        if not self.complete and told.name not in self.state.table.by_name:
            raise NotTold(f"node {told.name}")
        return self.found(told, ledgers_told=ledgers_told)

    def node(self, told: WireNode, *, ledgers_told: bool = True) -> Node:
        """The node of a call. *ledgers_told*: the call's dialect says what is taken on it."""
        known = self.state.table.by_name.get(told.name)
        if known is not None and (self._last.get(("Node", told.name)) is told or _bare_node(told)):
            return known
        self._apply("Node", to_kube.node_of(told))
        node = self.state.table.by_name[told.name]
        if told.tasks or not any((told.used or {}).values()):
            self._only(node.tasks.values(), told.tasks)
        for task in told.tasks:
            self.task(task)
        if ledgers_told:
            self._ledgers(node, told)
            self.untold.discard(node.row)
            told_facts.read_through(node, self.state.table)
        elif not self.complete:
            self.untold.add(node.row)
            told_facts.read_through(node, cast("NodeTable", self.table))
        self._last["Node", told.name] = told
        return node

    def task(self, told: WireTask, *, moved: bool = False) -> Task:
        """The task of a call. *moved*: its status and place count even if it comes by name alone."""
        key = f"{told.namespace or DEFAULT}/{told.name}"
        uid = told.uid or key
        known = self.state.tasks.get(uid)
        if known is not None and told.name and known.key != key:
            self._drop(known)
            known = None
        if known is not None and (self._last.get(("Pod", uid)) is told or _bare_task(told)):
            if moved:
                self._place(known, told)
            return known
        job = told.job
        if job and job not in self.state.jobs:
            namespace, _, name = job.partition("/")
            told_facts.name_job(self.state, Job(namespace, name), told.queue, UntoldJob)
        self._apply("Pod", _pod(told))
        task = self.state.tasks[uid]
        self._place(task, told)
        self._last["Pod", uid] = told
        return task

    def job(self, told: WireJob) -> Job:
        """The job of a call, with its tasks."""
        uid = f"{told.namespace}/{told.name}" if told.name else told.uid
        uid = uid if not uid.startswith("/") else f"{DEFAULT}{uid}"
        known = self.state.jobs.get(uid)
        if isinstance(known, UntoldJob):
            for task in [task for task in self.state.tasks.values() if task.job is known]:
                self._drop(task)
            told_facts.forget_job(self.state, uid)
            known = None
        if known is None or known.group is None or not _bare_job(told):
            self._apply("PodGroup", _group(told, uid))
            job = self.state.jobs[uid]
            told_facts.tell_job(job, told.priority, told.min_available, told.phase)
            self._only(job.tasks.values(), told.tasks)
        for member in told.tasks:
            self.task(member if member.job else msgspec.structs.replace(member, job=uid), moved=True)
        return self.state.jobs[uid]

    def queue(self, told: WireQueue, *, sums_told: bool) -> Queue:
        """The queue of a call. *sums_told*: the call's dialect says what it holds."""
        self._apply("Queue", to_kube.queue_of(told))
        queue = self.state.queues[told.name]
        if sums_told or self.complete:
            told_facts.show_as(queue, Queue)
            if not self.complete:
                self._sums(queue, told)
        else:
            told_facts.show_as(queue, UntoldSums)
        return queue

    # -- parts ----------------------------------------------------------------------------------------------------
    def _apply(self, kind: str, data: Json) -> None:
        """Take in an object.

        :raises InvalidInput: it breaks a rule.
        """
        thing = api.decode(kind, data)
        for part in (thing.metadata.name, *((thing.metadata.namespace,) if kind in ("Pod", "PodGroup") else ())):
            if not part or "/" in part:
                raise InvalidInput(f"{kind} {thing.key!r}: must have names, and no slash in them")
        self.state.apply(Seen(thing))
        problem = self.state.problems.get((kind, thing.key))
        if problem is not None:
            raise InvalidInput(problem)

    def _only(self, known: Iterable[Task], told: list[WireTask]) -> None:
        """Drop tasks that are no longer there."""
        uids = {task.uid or f"{task.namespace or DEFAULT}/{task.name}" for task in told}
        for task in [task for task in known if task.uid not in uids]:
            self._drop(task)

    def _drop(self, task: Task) -> None:
        self.state.apply(Gone("Pod", task.key))
        self._last.pop(("Pod", task.uid), None)

    def _place(self, task: Task, told: WireTask) -> None:
        """Give a task the status and the place that were told."""
        status = _STATUS[told.status]
        node = self.state.table.by_name.get(told.node_name) if told.node_name else None
        if (task.status, task.node) != (status, node):
            self.state.set_status(task, status, node)

    def _ledgers(self, node: Node, told: WireNode) -> None:
        """What is told of a node's ledgers stands above what its tasks add up to."""
        table, row = self.state.table, node.row
        for name, amounts in (
            ("idle", told.free()),
            ("used", told.used or {}),
            ("releasing", told.releasing or {}),
            ("pipelined", told.pipelined or {}),
        ):
            ledger = _ledger(amounts)
            table.ensure_width()
            column = getattr(table, name)
            column[:, row] = 0
            for dimension, amount in ledger.items():
                column[dimension, row] = amount
        table.touched.add(row)

    def _sums(self, queue: Queue, told: WireQueue) -> None:
        if told.allocated:
            told_facts.tell_sums(queue, _ledger(told.allocated))


def _ledger(amounts: Amounts) -> dict[int, Number]:
    """Amounts of messages in the units of the ledgers."""
    return {
        d: int(amount * unit(d) // scale(name)) for name, amount in amounts.items() if name and (d := dim(name)) >= 0
    }


def _bare_node(told: WireNode) -> bool:
    """Is it a mere name?"""
    return not (told.labels or told.annotations or told.taints or told.tasks or any(told.allocatable.values()))


def _bare_task(told: WireTask) -> bool:
    return not (told.labels or told.annotations or any(told.requests.values()))


def _bare_job(told: WireJob) -> bool:
    return not (told.labels or told.annotations or told.min_resources) and all(_bare_task(task) for task in told.tasks)


def _pod(told: WireTask) -> Json:
    """The pod of a task, completed by what the message says beyond it."""
    pod = dict(to_kube.pod_of(told))
    meta = dict(pod.get("metadata") or {})
    spec = dict(pod.get("spec") or {})
    notes = {**(meta.get("annotations") or {}), **told.annotations}
    group = told.job.partition("/")[2]
    if group:
        notes[GROUP_ANNOTATION] = group
    if told.role:
        notes.setdefault(ROLE_KEY, told.role)
    if not told.preemptable:
        notes.setdefault(PREEMPTABLE_KEY, "false")
    meta |= {"name": told.name, "namespace": told.namespace or DEFAULT, "annotations": notes}
    if told.uid:
        meta["uid"] = told.uid
    spec["priority"] = told.priority
    if told.node_name and told.status not in ("Pending", "Allocated", "Pipelined"):
        spec["nodeName"] = told.node_name
    return {**pod, "metadata": meta, "spec": spec}


def _group(told: WireJob, uid: str) -> Json:
    group = to_kube.pod_group_of(told)
    namespace, _, name = uid.partition("/")
    meta = {**(group.get("metadata") or {}), "namespace": namespace, "name": name}
    spec = {**(group.get("spec") or {})}
    if told.queue:
        spec["queue"] = told.queue
    return {"metadata": meta, "spec": spec, "status": group.get("status") or {}}
