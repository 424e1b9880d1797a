"""Request bodies in one dialect, objects that did not change written once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from types import ModuleType
from typing import Any, Final

import msgspec

from pumice.engine.imagine import ImaginedNode
from pumice.engine.rows import NodeRows
from pumice.extender import translate
from pumice.extender.port import CallFailed
from pumice.extender.wire import both, documented, kube, volcano
from pumice.extender.wire import messages as m
from pumice.extender.wire.errors import WireError
from pumice.extender.wire.objects import Wire, WireJob, WireNode, WireTask, WireVictims
from pumice.extender.wire.verbs import ON_SESSION_OPEN, PREDICATE, PREEMPT, Verb
from pumice.model.api import Pod
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.task import Task
from pumice.state.cluster import ClusterState
from pumice.state.table import NodeTable

_OBJECTS: Final[Mapping[str, ModuleType]] = {"documented": documented, "volcano": volcano, "both": both}
_NAME_FIELDS: Final = {"documented": (b"name",), "volcano": (b"Name",), "both": (b"name", b"Name")}
"""All that is said of a node by name."""
_TASKS_KEPT: Final = 20_000


class Writer:
    """Writes the questions of one extender.

    A node's JSON is kept until its row changes, a task's until its pod, status or place does; so asking about one
    task and many nodes costs one task, and only the nodes that changed.
    """

    def __init__(self, dialect: str, *, names_only: bool) -> None:
        self.dialect: Final = dialect
        self._names_only = names_only
        self._whole = dialect in ("volcano", "both")
        self._table: NodeTable | None = None
        self._at = (0, 0)
        self._nodes: dict[int, tuple[bytes, list[Pod]]] = {}
        self._tasks: dict[str, tuple[object, int, str, bytes]] = {}
        self._imagined: dict[tuple[int, int, int], bytes] = {}
        self._names: dict[str, bytes] = {}

    # -- questions ------------------------------------------------------------------------------------------------
    def predicate(self, task: Task, rows: NodeRows) -> list[bytes]:
        """One body per row."""
        dialect = _OBJECTS[self.dialect]
        head = self.task(task)
        bodies: list[bytes] = [dialect.encode_parts(PREDICATE, task=head, node=node) for node in self._rows(task, rows)]
        return bodies

    def nodes(self, verb: Verb[m.NodesRequest, Any], task: Task, rows: NodeRows) -> bytes:
        """One body for all rows (batchPredicate, prioritize)."""
        if self.dialect == "kube":
            names_only = self._names_only and rows.extra is None
            listed = [
                WireNode(name=node.name) if names_only else translate.wire_node(node) for node in _seen(task, rows)
            ]
            return kube.encode_request(
                verb, m.NodesRequest(task=translate.wire_task(task), nodes=listed, names_only=names_only)
            )
        body: bytes = _OBJECTS[self.dialect].encode_parts(verb, task=self.task(task), nodes=self._rows(task, rows))
        return body

    def victims(self, verb: Verb[m.VictimsRequest, Any], evictor: Task, evictees: Sequence[Task]) -> bytes:
        """One body for one evictor and its candidates."""
        body: bytes = _OBJECTS[self.dialect].encode_parts(
            verb, evictor=self.task(evictor), evictees=[self.task(task) for task in evictees]
        )
        return body

    def preempt(self, evictor: Task, evictees: Sequence[Task]) -> bytes:
        """As ``victims``, in kube-scheduler's form: node by node."""
        candidates: dict[str, list[WireTask]] = {}
        for task in evictees:
            candidates.setdefault(task.node_name, []).append(translate.wire_task(task))
        request = m.PreemptRequest(
            task=translate.wire_task(evictor),
            candidates={node: WireVictims(tasks=tasks) for node, tasks in candidates.items()},
            names_only=self._names_only,
        )
        return kube.encode_request(PREEMPT, request)

    def tasks(self, verb: Verb[m.TasksRequest, Any], tasks: Sequence[Task]) -> bytes:
        """One body for many tasks."""
        body: bytes = _OBJECTS[self.dialect].encode_parts(verb, tasks=[self.task(task) for task in tasks])
        return body

    def one_task(self, verb: Verb[m.TaskRequest, Any], task: Task) -> bytes:
        """One body for one task."""
        body: bytes = _OBJECTS[self.dialect].encode_parts(verb, task=self.task(task))
        return body

    def job(self, verb: Verb[m.JobRequest, Any], job: Job) -> bytes:
        """One body for one job."""
        return self.request(verb, m.JobRequest(job=self._wire_job(job)))

    def jobs(self, verb: Verb[m.JobsRequest, Any], jobs: Iterable[Job]) -> bytes:
        """One body for many jobs."""
        return self.request(verb, m.JobsRequest(jobs=[self._wire_job(job) for job in jobs]))

    def snapshot(self, state: ClusterState) -> bytes:
        """The whole cluster."""
        cluster = translate.wire_snapshot(state, whole=self._whole)
        return self.request(ON_SESSION_OPEN, m.SessionOpenRequest(snapshot=cluster))

    def request(self, verb: Verb[Any, Any], request: Wire) -> bytes:
        """Any other question.

        :raises CallFailed: something in it cannot be written, such as an infinite score; an error like any other.
        """
        module = kube if self.dialect == "kube" else _OBJECTS[self.dialect]
        try:
            body: bytes = module.encode_request(verb, request)
        except WireError as error:
            raise CallFailed(verb.name, "request", error.detail) from error
        return body

    def _wire_job(self, job: Job) -> WireJob:
        return translate.named_job(job) if self._names_only else translate.wire_job(job)

    # -- parts ----------------------------------------------------------------------------------------------------
    def task(self, task: Task) -> bytes:
        """A task's JSON."""
        known = self._tasks.get(task.uid)
        if known is not None and known[0] is task.pod and known[1] == task.status and known[2] == task.node_name:
            return known[3]
        if len(self._tasks) >= _TASKS_KEPT:
            self._tasks.clear()
        value = translate.named_task(task) if self._names_only else translate.wire_task(task)
        body: bytes = _OBJECTS[self.dialect].encode_object(value)
        self._tasks[task.uid] = (task.pod, task.status, task.node_name, body)
        return body

    def _rows(self, task: Task, rows: NodeRows) -> list[bytes]:
        """The nodes' JSON; imagined ones are always told in full, because nobody can look them up."""
        self._forget_changed(rows.table)
        if rows.extra is not None:
            return self._imagined_rows(task, rows, rows.extra.tolist())
        if self._names_only:
            return [self._name(name) for name in rows.names]
        return [self._node(node) for node in rows.nodes]

    def _node(self, node: Node) -> bytes:
        """A node's JSON; written anew when its row changed, or one of the pods that it lists did."""
        pods = [task.pod for task in node.tasks.values()] if self._whole else []
        known = self._nodes.get(node.row)
        if known is not None and len(pods) == len(known[1]) and all(map(is_, pods, known[1])):
            return known[0]
        body = self._write_node(node)
        self._nodes[node.row] = (body, pods)
        return body

    def _write_node(self, node: Node) -> bytes:
        body: bytes = _OBJECTS[self.dialect].encode_object(translate.wire_node(node, whole=self._whole))
        return body

    def _imagined_rows(self, task: Task, rows: NodeRows, extra: list[int]) -> list[bytes]:
        """Imagined nodes; the same ones are usually asked about twice, by filter and by score."""
        out = []
        for node, more in zip(rows.nodes, extra, strict=True):
            key = (node.row, more, task.klass.id)
            body = self._imagined.get(key)
            if body is None:
                body = self._imagined[key] = self._write_node(ImaginedNode(node, task, more))
            out.append(body)
        return out

    def _name(self, name: str) -> bytes:
        body = self._names.get(name)
        if body is None:
            written = msgspec.json.encode(name)
            fields = [b'"%b":%b' % (field, written) for field in _NAME_FIELDS[self.dialect]]
            body = self._names[name] = b"{%b}" % b",".join(fields)
        return body

    def _forget_changed(self, table: NodeTable) -> None:
        """Drop what was written of rows that changed since."""
        at = (table.touched.position, table.changed.position)
        if table is self._table and at == self._at:
            return
        self._imagined.clear()
        touched = table.touched.since(self._at[0]) if table is self._table else None
        changed = table.changed.since(self._at[1]) if table is self._table else None
        if touched is None or changed is None:
            self._nodes.clear()
            self._names.clear()
        else:
            for row in touched | changed:
                self._nodes.pop(row, None)
        self._table, self._at = table, at


def _seen(task: Task, rows: NodeRows) -> list[Node]:
    """The nodes of rows as they are, or as they are imagined to be."""
    if rows.extra is None:
        return rows.nodes
    return [ImaginedNode(node, task, extra) for node, extra in zip(rows.nodes, rows.extra.tolist(), strict=True)]
