"""Questions in one dialect, objects that did not change written once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any, Final, cast

import msgspec

from pumice.engine.imagine import ImaginedNode
from pumice.engine.rows import NodeRows
from pumice.errors import InvalidInput
from pumice.extender import gojson
from pumice.extender.asking.caller import CallFailed
from pumice.extender.dialects import DIALECTS
from pumice.extender.dialects.kube import Kube
from pumice.extender.protocol import BIND, ON_SESSION_OPEN, Kind, Part, Verb
from pumice.model.api import Pod
from pumice.model.intents import Bind
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.task import Task
from pumice.state.cluster import ClusterState
from pumice.state.table import NodeTable

_TASKS_KEPT: Final = 20_000


class Writer:
    """Writes the questions of one extender.

    A node's JSON is kept until its row changes, a task's until its pod, status, place or queue does; so asking about
    one task and many nodes costs one task, and only the nodes that changed.
    """

    def __init__(self, dialect: str, *, names_only: bool = False) -> None:
        self.dialect: Final = dialect
        self._talks, self._names_only = DIALECTS[dialect], names_only
        self._lists_tasks = dialect in ("volcano", "both")
        self._table: NodeTable | None = None
        self._at = (0, 0)
        self._nodes: dict[int, tuple[bytes, list[Pod]]] = {}
        self._tasks: dict[str, tuple[object, int, str, str, bytes]] = {}
        self._imagined: dict[tuple[int, int, int], bytes] = {}
        self._names: dict[str, bytes] = {}

    # -- questions ------------------------------------------------------------------------------------------------
    def question(self, verb: Verb[Any], *things: Any) -> bytes:
        """The question of *verb* about *things*, one for each of its parts.

        :raises CallFailed: something in it cannot be written, such as an infinite score; an error like any other.
        """
        try:
            parts = [self._part(part, thing) for part, thing in zip(verb.parts, things, strict=True)]
            return self._talks.question(verb, parts)
        except InvalidInput as error:
            raise CallFailed(verb.name, "request", f"request: {error}") from error

    def predicate(self, verb: Verb[Any], task: Task, rows: NodeRows) -> list[bytes]:
        """One body per row."""
        head = self.task(task)
        return [self._talks.question(verb, [head, node]) for node in self._rows(task, rows)]

    def nodes(self, verb: Verb[Any], task: Task, rows: NodeRows) -> bytes:
        """One body for all rows (batchPredicate, prioritize)."""
        named = self._names_only and rows.extra is None
        parts: list[bytes | Sequence[bytes]] = [self.task(task), self._rows(task, rows)]
        return self._talks.question(verb, parts, names_only=named)

    def preempt(self, evictor: Task, evictees: Sequence[Task]) -> bytes:
        """Evictor and candidates in kube-scheduler's form: node by node."""
        return cast("Kube", self._talks).preempt(evictor, evictees, names_only=self._names_only)

    def bind(self, intent: Bind, task: bytes | None) -> bytes:
        """The question to bind a pod."""
        return self._talks.bind(BIND, intent, task)

    def snapshot(self, state: ClusterState) -> bytes:
        """The whole cluster.

        :raises CallFailed: as ``question``.
        """
        try:
            return gojson.encode(self._talks.snapshot(state, self._whole))
        except InvalidInput as error:
            raise CallFailed(ON_SESSION_OPEN.name, "request", f"request: {error}") from error

    # -- parts ----------------------------------------------------------------------------------------------------
    def _part(self, part: Part, thing: Any) -> bytes | list[bytes]:
        if part.many and part.kind is not Kind.GPU:
            return [self._one(part.kind, one) for one in thing]
        return self._one(part.kind, thing)

    def _one(self, kind: Kind, thing: Any) -> bytes:
        match kind, thing:
            case Kind.TASK, Task():
                return self.task(thing)
            case Kind.NODE, Node():
                return self._name(thing.name) if self._names_only else self._write_node(thing)
            case Kind.JOB, Job():
                return gojson.encode(self._talks.job(thing, self._whole, named=self._names_only))
            case Kind.QUEUE, Queue():
                return gojson.encode(self._talks.queue(thing))
            case Kind.GPU, Node():
                return gojson.encode([{"index": str(at), "used": 0, "memory": 0} for at in range(int(thing.gpus))])
            case Kind.SCORES, Mapping():
                return gojson.encode(gojson.numbers(thing))
            case _:
                raise TypeError(f"{kind.value}: cannot be written from {thing!r}")

    def task(self, task: Task) -> bytes:
        """A task's JSON; its names alone where only these are sent."""
        if not self._names_only or self.dialect == "kube":
            return bytes(self._whole(task))
        return gojson.encode(
            self._talks.named_task(task.uid, task.namespace, task.name, task.job_key, task.node_name, task.status.bit)
        )

    def _whole(self, task: Task) -> msgspec.Raw:
        queue = task.job.queue if task.job is not None else ""
        known = self._tasks.get(task.uid)
        if known is not None and known[0] is task.pod and known[1:4] == (task.status, task.node_name, queue):
            return msgspec.Raw(known[4])
        if len(self._tasks) >= _TASKS_KEPT:
            self._tasks.clear()
        body = gojson.encode(self._talks.task(task))
        self._tasks[task.uid] = (task.pod, task.status, task.node_name, queue, body)
        return msgspec.Raw(body)

    def whole_task(self, task: Task) -> bytes:
        """A task's JSON, never its names alone."""
        return bytes(self._whole(task))

    def _rows(self, task: Task, rows: NodeRows) -> list[bytes]:
        """The nodes' JSON; imagined ones are always told in full, because nobody can look them up."""
        self._forget_changed(rows.table)
        if rows.extra is not None:
            return self._imagined_rows(task, rows, rows.extra.tolist())
        if self._names_only:
            return [self._name(name) for name in rows.names]
        if not self._lists_tasks and len(self._nodes) == len(rows.table.by_name):
            return [self._nodes[row][0] for row in rows.index.tolist()]
        return [self._node(node) for node in rows.nodes]

    def _node(self, node: Node) -> bytes:
        """A node's JSON; written anew when its row changed, or one of the pods that it lists did."""
        pods = [task.pod for task in node.tasks.values()] if self._lists_tasks else []
        known = self._nodes.get(node.row)
        if known is not None and len(pods) == len(known[1]) and all(map(is_, pods, known[1])):
            return known[0]
        body = self._write_node(node)
        self._nodes[node.row] = (body, pods)
        return body

    def _write_node(self, node: Node) -> bytes:
        return gojson.encode(self._talks.node(node, self._whole))

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
            body = self._names[name] = gojson.encode(self._talks.named_node(name))
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
