"""From recorded reasons to an answer a person can use: why a job waits, and what would let it start.

Asked of a session whose actions have run and which is not closed yet. Only reads; costs nothing to a cycle that nobody
asks about. A job is told the one thing that stops it, in the words of who refused, and nothing beside it that says
otherwise; what would help comes from who refused too, and from here only where nodes are the matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from pumice.engine.choose import FitError
from pumice.framework.explaining.explain_nodes import NearMiss, NodeReason, Nodes, SoleObjection, never_fits, written
from pumice.framework.session.problems import queue_problem
from pumice.framework.session.refusals import Refusal, Stage
from pumice.framework.session.refused import refusal_for
from pumice.framework.session.session import Session
from pumice.model.codes import ReasonCode
from pumice.model.job import Job
from pumice.model.limit import Limit
from pumice.model.status import TaskStatus
from pumice.model.task import Task

__all__ = ["Explanation", "NearMiss", "NodeReason", "SoleObjection", "Stage", "absent", "explain", "waits"]

S = TaskStatus
_EVICTING: Final = ("preempt", "reclaim", "gangpreempt", "gangreclaim")


@dataclass(slots=True)
class Explanation:
    """Why a job waits."""

    job: str
    queue: str
    phase: str
    stage: Stage
    code: str
    """What stopped it, in one word that does not change."""
    text: str
    plugin: str
    position: int
    """Its place among the waiting jobs of its queue, from 1; 0 when it does not wait in one."""
    waiting: int
    """How many jobs wait in its queue."""
    let_in: bool
    """Was it let into its queue?"""
    min_available: int
    tasks: dict[str, int]
    """Status -> tasks."""
    limits: list[Limit] = field(default_factory=list)
    """The limits that are in its way: what is held, what may be had and by which rule, what it asks for."""
    task: str = ""
    """The task that the reasons are about."""
    wants: dict[str, str] = field(default_factory=dict)
    """What that task asks for."""
    reasons: list[NodeReason] = field(default_factory=list)
    """Why no node takes that task; where others of the job have one, once they do."""
    nearest: NearMiss | None = None
    but_for: list[SoleObjection] = field(default_factory=list)
    """Objections that are the only one of some nodes, most nodes first."""
    large_enough: int = 0
    """Nodes on which eviction could help: large enough, and nobody objects to them for good."""
    protected: dict[str, int] = field(default_factory=dict)
    """Disruption budget -> how many pods it protects on those nodes."""
    room_for: int | None = None
    """How many of the tasks that it needs had found a node when the next did not."""
    unblock: list[str] = field(default_factory=list)
    """What would let it start."""


def explain(ssn: Session, job: Job) -> Explanation:
    """Why *job* was or was not served in this session."""
    refusal = ssn.outcome.refusals.get(job.uid)
    failed = _failed_task(ssn, job, refusal)
    stage = _stage(job, refusal, failed)
    position, waiting = _position(ssn, job) if stage is not Stage.SERVED else (0, _waiting(ssn, job))
    out = Explanation(
        job=job.uid,
        queue=job.queue,
        phase=str(job.phase),
        stage=stage,
        code=stage.code,
        text="",
        plugin="",
        position=position,
        waiting=waiting,
        let_in=not job.is_pending,
        min_available=job.min_available,
        tasks={s.title: len(job.with_status(s)) for s in S if job.with_status(s)},
    )
    if stage is Stage.SERVED:
        out.text = _served(job)
        return out
    if stage is Stage.ABSENT:
        out.text, out.code, hint = absent(ssn, job)
        out.unblock = [hint]
    elif stage is Stage.UNSEEN:
        out.text = _unseen(ssn, job)
    elif stage is Stage.NODES and failed is not None:
        _by_nodes(ssn, job, refusal, failed, out)
    elif refusal is not None:
        out.text, out.plugin, out.code = refusal.text, refusal.plugin, refusal.code
        out.limits = _limits(job, refusal)
        if refusal.advice:
            out.unblock = [refusal.advice]
        elif stage is Stage.READY and job.with_status(S.PIPELINED):
            out.unblock = ["the pods that are being removed from its nodes are gone"]
    if stage is not Stage.ABSENT and (never := never_fits(ssn, job)) is not None:
        _foremost(never, out)
    elif refused := refusal_for(ssn, job):
        out.text = f"{out.text}; {refused}" if out.text else refused
    return out


def _failed_task(ssn: Session, job: Job, refusal: Refusal | None) -> tuple[Task, FitError] | None:
    """The first waiting task, by name, that fits nowhere, and why."""
    errors = ssn.outcome.fit_errors.get(job.uid, {})
    found = [(t, e) for uid, e in errors.items() if (t := job.tasks.get(uid)) is not None and e.counts]
    waiting = sorted((t for t in job.with_status(S.PENDING).values() if not t.best_effort), key=lambda t: t.name)
    if found:
        task, error = min(found, key=lambda f: f[0].name)
    elif refusal is not None and refusal.error is not None and waiting:
        task, error = waiting[0], refusal.error
    else:
        return None
    if (placed := _had_a_node(refusal)) < len(waiting) and all(t.klass is task.klass for t in waiting):
        task = waiting[placed]  # equal tasks: those before it had found a node
    return task, error


def _had_a_node(refusal: Refusal | None) -> int:
    """How many tasks had found a node, or would have, when the next did not."""
    if refusal is None:
        return 0
    counted = refusal.error.room if refusal.error is not None else None
    return min(refusal.placed, counted()) if counted is not None else refusal.placed


def _stage(job: Job, refusal: Refusal | None, failed: tuple[Task, FitError] | None) -> Stage:
    if not job.in_session:
        return Stage.ABSENT
    left, have = job.count(S.PENDING, S.ALLOCATED), _placed(job)
    if have >= job.min_available and (have or not left) and (refusal is None or not left):
        return Stage.SERVED
    if refusal is not None and refusal.stage not in (Stage.READY, Stage.NODES):
        return refusal.stage
    if failed is not None:
        return Stage.NODES
    return refusal.stage if refusal is not None else Stage.UNSEEN


def _placed(job: Job) -> int:
    """Tasks that have a place for good: one that is only allocated by now was not committed."""
    return job.ready_count - job.count(S.ALLOCATED)


def _position(ssn: Session, job: Job) -> tuple[int, int]:
    queue = ssn.queues.get(job.queue)
    if queue is None or not job.in_session:
        return 0, 0
    waiting = sorted(filter(waits, queue.jobs.values()), key=ssn.orders.job_key())
    place = next((n for n, j in enumerate(waiting, 1) if j is job), 0)
    return place, len(waiting)


def _waiting(ssn: Session, job: Job) -> int:
    """How many wait in its queue."""
    queue = ssn.queues.get(job.queue)
    return sum(map(waits, queue.jobs.values())) if queue is not None and job.in_session else 0


def waits(job: Job) -> bool:
    """Has it tasks without a place, or was it not let in, so that it has none yet?"""
    return bool(job.count(S.PENDING, S.PIPELINED, S.ALLOCATED)) or (job.is_pending and not job.ready_count)


# -- what is said ---------------------------------------------------------------------------------------------------
def _served(job: Job) -> str:
    have, least = _placed(job), job.min_available
    text = f"{min(have, least)} of {least} required tasks have a place"
    if have > least:
        text += f", and {have - least} more"
    left = len(job.with_status(S.PENDING))
    return f"{text}; {left} more could be placed" if left else text


def absent(ssn: Session, job: Job) -> tuple[str, str, str]:
    """What it lacks to be looked at: in words, as a code, and what would help."""
    if job.group is None:
        return "it has no PodGroup", ReasonCode.NO_POD_GROUP, "create its PodGroup"
    if job.problem:
        return job.problem, ReasonCode.INVALID, "mend its PodGroup"
    text, near = queue_problem(ssn.state, job.queue)
    hint = f"put it into queue {near!r}, or create queue {job.queue!r}" if near else f"create queue {job.queue!r}"
    return text, ReasonCode.UNKNOWN_QUEUE, hint if job.queue not in ssn.queues else f"mend queue {job.queue!r}"


def _unseen(ssn: Session, job: Job) -> str:
    waiting = list(job.with_status(S.PENDING).values())
    if not waits(job):
        leaving = len(job.with_status(S.RELEASING))
        return "nothing of it waits" + (f"; being removed: {_count(leaving, 'pod')}" if leaving else "")
    if waiting and all(t.gates and t.gated for t in waiting):
        return "its pods have scheduling gates"
    if waiting and all(t.best_effort for t in waiting) and "backfill" not in ssn.actions:
        return "its pods ask for nothing, and the action that places such (backfill) is not in the conf"
    return "nothing in this cycle placed or refused it"


def _limits(job: Job, refusal: Refusal) -> list[Limit]:
    """The refuser's limits, as they are for the whole of what the job needs together."""
    if refusal.stage is not Stage.QUEUE:
        return list(refusal.limits)
    waiting = sorted(job.with_status(S.PENDING).values(), key=lambda t: t.name)
    needed = waiting[: max(job.min_available - job.ready_count, 1)]
    asked: dict[str, float] = {}
    for task in needed:
        for name, amount in task.requests.as_written().items():
            asked[name] = asked.get(name, 0) + amount
    whole = [replace(at, asks=max(at.asks, asked.get(at.resource, 0))) for at in refusal.limits]
    return [at for at in whole if at.asks and at.holds + at.promised + at.asks > at.may_have]


