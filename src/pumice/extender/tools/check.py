"""A conformance suite for running extenders: one verdict per verb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

import msgspec

from pumice.extender import answers as a
from pumice.extender import protocol as p
from pumice.extender.answers import Answer
from pumice.extender.asking.caller import CallFailed, call
from pumice.extender.asking.client import Client
from pumice.extender.asking.settings import Transport
from pumice.extender.asking.writer import QuestionWriter
from pumice.extender.dialects import DIALECTS
from pumice.extender.protocol import Verb
from pumice.model import api
from pumice.model.events import Seen
from pumice.model.status import TaskStatus
from pumice.model.task import GROUP_ANNOTATION, ROLE_KEY
from pumice.state.cluster import ClusterState

_CREATED: Final = "2024-01-01T00:00:00Z"
_ROOM: Final = {"cpu": "8", "memory": "32Gi", "pods": "110"}
QUESTIONS: Final = tuple(name for name in p.VERBS if name != p.BIND.name)
"""What is asked, in the order of a session. ``bind`` is left out: it would bind."""


@dataclass(frozen=True, slots=True)
class VerbCheck:
    """What became of one verb: ``ok``, ``absent`` (404), ``warning`` or ``failed``, and why."""

    verb: str
    outcome: str
    notes: list[str] = field(default_factory=list)
    milliseconds: float = 0.0


def check(
    transport: Transport, *, dialect: str = "both", paths: Mapping[str, str] | None = None, verbs: Sequence[str] = ()
) -> list[VerbCheck]:
    """Ask a running extender every verb of *dialect* (or only *verbs*); a verdict for each, in a session's order."""
    talks = DIALECTS[dialect]
    asked = [name for name in QUESTIONS if name in talks.carries and (not verbs or name in verbs)]
    where = {name: (paths or {}).get(name, p.VERBS[name].kube if dialect == "kube" else name) for name in asked}
    client = Client(replace(transport, breaker_failures=0), where, talks)
    try:
        return [_check(client, p.VERBS[name], dialect) for name in asked]
    finally:
        client.close()


def _check(client: Client, verb: Verb[Any], dialect: str) -> VerbCheck:
    body = question(verb, dialect)
    client.observed()
    try:
        answer = call(client, verb, body)
    except CallFailed as failure:
        if failure.kind == "status" and " answered 404" in failure.text:
            return VerbCheck(verb.name, "absent")
        return VerbCheck(verb.name, "failed", [failure.text])
    milliseconds = round(sum(one.seconds for one in client.observed()) * 1000, 1)
    wrong = _wrong(verb, answer)
    if wrong:
        return VerbCheck(verb.name, "failed", [wrong], milliseconds)
    notes = [] if verb.once else _again(client, verb, body, answer)
    return VerbCheck(verb.name, "warning" if notes else "ok", notes, milliseconds)


def _again(client: Client, verb: Verb[Any], body: bytes, answer: Answer) -> list[str]:
    """Does a second question, with a field that nobody knows, get the same answer?"""
    message = msgspec.json.decode(body)
    message["xUnknown"] = {"added": "later"}
    try:
        second = call(client, verb, msgspec.json.encode(message))
    except CallFailed as failure:
        return [f"a field that it does not know is an error: {failure.text}"]
    return [] if second == answer else ["the same question got another answer"]


# -- a made-up cluster ----------------------------------------------------------------------------------------------
@cache
def _cluster() -> ClusterState:
    """Two nodes, a queue, and a job with one task that waits and one that runs."""
    state = ClusterState()
    meta = {"namespace": "check", "name": "check", "creationTimestamp": _CREATED}
    objects: list[tuple[str, dict[str, Any]]] = [
        ("Queue", {"metadata": {"name": "check"}, "spec": {"weight": 1}, "status": {"state": "Open"}}),
        *(("Node", _node(f"check-node-{n}")) for n in (1, 2)),
        ("PodGroup", {"metadata": meta, "spec": {"minMember": 1, "queue": "check"}, "status": {"phase": "Inqueue"}}),
        ("Pod", _pod(0, {}, "Pending")),
        ("Pod", _pod(1, {"nodeName": "check-node-1"}, "Running")),
    ]
    for kind, data in objects:
        state.apply(Seen(api.decode(kind, data)))
    return state


def _node(name: str) -> dict[str, Any]:
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}, "creationTimestamp": _CREATED}
    return {"metadata": meta, "status": {"allocatable": _ROOM, "capacity": _ROOM}}


def _pod(number: int, spec: dict[str, Any], phase: str) -> dict[str, Any]:
    meta = {
        "namespace": "check",
        "name": f"check-worker-{number}",
        "uid": f"check-uid-{number}",
        "creationTimestamp": _CREATED,
        "labels": {"app": "check"},
        "annotations": {GROUP_ANNOTATION: "check", ROLE_KEY: "worker"},
    }
    container = {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {"metadata": meta, "spec": {"containers": [container], **spec}, "status": {"phase": phase}}


def _things(verb: Verb[Any]) -> dict[str, Any]:
    """What a question of *verb* may be about, by the name of the part."""
    state = _cluster()
    waiting, running = (state.tasks[f"check-uid-{n}"] for n in (0, 1))
    nodes = [state.nodes[name] for name in sorted(state.nodes)]
    job, queue = state.jobs["check/check"], state.queues["check"]
    return {
        "task": waiting,
        "evictor": waiting,
        "evictees": [running],
        "candidates": [running],
        "tasks": [waiting, running] if verb is p.TASK_ORDER else [running],
        "node": nodes[0],
        "nodes": nodes,
        "gpus": nodes[0],
        "snapshot": state,
        "nodeScore": {node.name: float(n) for n, node in enumerate(nodes, 1)},
        "job": job,
        "jobs": [job],
        "queue": queue,
        "queues": [queue],
    }


def question(verb: Verb[Any], dialect: str) -> bytes:
    """A plain question about the made-up cluster."""
    state, writer, things = _cluster(), QuestionWriter(dialect), _things(verb)
    asked = [things[part.name] for part in verb.parts]
    if verb is p.ON_SESSION_OPEN:
        return writer.snapshot(*asked)
    if verb is p.PREEMPT:
        return writer.preempt(*asked)
    if verb is p.ALLOCATE_FUNC:
        state.set_status(asked[0], TaskStatus.ALLOCATED, state.nodes["check-node-1"])
        try:
            return writer.question(verb, *asked)
        finally:
            state.set_status(asked[0], TaskStatus.PENDING, None)
    return writer.question(verb, *asked)


# -- rules ----------------------------------------------------------------------------------------------------------
def _wrong(verb: Verb[Any], answer: Answer) -> str:
    """Why an answer breaks the contract, or nothing."""
    if answer.problem:
        return answer.problem
    if isinstance(answer, a.NodeRefusal) and not 0 <= answer.code <= 5:
        return f"code must be 0 to 5, got {answer.code}"
    about = _things(verb)[verb.parts[-1].name] if verb.parts else ()
    known = {one if isinstance(one, str) else getattr(one, "uid", one.name) for one in about} if answer.named() else ()
    strangers = sorted(set(answer.named()).difference(known))
    return f"the answer names what was not asked about: {', '.join(strangers)}" if strangers else ""
