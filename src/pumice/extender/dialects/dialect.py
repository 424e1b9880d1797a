"""A dialect writes questions from what plugins see and reads them: the documented one, and what all share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final, Protocol, TypeVar

import msgspec

from pumice.errors import InvalidInput, decoder_words
from pumice.extender import answers, gojson
from pumice.extender.answers import Answer, Json, NodeRefusal
from pumice.extender.dialects.messages import SHAPES, Ledger
from pumice.extender.gojson import WireError, read
from pumice.extender.protocol import ASKED, ON_SESSION_OPEN, MessagePart, PartKind, Verb
from pumice.model.intents import Bind
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.resources import CPU, MEMORY, PODS, dim_name, unit
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

A = TypeVar("A", bound=Answer)


class Written(Protocol):
    """The writer and store of nested parts."""

    def whole(self, task: Task) -> msgspec.Raw:
        """A task."""

    def on(self, node: Node) -> msgspec.Raw:
        """The tasks on a node, by their keys."""


Encoded = msgspec.Raw | bytes
"""A part of a message, JSON still."""
Part = bytes | Sequence[bytes]
"""A part of a question in JSON; of a list what stands between its brackets, in pieces."""
Message = dict[str, Any]
"""A question by the names of its parts, which are JSON still (`Encoded`); of a list the items may be (`items`)."""
Known = Callable[["Dialect", PartKind, Encoded], Any]
"""The result of an equal part, byte for byte, or a new one."""

HOLE: Final = msgspec.Raw(b"\0")
"""Stands where something is written later; no JSON has this byte."""
MESSAGE: Final[msgspec.json.Decoder[dict[str, msgspec.Raw]]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST: Final[msgspec.json.Decoder[list[msgspec.Raw] | None]] = msgspec.json.Decoder(list[msgspec.Raw] | None)
_NULL: Final = msgspec.Raw(b"null")
_MIB: Final = 2**20
_BITS: Final = {status.bit: status for status in TaskStatus}
_SCORES: Final[msgspec.json.Decoder[dict[str, float] | None]] = msgspec.json.Decoder(dict[str, float] | None)


class Dialect:
    """The documented dialect, for services written from the documentation; others say how they differ from it."""

    name: ClassVar[str] = "documented"
    carries: ClassVar[frozenset[str]] = frozenset(ASKED)
    """The verbs that can be said in it."""
    lists_tasks: ClassVar[bool] = False
    """Whether a node is told with the tasks on it; they stand in its last hole."""
    no_items: ClassVar[bytes] = b"[]"
    """An empty list of objects."""
    shapes: ClassVar[dict[PartKind, Any]] = SHAPES
    """How each kind of part is read: a struct that shows what it tells (see ``messages``)."""

    def __init__(self) -> None:
        self._plain: dict[str, tuple[Answer, bytes]] = {}
        """The last answer to a predicate, which is nearly always the next one too."""

    # -- objects that are written ---------------------------------------------------------------------------------
    def task(self, task: Task) -> Any:
        """A task as it stands now."""
        job = task.job
        return {
            "uid": task.uid,
            "namespace": task.namespace,
            "name": task.name,
            "job": task.job_key,
            "queue": job.queue if job is not None else "",
            "role": task.role,
            "resources": of_class(task, self.name, lambda requests: amounts(requests, pods=False)),
            "priority": task.priority,
            "labels": task.labels,
            "annotations": task.annotations,
            "nodeName": task.node_name,
            "phase": task.status.title,
        }

    def named_task(self, uid: str, namespace: str, name: str, job: str = "", node: str = "", status: int = 1) -> Any:
        """A task by its names and its place alone; *status* is Volcano's number."""
        place = {"nodeName": node, "phase": _BITS[status].title}
        return {"uid": uid, "namespace": namespace, "name": name, "job": job, **place}

    def named(self, task: Task) -> Any:
        """A task as it stands now, by its names and its place alone."""
        return self.named_task(task.uid, task.namespace, task.name, task.job_key, task.node_name, task.status.bit)

    def node_form(self, node: Node) -> Any:
        """A node as it stands as long as its object is the same, with a ``HOLE`` for each of `ledgers` and tasks."""
        return {
            "name": node.name,
            "labels": node.labels,
            "annotations": node.annotations,
            "taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in node.taints],
            "allocatable": amounts(node.allocatable.amounts),
            "idle": HOLE,
            "used": HOLE,
        }

    def ledgers(self, node: Node) -> Json:
        """The values in the holes, but for tasks; nodes with equal amounts have equal values."""
        return {"idle": amounts(node.idle.amounts), "used": amounts(node.used.amounts, zeros=False)}

    def node(self, node: Node, written: Written) -> Any:
        """A node as it stands now."""
        said = {**self.node_form(node), **self.ledgers(node)}
        return {**said, "Tasks": written.on(node)} if self.lists_tasks else said

    def named_node(self, name: str) -> Any:
        """A node by its name alone."""
        return {"name": name}

    def job(self, job: Job, written: Written, *, named: bool = False) -> Any:
        """A job with its tasks; *named*: by names, with the places of its tasks."""
        said: Json = {
            "uid": job.uid,
            "namespace": job.namespace,
            "name": job.name,
            "queue": job.queue,
            "minAvailable": job.min_available,
            "priority": job.priority,
        }
        if named:
            return {**said, "members": [self.named(task) for task in job.tasks.values()]}
        return {**said, "annotations": job.annotations, "members": [written.whole(task) for task in job.tasks.values()]}

    def queue(self, queue: Queue) -> Any:
        """A queue with what its tasks hold now."""
        return {
            "name": queue.name,
            "weight": queue.weight,
            "capability": amounts(queue.capability.amounts, zeros=False),
            "deserved": amounts(queue.deserved.amounts, zeros=False),
            "guarantee": amounts(queue.guarantee.amounts, zeros=False),
            "allocated": amounts(queue.allocated.amounts),
            "state": queue.state,
        }

    def snapshot(self, state: ClusterState, written: Written) -> Any:
        """The message that tells of the whole cluster."""
        return {
            "snapshot": {
                "jobs": [self.job(job, written) for job in by_key(state.session_jobs)],
                "nodes": [self.node(node, written) for node in by_key(state.table.by_name)],
                "queues": [self.queue(queue) for queue in by_key(state.queues)],
            }
        }

    # -- questions ------------------------------------------------------------------------------------------------
    def question(self, verb: Verb[Any], parts: Sequence[Part], *, names_only: bool = False) -> list[bytes]:
        """The body of a question, from its parts in the table's order; not joined, as it may be many megabytes."""
        said: list[bytes] = []
        for part, given in zip(verb.parts, parts, strict=True):
            said.append(b'%b"%b":' % (b"," if said else b"{", part.name.encode()))
            said += (given,) if isinstance(given, bytes) else (b"[", *given, b"]") if given else (self.no_items,)
        said.append(b"}" if said else b"{}")
        return said

    def bind(self, verb: Verb[Any], intent: Bind, task: bytes | None) -> bytes:
        """The question to bind a pod; *task*: as it was when its bind was decided."""
        if task is None:
            namespace, _, name = intent.pod.rpartition("/")
            task = gojson.encode(self.named_task(intent.uid, namespace, name))
        return b"".join(self.question(verb, [task, gojson.encode(self.named_node(intent.node))]))

    def read(self, verb: Verb[Any], message: Message, known: Known) -> dict[str, Any]:
        """The data of a question, part by part.

        :raises WireError: a part missing or of the wrong type, or a verb that is not carried at all.
        """
        self._carried(verb)
        return {part.name: self._part(verb, part, message.get(part.name), known) for part in verb.parts}

    def echo(self, verb: Verb[Any], message: Message) -> list[msgspec.Raw] | None:
        """The tasks in the list of a question as they came: Volcano evicts what it reads in the answer."""
        last = verb.parts[-1]
        return items(message.get(last.name)) if last.kind is PartKind.TASK else None

    def _part(self, verb: Verb[Any], part: MessagePart, raw: Any, known: Known) -> Any:
        try:
            if part.kind is PartKind.SCORES:
                return _SCORES.decode(raw or _NULL) or {}
            if part.many:
                return [known(self, part.kind, item) for item in items(raw)]
            if raw is None:
                raise WireError(verb.name, f"request: Object missing required field `{part.name}`")
            return known(self, part.kind, raw)
        except (InvalidInput, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise WireError(verb.name, f"request: {part.name}: {decoder_words(error)}") from error

    def read_object(self, kind: PartKind, raw: Encoded) -> Any:
        """One part of a question, as told.

        :raises msgspec.DecodeError: not JSON, or a field of the wrong type.
        :raises InvalidInput: a value that breaks a rule.
        """
        return decoder(self.shapes[kind]).decode(raw)

    def read_snapshot(self, body: bytes) -> Any:
        """The ``Cluster`` of an onSessionOpen.

        :raises WireError: as ``read``.
        """
        self._carried(ON_SESSION_OPEN)
        return read("onSessionOpen", "request", body, decoder(self.shapes[PartKind.SNAPSHOT])).cluster()

    # -- answers --------------------------------------------------------------------------------------------------
    def write_answer(self, verb: Verb[Any], answer: Answer) -> bytes:
        """The body of an answer.

        :raises WireError: something in it cannot be said, such as a number that is none.
        """
        known = self._plain.get(verb.name)
        if known is not None and known[0] == answer:
            return known[1]
        self._carried(verb)
        try:
            body = gojson.encode(self._said(answer))
        except InvalidInput as error:
            raise WireError(verb.name, f"answer: {error}") from error
        if verb.answer is NodeRefusal:
            self._plain[verb.name] = (answer, body)
        return body

    def _said(self, answer: Answer) -> object:
        return answer.said()

    def read_answer(self, verb: Verb[A], body: bytes) -> A:
        """The answer in *body*, whatever dialect it is in. Answers to the session verbs are not looked at.

        :raises WireError: not JSON, larger or deeper than allowed, or a field of the wrong type.
        """
        self._carried(verb)
        return answers.decode(verb.name, verb.answer, body)

    def make_known(self) -> None:
        """Have what reads messages made now, in this thread, before several read them (`model.api.make_known`)."""
        for shape in self.shapes.values():
            decoder(shape)

    def _carried(self, verb: Verb[Any]) -> None:
        if verb.name not in self.carries:
            raise WireError(verb.name, f"the {self.name} dialect does not carry this verb")


@cache
def decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)