def _foremost(never: str, out: Explanation) -> None:
    """A task that is larger than every node comes first, whatever else is said."""
    beside = f"; besides: {out.text}" if out.text and out.stage is not Stage.NODES else ""
    out.stage, out.code = Stage.NODES, ReasonCode.CAN_NEVER_FIT
    out.text, out.plugin = f"can never fit: {never}{beside}", out.plugin if beside else ""
    out.unblock = ["a larger node, or a smaller request"]


# -- nodes ----------------------------------------------------------------------------------------------------------
def _by_nodes(ssn: Session, job: Job, refusal: Refusal | None, failed: tuple[Task, FitError], out: Explanation) -> None:
    task, error = failed
    nodes = Nodes(ssn, task, error)
    placed = _had_a_node(refusal)
    out.task, out.wants = task.key, written(task.klass.items)
    out.room_for = placed
    out.text = _no_node(ssn, job, task, error, placed)
    out.reasons, rows = nodes.reasons()
    if nodes.everywhere:
        out.nearest = nodes.nearest()
        out.large_enough, out.protected = len(rows), nodes.protected(rows)
        out.but_for = nodes.but_for()
        if out.nearest is None and out.but_for:
            sole = out.but_for[0]
            out.nearest = NearMiss(sole.example, {}, sole.text)
    out.unblock = list(_unblock_nodes(ssn, out))


