"""A conformance suite for running extenders: one verdict per verb."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from pumice.extender.client import Client
from pumice.extender.port import CallFailed
from pumice.extender.settings import Transport
from pumice.extender.wire import messages as m
from pumice.extender.wire import verbs as v
from pumice.extender.wire.dialects import DIALECTS
from pumice.extender.wire.objects import Wire, WireSnapshot, WireVictims

_TASK: Final = m.WireTask(
    uid="check-uid-0",
    namespace="check",
    name="check-worker-0",
    job="check/check",
    queue="check",
    role="worker",
    requests={"cpu": 1000, "memory": 2**30},
    priority=1,
    labels={"app": "check"},
    annotations={"scheduling.k8s.io/group-name": "check"},
    creation="2024-01-01T00:00:00Z",
)
_RUNNING: Final = msgspec.structs.replace(
    _TASK, uid="check-uid-1", name="check-worker-1", node_name="check-node-1", status="Running"
)
_ROOM: Final[m.Amounts] = {"cpu": 8000, "memory": 32 * 2**30, "pods": 110}
_NODES: Final = [
    m.WireNode(
        name=f"check-node-{n}",
        labels={"kubernetes.io/hostname": f"check-node-{n}"},
        allocatable=_ROOM,
        capacity=_ROOM,
        idle=_ROOM,
        used={"cpu": 0, "memory": 0},
        max_pods=110,
    )
    for n in (1, 2)
]
_JOB: Final = m.WireJob(
    uid="check/check",
    namespace="check",
    name="check",
    queue="check",
    min_available=1,
    tasks=[_TASK, _RUNNING],
    phase="Inqueue",
    creation="2024-01-01T00:00:00Z",
)
_QUEUE: Final = m.WireQueue(name="check", weight=1, state="Open", allocated={"cpu": 1000, "memory": 2**30})

QUESTIONS: Final[Mapping[str, Wire]] = {
    v.ON_SESSION_OPEN.name: m.SessionOpenRequest(
        snapshot=WireSnapshot(jobs=[_JOB], nodes=_NODES, queues=[_QUEUE]),
    ),
    v.PREDICATE.name: m.PredicateRequest(task=_TASK, node=_NODES[0]),
    v.BATCH_PREDICATE.name: m.NodesRequest(task=_TASK, nodes=_NODES),
    v.PRIORITIZE.name: m.NodesRequest(task=_TASK, nodes=_NODES),
    v.BEST_NODE.name: m.BestNodeRequest(task=_TASK, scores={"check-node-1": 1.0, "check-node-2": 2.0}),
    v.GPU_ORDER.name: m.GpuOrderRequest(task=_TASK, node=_NODES[0], gpus=[m.WireGpu(index="0")]),
    v.PREEMPTABLE.name: m.VictimsRequest(evictor=_TASK, evictees=[_RUNNING]),
    v.RECLAIMABLE.name: m.VictimsRequest(evictor=_TASK, evictees=[_RUNNING]),
    v.VICTIM_TASKS.name: m.TasksRequest(tasks=[_RUNNING]),
    v.PREEMPT.name: m.PreemptRequest(task=_TASK, candidates={"check-node-1": WireVictims(tasks=[_RUNNING])}),
    v.JOB_ENQUEUEABLE.name: m.JobRequest(job=_JOB),
    v.JOB_ENQUEUED.name: m.JobRequest(job=_JOB),
    v.JOB_PIPELINED.name: m.JobRequest(job=_JOB),
    v.JOB_READY.name: m.JobRequest(job=_JOB),
    v.JOB_VALID.name: m.JobRequest(job=_JOB),
    v.QUEUE_OVERUSED.name: m.QueueRequest(queue=_QUEUE),
    v.ALLOCATABLE.name: m.AllocatableRequest(queue=_QUEUE, task=_TASK),
    v.JOB_ORDER.name: m.JobsRequest(jobs=[_JOB]),
    v.TASK_ORDER.name: m.TasksRequest(tasks=[_TASK, _RUNNING]),
    v.QUEUE_ORDER.name: m.QueuesRequest(queues=[_QUEUE]),
    v.ALLOCATE_FUNC.name: m.TaskRequest(
        task=msgspec.structs.replace(_TASK, node_name="check-node-1", status="Allocated")
    ),
    v.DEALLOCATE_FUNC.name: m.TaskRequest(task=_TASK),
    v.ON_SESSION_CLOSE.name: m.SessionCloseRequest(),
}
"""Verb -> a plain question about a made-up cluster, in the order of a session. ``bind`` is left out: it would bind."""

_SAME: Final = frozenset(QUESTIONS) - {
    v.ON_SESSION_OPEN.name,
    v.ON_SESSION_CLOSE.name,
    v.ALLOCATE_FUNC.name,
    v.DEALLOCATE_FUNC.name,
    v.JOB_ENQUEUED.name,
}
"""Verbs whose answer must not change when nothing was told in between."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one verb: ``ok``, ``absent`` (404), ``warning`` or ``failed``, and why."""

    verb: str
    outcome: str
    notes: list[str] = field(default_factory=list)
    milliseconds: float = 0.0


