"""How questions and answers look on the wire: four dialects, straight between model objects and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec

from pumice.extender.answers import Answer, Json
from pumice.extender.dialects.dialect import MESSAGE, Encoded, Written
from pumice.extender.dialects.dialect import Dialect as Dialect
from pumice.extender.dialects.documented import Documented
from pumice.extender.dialects.kube import Kube
from pumice.extender.dialects.volcano import Volcano
from pumice.extender.gojson import WireError, read
from pumice.extender.protocol import Verb
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

_DOCUMENTED: Final = Documented()
_VOLCANO: Final = Volcano()


class Both(Dialect):
    """Both forms at once: every object has the documented fields first and Volcano's after them.

    A service written for either understands it. Go matches names without regard to case, so a later field overwrites
    an earlier one of the same name; that is why Volcano's come last, and no documented field has the name of one of
    Volcano's with another type. One service does not understand it: one written in Go that reads a node's documented
    ``allocatable``, ``idle`` or ``used`` into a map of numbers. Ask that one in the documented dialect.
    """

    name: ClassVar[str] = "both"
    understands: ClassVar[frozenset[str]] = frozenset({"documented", "volcano", "both"})

    def task(self, task: Task) -> Json:
        return {**_DOCUMENTED.task(task), **_VOLCANO.task(task)}

    def named_task(self, uid: str, namespace: str, name: str, job: str = "", node: str = "", status: int = 1) -> Json:
        names = (uid, namespace, name, job, node, status)
        return {**_DOCUMENTED.named_task(*names), **_VOLCANO.named_task(*names)}

    def node_form(self, node: Node) -> Json:
        return {**_DOCUMENTED.node_form(node), "idle": None, "used": None, **_VOLCANO.node_form(node)}

    def node(self, node: Node, written: Written, form: Mapping[str, Any]) -> Json:
        return _VOLCANO.node(node, written, _DOCUMENTED.node(node, written, form))

    def named_node(self, name: str) -> Json:
        return {"name": name, "Name": name}

    def job(self, job: Job, written: Written, *, named: bool = False) -> Json:
        return {**_DOCUMENTED.job(job, written, named=named), **_VOLCANO.job(job, written, named=named)}

    def queue(self, queue: Queue) -> Json:
        return {**_DOCUMENTED.queue(queue), **_VOLCANO.queue(queue)}

    def snapshot(self, state: ClusterState, written: Written) -> Json:
        return {**_DOCUMENTED.snapshot(state, written), **_VOLCANO.snapshot(state, written)}

    def _said(self, answer: Answer) -> object:
        return {**answer.said(), **answer.in_go()}


DIALECTS: Final[dict[str, Dialect]] = {dialect.name: dialect for dialect in (_DOCUMENTED, _VOLCANO, Kube(), Both())}
"""Every dialect by its name."""

_OBJECT: Final[msgspec.json.Decoder[dict[str, msgspec.Raw] | None]] = msgspec.json.Decoder(
    dict[str, msgspec.Raw] | None
)
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_NULL: Final = msgspec.Raw(b"null")
_KUBE: Final = frozenset({"pod", "podname"})
_GO: Final = frozenset({"UID", "Name", "Namespace", "Job", "Jobs", "Nodes", "Queues", "NamespaceInfo", "Pod", "Node"})
_LOWER: Final = frozenset({"uid", "name", "namespace", "snapshot"})
_PARTS: Final = ("task", "evictor", "job", "queue", "node", "tasks", "jobs", "queues", "nodes")


def recognise(verb: Verb[Any], body: bytes) -> Dialect:
    """The dialect of the question in *body*; ``documented`` where nothing tells, as in an empty message.

    Volcano's objects have a ``Name`` or ``UID``, documented ones a ``name`` or ``uid``, an object with both is
    ``both``; kube-scheduler names a ``Pod``. Only names are looked at.

    :raises WireError: *body* is no JSON object, or is nested too deep.
    """
    message = read(verb.name, "request", body, MESSAGE)
    return DIALECTS[dialect_of(verb, message) or "documented"]


def dialect_of(verb: Verb[Any], message: Mapping[str, Encoded]) -> str:
    """As ``recognise``, the name alone, of a message that was taken apart already; nothing where nothing tells."""
    if any(name.casefold() in _KUBE for name in message):
        return "kube"
    part = next((message[name] for name in _PARTS if name in message), None)
    names = set(message if part is None else _names(verb, part))
    if names & _GO:
        return "both" if names & _LOWER else "volcano"
    return "documented" if names & _LOWER else ""


def _names(verb: Verb[Any], part: Encoded) -> list[str]:
    """The names in an object, or in the first object of a list; none in an empty list or null."""
    try:
        if bytes(part).startswith(b"["):
            part = next(iter(_LIST.decode(part)), _NULL)
        return list(_OBJECT.decode(part) or ())
    except msgspec.DecodeError as error:
        raise WireError(verb.name, f"request: {error}") from error