def _no_node(ssn: Session, job: Job, task: Task, error: FitError, placed: int) -> str:
    parts = ", ".join(f"{n} {reason.text}" for reason, n in error.reasons())
    if error.text:
        text = error.text
    elif not ssn.nodes:
        text = "there are no nodes"
    else:
        text = f"fits none of {error.nodes} nodes: {parts}"
    if not placed:
        return text
    needed = job.min_available - job.ready_count
    if placed < needed:
        return f"{placed} of the {needed} tasks that it needs have a node; the next, {task.name}, {text}"
    return f"{_count(placed, 'task')} of it could have a node; {task.name}, which it also needs, {text}"


def _unblock_nodes(ssn: Session, why: Explanation) -> Iterable[str]:
    near = why.nearest
    if not ssn.nodes:
        yield "nodes"
    if near is not None and near.lacks:
        lacks = " and ".join(f"{amount} more {name}" for name, amount in near.lacks.items())
        if why.room_for:
            yield f"{lacks} on {near.node}, for the task that has no node yet"
        else:
            yield f"{lacks} free on one node; {near.node} comes nearest"
    for sole in why.but_for:
        others = f" and {_count(sole.nodes - 1, 'other')}" if sole.nodes > 1 else ""
        yield f"{sole.example}{others} would do; only this is in the way: {sole.text}"
    if why.large_enough and not any(a in _EVICTING for a in ssn.actions):
        yield f"eviction could help on {_count(why.large_enough, 'node')}, but no action of this conf evicts"
    for budget, pods in why.protected.items():
        yield f"{_count(pods, 'pod')} could make room but for {budget}"


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