def check(
    transport: Transport, *, dialect: str = "both", paths: Mapping[str, str] | None = None, verbs: Sequence[str] = ()
) -> list[Verdict]:
    """Ask a running extender every verb of *dialect* (or only *verbs*); a verdict for each, in a session's order."""
    talks = DIALECTS[dialect]
    asked = [name for name in QUESTIONS if v.VERBS[name] in talks.verbs and (not verbs or name in verbs)]
    where = {name: (paths or {}).get(name, "filter" if _is_filter(name, dialect) else name) for name in asked}
    client = Client(replace(transport, breaker_failures=0), where, talks)
    try:
        return [_check(client, name, dialect) for name in asked]
    finally:
        client.close()


def _is_filter(verb: str, dialect: str) -> bool:
    return dialect == "kube" and verb == v.BATCH_PREDICATE.name


def _check(client: Client, name: str, dialect: str) -> Verdict:
    verb, request = v.VERBS[name], QUESTIONS[name]
    body = DIALECTS[dialect].encode_request(verb, request)
    client.observed()
    try:
        answer = client.call(verb, body)
    except CallFailed as failure:
        if failure.kind == "status" and " answered 404" in failure.text:
            return Verdict(name, "absent")
        return Verdict(name, "failed", [failure.text])
    milliseconds = round(sum(one.seconds for one in client.observed()) * 1000, 1)
    wrong = [text for rule in _RULES.get(type(answer), ()) if (text := rule(request, answer))]
    if wrong:
        return Verdict(name, "failed", wrong, milliseconds)
    notes = _again(client, verb, body, answer)
    return Verdict(name, "warning" if notes else "ok", notes, milliseconds)


def _again(client: Client, verb: v.Verb[Any, Any], body: bytes, answer: Wire) -> list[str]:
    """Does a second question, with a field that nobody knows, get the same answer?"""
    if verb.name not in _SAME:
        return []
    message = msgspec.json.decode(body)
    message["xUnknown"] = {"added": "later"}
    try:
        second = client.call(verb, msgspec.json.encode(message))
    except CallFailed as failure:
        return [f"a field that it does not know is an error: {failure.text}"]
    return [] if second == answer else ["the same question got another answer"]


# -- rules ----------------------------------------------------------------------------------------------------------
def _code(_: Any, answer: m.PredicateResponse) -> str:
    return "" if 0 <= answer.code <= 5 else f"code must be 0 to 5, got {answer.code}"


def _scores(request: m.NodesRequest, answer: m.PrioritizeResponse) -> str:
    if answer.error:
        return f"errorMessage: {answer.error}"
    if not isinstance(answer.scores, dict):
        return "nodeScore is missing"
    return _among("nodeScore", answer.scores, {node.name for node in request.nodes}) or _finite(answer.scores)


def _refusals(request: m.NodesRequest, answer: m.BatchPredicateResponse) -> str:
    if answer.error:
        return f"errorMessage: {answer.error}"
    return _among("errors and code", {**answer.errors, **answer.codes}, {node.name for node in request.nodes})


def _victims(request: Any, answer: m.VictimsResponse) -> str:
    asked = request.evictees if isinstance(request, m.VictimsRequest) else request.tasks
    return _among("victims", dict.fromkeys(answer.uids), {task.uid for task in asked})


def _best(request: m.BestNodeRequest, answer: m.BestNodeResponse) -> str:
    return _among("nodeName", {answer.node_name: 0} if answer.node_name else {}, set(request.scores))


def _ranks(request: Any, answer: m.OrderResponse) -> str:
    things = [*getattr(request, "jobs", ()), *getattr(request, "tasks", ())]
    known = {thing.uid for thing in things} | {queue.name for queue in getattr(request, "queues", ())}
    return _among("ranks", answer.ranks, known) or _finite(answer.ranks)


def _among(name: str, given: Mapping[str, Any], known: set[str]) -> str:
    strangers = sorted(set(given) - known)
    return f"{name} names what was not asked about: {', '.join(strangers)}" if strangers else ""


def _finite(numbers: Mapping[str, float]) -> str:
    return "" if all(math.isfinite(number) for number in numbers.values()) else "a number is not finite"


_RULES: Final[Mapping[type, Sequence[Callable[[Any, Any], str]]]] = {
    m.PredicateResponse: (_code,),
    m.PrioritizeResponse: (_scores,),
    m.BatchPredicateResponse: (_refusals,),
    m.VictimsResponse: (_victims,),
    m.BestNodeResponse: (_best,),
    m.OrderResponse: (_ranks,),
}