def items(part: Any) -> list[Any]:
    """The items of a list that is still JSON, or is split already; none for null.

    :raises msgspec.DecodeError: it is no list.
    """
    return part if isinstance(part, list) else _LIST.decode(part or _NULL) or []


def of_class(task: Task, dialect: str, form: Callable[[Ledger], object]) -> msgspec.Raw:
    """The requests of a task, in the form of a dialect: written once for all tasks of a class."""
    memo = task.klass.memo
    known: msgspec.Raw | None = memo.get(("extender", dialect))
    if known is None:
        known = memo["extender", dialect] = msgspec.Raw(gojson.encode(form(task.requests.amounts)))
    return known


def by_key(things: Mapping[str, Any]) -> list[Any]:
    """The values of a mapping in the order of its keys."""
    return [things[key] for key in sorted(things)]


def amounts(held: Ledger, *, zeros: bool = True, pods: bool = True) -> dict[str, int | float]:
    """Amounts in cores, MiB and whole units, cpu and memory always among them; *zeros*: those of nothing too."""
    found: dict[str, int | float] = {"cpu": 0, "memory": 0}
    for d, value in held.items():
        if (value or zeros or d in (CPU, MEMORY)) and (pods or d != PODS):
            per = _MIB if d == MEMORY else unit(d)
            whole, rest = divmod(value, per)
            found[dim_name(d)] = int(whole) if rest == 0 else value / per
    return gojson.numbers(found)
