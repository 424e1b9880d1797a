"""Questions in one dialect, objects that did not change written once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple, cast

import msgspec

from pumice.engine.rows import ImaginedNode, NodeRows
from pumice.errors import InvalidInput
from pumice.extender import gojson
from pumice.extender.asking.calls import CallFailed
from pumice.extender.dialects import DIALECTS
from pumice.extender.dialects.dialect import HOLE
from pumice.extender.dialects.kube import Kube
from pumice.extender.protocol import BIND, ON_SESSION_OPEN, PREEMPT, MessagePart, PartKind, Verb
from pumice.model.api import Pod
from pumice.model.intents import Bind
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.task import Task
from pumice.state.table import NodeTable

_KEPT: Final = 20_000
"""Tasks whose JSON is kept, and kinds of nodes whose amounts are."""
_LISTS_KEPT: Final = 8
"""Sets of rows whose names are kept."""


class _Form(NamedTuple):
    """A node's JSON as long as its object is the same: up to each hole and after the last; and what it has any of."""

    object: object
    parts: list[bytes]
    has: frozenset[int]


class QuestionWriter:
    """Writes the questions of one extender.

    A node's JSON is kept until its row or a pod that it lists changes, a task's until its pod, status, place or queue
    does; so asking about one task and many nodes costs one task, and only the nodes that changed.
    """

    def __init__(self, dialect: str, *, names_only: bool = False) -> None:
        self.dialect: Final = dialect
        self._talks, self._names_only = DIALECTS[dialect], names_only
        self._table: NodeTable | None = None
        self._at = (0, 0)
        self._nodes: dict[int, bytes] = {}
        self._forms: dict[int, _Form] = {}
        self._pods: dict[int, list[Pod]] = {}
        """The pods that a node's JSON lists, where it lists any."""
        self._ledgers: dict[Hashable, list[bytes]] = {}
        """What stands in the holes of nodes that hold the same amounts, but for their tasks."""
        self._tasks: dict[str, tuple[object, int, str, str, bytes]] = {}
        self._listed: dict[bytes, tuple[list[str], list[bytes]]] = {}
        """The names of some rows, and these in JSON."""
        self._asked: tuple[tuple[object, ...], list[bytes]] = ((), [])
        self._looked = False

    def begin(self) -> None:
        """A session begins: pods may have changed that stand on nodes which did not."""
        self._asked, self._looked = ((), []), False

    # -- questions ------------------------------------------------------------------------------------------------
    def question(self, verb: Verb[Any], *things: Any) -> bytes:
        """The question of *verb* about *things*, one for each of its parts.

        :raises CallFailed: something in it cannot be written, such as an infinite score; an error like any other.
        """
        try:
            if verb is ON_SESSION_OPEN:
                return gojson.encode(self._talks.snapshot(things[0], self))
            if verb is PREEMPT:
                return cast("Kube", self._talks).preempt(*things, names_only=self._names_only)
            parts = [self._part(part, thing) for part, thing in zip(verb.parts, things, strict=True)]
            return b"".join(self._talks.question(verb, parts))
        except InvalidInput as error:
            raise CallFailed(verb.name, "request", f"request: {error}") from error

    def predicate(self, verb: Verb[Any], task: Task, rows: NodeRows) -> list[bytes]:
        """One body per row."""
        self._forget_changed(rows._table)
        head = self.task(task)
        return [b"".join(self._talks.question(verb, [head, node[1:]])) for node in self._rows(task, rows)]

    def nodes(self, verb: Verb[Any], task: Task, rows: NodeRows) -> list[bytes]:
        """One body for all rows (batchPredicate, prioritize: the same, so it is written once for both)."""
        self._forget_changed(rows._table)
        extra = rows.extra
        head = self.task(task)
        key = (head, task.klass.id, self._at, rows.index.tobytes(), extra.tobytes() if extra is not None else b"")
        if key != self._asked[0]:
            named = self._names_only and extra is None
            nodes = self._rows(task, rows)
            nodes[:1] = [one[1:] for one in nodes[:1]]
            self._asked = (key, self._talks.question(verb, [head, nodes], names_only=named))
        return self._asked[1]

    def names(self, rows: NodeRows) -> list[str]:
        """The names of rows; made once for the same rows of the same table."""
        return self._named(rows)[0]

    def _named(self, rows: NodeRows) -> tuple[list[str], list[bytes]]:
        self._forget_changed(rows._table)
        if rows.extra is not None:  # these are told in full, and never again
            return rows.names, []
        listed = rows.index.tobytes()
        known = self._listed.get(listed)
        if known is None:
            if len(self._listed) >= _LISTS_KEPT:
                self._listed.clear()
            names = rows.names
            known = self._listed[listed] = (
                names,
                [b"," + self._name(name) for name in names] if self._names_only else [],
            )
        return known

    def bind(self, intent: Bind, task: bytes | None) -> bytes:
        """The question to bind a pod."""
        return self._talks.bind(BIND, intent, task)

    # -- parts ----------------------------------------------------------------------------------------------------
    def _part(self, part: MessagePart, thing: Any) -> bytes | list[bytes]:
        if part.many and part.kind is not PartKind.GPU:
            return [b",".join([self._one(part.kind, one) for one in thing])] if thing else []
        return self._one(part.kind, thing)

    def _one(self, kind: PartKind, thing: Any) -> bytes:
        match kind, thing:
            case PartKind.TASK, Task():
                return self.task(thing)
            case PartKind.NODE, Node():
                return self._name(thing.name) if self._names_only else gojson.encode(self._talks.node(thing, self))
            case PartKind.JOB, Job():
                return gojson.encode(self._talks.job(thing, self, named=self._names_only))
            case PartKind.QUEUE, Queue():
                return gojson.encode(self._talks.queue(thing))
            case PartKind.GPU, Node():
                return gojson.encode([{"index": str(at), "used": 0, "memory": 0} for at in range(int(thing.gpus))])
            case PartKind.SCORES, Mapping():
                return gojson.encode(gojson.numbers(thing))
            case _:
                raise TypeError(f"{kind.value}: cannot be written from {thing!r}")

    def task(self, task: Task) -> bytes:
        """A task's JSON; its names alone where only these are sent."""
        if not self._names_only or self.dialect == "kube":
            return bytes(self.whole(task))
        return gojson.encode(self._talks.named(task))

    def whole(self, task: Task) -> msgspec.Raw:
        """A task's JSON, never its names alone."""
        queue = task.job.queue if task.job is not None else ""
        known = self._tasks.get(task.uid)
        if known is not None and known[0] is task.pod and known[1:4] == (task.status, task.node_name, queue):
            return msgspec.Raw(known[4])
        if len(self._tasks) >= _KEPT:
            self._tasks.clear()
        body = gojson.encode(self._talks.task(task))
        self._tasks[task.uid] = (task.pod, task.status, task.node_name, queue, body)
        return msgspec.Raw(body)

    def on(self, node: Node, *more: Task) -> msgspec.Raw:
        """The JSON of the tasks on a node, and of some *more*, by their keys."""
        tasks = {task.key: self.whole(task) for task in (*node.tasks.values(), *more)}
        return msgspec.Raw(gojson.encode(gojson.sorted_map(tasks)))

    def _rows(self, task: Task, rows: NodeRows) -> list[bytes]:
        """The nodes' JSON, each after a comma; imagined ones are always told in full: nobody can look them up."""
        table, known, out = rows._table, self._nodes, []
        if rows.extra is not None:
            standing: dict[int, bytes] = {}
            for node, more in zip(rows.nodes, rows.extra.tolist(), strict=True):
                if self._talks.lists_tasks and node.row not in standing:
                    standing[node.row] = bytes(self.on(node, task))
                out.append(self._write_node(table, node, standing.get(node.row, b""), task, more))
            return out
        if self._names_only:
            return [*self._named(rows)[1]]
        index = rows.index.tolist()
        for row in set(index) - known.keys() if len(known) < len(table.by_name) else ():
            if (one := table.nodes[row]) is not None:
                known[row] = self._write_node(table, one, bytes(self.on(one)) if self._talks.lists_tasks else b"")
                if self._talks.lists_tasks and one.tasks:
                    self._pods[row] = [task.pod for task in one.tasks.values()]
        return [known[row] for row in index]

    def _write_node(self, table: NodeTable, node: Node, tasks: bytes, like: Task | None = None, more: int = 0) -> bytes:
        """A comma and a node's JSON, the *tasks* on it in it if these are listed; as with *more* tasks *like* one."""
        form = self._forms.get(node.row)
        if form is None or form.object is not node.object:
            parts = (b"," + gojson.encode(self._talks.node_form(node))).split(bytes(HOLE))
            form = self._forms[node.row] = _Form(node.object, parts, frozenset(node.capacity.amounts))
        key = (table.amounts_of(node.row), form.has, like and like.klass, more)
        held = self._ledgers.get(key)
        if held is None:
            if len(self._ledgers) >= _KEPT:
                self._ledgers.clear()
            now = self._talks.ledgers(node if like is None else ImaginedNode(node, like, more))
            held = self._ledgers[key] = [gojson.encode(amounts) for amounts in now.values()]
        return b"".join(chain.from_iterable(zip(form.parts, (*held, tasks, b""), strict=False)))

    def _name(self, name: str) -> bytes:
        return gojson.encode(self._talks.named_node(name))

    def _forget_changed(self, table: NodeTable) -> None:
        """Drop what was written of rows that changed since."""
        at = (table.touched.position, table.changed.position)
        if not self._looked:
            self._looked = True
            if table is self._table and self._talks.lists_tasks:
                self._forget_moved(table)
        if table is self._table and at == self._at:
            return
        touched = table.touched.since(self._at[0]) if table is self._table else None
        changed = table.changed.since(self._at[1]) if table is self._table else None
        if touched is None or changed is None or changed:
            self._listed.clear()
        if touched is None or changed is None:
            self._nodes.clear()
            self._forms.clear()
            self._pods.clear()
        else:
            for row in touched | changed:
                self._forget_node(row)
            for row in changed:
                self._forms.pop(row, None)
        self._table, self._at = table, at

    def _forget_moved(self, table: NodeTable) -> None:
        """Drop what was written of nodes on which a pod is no longer the object that it was."""
        for row, pods in list(self._pods.items()):
            node = table.nodes[row]
            now = node.tasks.values() if node is not None else ()
            if len(now) != len(pods) or not all(task.pod is pod for task, pod in zip(now, pods, strict=True)):
                self._forget_node(row)

    def _forget_node(self, row: int) -> None:
        self._nodes.pop(row, None)
        self._pods.pop(row, None)
