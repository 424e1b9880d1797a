"""Looks at an extender that runs, with a verdict for every verb, and at policies that a real Volcano is to ask."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

import msgspec

from pumice.errors import PumiceError
from pumice.extender import answers as a
from pumice.extender import protocol as p
from pumice.extender.answering.policies import PolicyServer
from pumice.extender.answering.told_state import NotTold
from pumice.extender.answers import Answer
from pumice.extender.asking.calls import CallFailed, QuestionWriter, call
from pumice.extender.asking.client import Client
from pumice.extender.asking.settings import Transport
from pumice.extender.dialects import DIALECTS
from pumice.extender.protocol import VERBS, VOLCANO_VERBS, Verb
from pumice.model import api
from pumice.model.events import Seen
from pumice.model.status import TaskStatus
from pumice.model.task import GROUP_ANNOTATION, ROLE_KEY
from pumice.state.cluster import ClusterState

QUESTIONS: Final = tuple(name for name in VERBS if name != p.BIND.name)
"""The questions, in the order of a session. ``bind`` is left out: it would bind."""


@dataclass(frozen=True, slots=True)
class VerbCheck:
    """The result of one verb: ``ok``, ``absent`` (404), ``warning`` or ``failed``, and why."""

    verb: str
    outcome: str
    notes: list[str] = field(default_factory=list)
    milliseconds: float = 0.0


def check(
    transport: Transport,
    *,
    dialect: str = "documented",
    paths: Mapping[str, str] | None = None,
    verbs: Sequence[str] = (),
) -> list[VerbCheck]:
    """Ask a running extender every verb of *dialect* (or only *verbs*); a verdict for each, in a session's order."""
    talks = DIALECTS[dialect]
    asked = [name for name in QUESTIONS if name in talks.carries and (not verbs or name in verbs)]
    where = {name: (paths or {}).get(name, VERBS[name].kube if dialect == "kube" else name) for name in asked}
    client = Client(replace(transport, breaker_failures=0), where, talks)
    try:
        return [_check(client, VERBS[name], dialect) for name in asked]
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
    if wrong := _wrong(verb, answer):
        return VerbCheck(verb.name, "failed", [wrong], milliseconds)
    notes = [] if verb.once else _again(client, verb, body, answer)
    return VerbCheck(verb.name, "warning" if notes else "ok", notes, milliseconds)


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


def _again(client: Client, verb: Verb[Any], body: bytes, answer: Answer) -> list[str]:
    """Report whether a second question, with an unknown field, gets the same answer."""
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
    born = {"creationTimestamp": "2024-01-01T00:00:00Z"}
    own = {**born, "namespace": "check"}
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    notes = {"labels": {"app": "check"}, "annotations": {GROUP_ANNOTATION: "check", ROLE_KEY: "worker"}}
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}
    objects: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
        ("Queue", {"name": "check"}, {"weight": 1}, {"state": "Open"}),
        ("PodGroup", {**own, "name": "check"}, {"minMember": 1, "queue": "check"}, {"phase": "Inqueue"}),
    ]
    for name in ("check-node-1", "check-node-2"):
        meta = {**born, "name": name, "labels": {"kubernetes.io/hostname": name}}
        objects.append(("Node", meta, {}, {"allocatable": room, "capacity": room}))
    for n, (place, phase) in enumerate((({}, "Pending"), ({"nodeName": "check-node-1"}, "Running"))):
        names = {**own, **notes, "name": f"check-worker-{n}", "uid": f"check-uid-{n}"}
        objects.append(("Pod", names, {**spec, **place}, {"phase": phase}))
    state = ClusterState()
    for kind, meta, spec, status in objects:
        state.apply(Seen(api.decode(kind, {"metadata": meta, "spec": spec, "status": status})))
    return state


def _things(verb: Verb[Any]) -> dict[str, Any]:
    """The possible objects of a question of *verb*, by the name of the part."""
    state = _cluster()
    waiting, running = (state.tasks[f"check-uid-{n}"] for n in (0, 1))
    nodes, job, queue = [state.nodes[name] for name in sorted(state.nodes)], *state.jobs.values(), state.queues["check"]
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
    if verb is p.ALLOCATE_FUNC:
        state.set_status(asked[0], TaskStatus.ALLOCATED, state.nodes["check-node-1"])
        try:
            return writer.question(verb, *asked)
        finally:
            state.set_status(asked[0], TaskStatus.PENDING, None)
    return writer.question(verb, *asked)


# -- policies behind a real Volcano -----------------------------------------------------------------------------------
_SESSION: Final = (p.ON_SESSION_OPEN.name, p.ON_SESSION_CLOSE.name)
_FLAGS: Final = {"preemptable": "enablePreemptable", "reclaimable": "enableReclaimable"}


def verbs_of(server: PolicyServer) -> list[str]:
    """Volcano's verbs that the policies answer, but for those of sessions."""
    carried = {verb for point in server.points() for verb in p.carriers(point)}
    return [verb for verb in VERBS if verb in carried and verb in VOLCANO_VERBS and verb not in _SESSION]


def need_snapshot(server: PolicyServer, verbs: list[str]) -> list[str]:
    """Those of *verbs* that are answered with 409 unless onSessionOpen has told of the cluster."""
    found = []
    for verb in verbs:
        try:
            server.answer(VERBS[verb], question(VERBS[verb], "volcano"), caller=f"trial of {verb}")
        except NotTold:
            found.append(verb)
        except PumiceError as error:
            logging.getLogger("pumice.extender.server").debug("trial of %s: %s", verb, error)
    return found


def advice(server: PolicyServer) -> list[str]:
    """Advice when a policy is served, for a real Volcano; empty if Volcano asks nothing."""
    verbs = verbs_of(server)
    if not verbs:
        return []
    needing = need_snapshot(server, verbs)
    keeps_books = "allocateFunc" in verbs or "deallocateFunc" in verbs
    wanted = [*(_SESSION if needing or keeps_books else ()), *verbs]
    lines = [f"behind a real Volcano configure {', '.join(f'extender.{verb}Verb' for verb in wanted)}, and no others"]
    if needing:
        lines.append(f"without onSessionOpen Volcano's questions get 409: {', '.join(needing)}")
    elif not keeps_books:
        lines.append("leave out onSessionOpen: when it fails, Volcano does without the policy")
    if "jobReady" in verbs:
        lines.append("jobReady: while this service is down, to Volcano every job is ready, or (ignorable) none")
    for verb, flag in _FLAGS.items():
        if verb in verbs:
            lines.append(f'{verb}: Volcano overrules "nobody" in the next tier; set {flag}: false on its plugins')
    if "predicate" in verbs:
        lines.append(
            "predicate: one call per task and node; extender.managedResources (a list, or Volcano exits) saves them"
        )
    return [*lines, "see docs/behind-volcano.md, and `pumice conf check CONF --target volcano`"]
