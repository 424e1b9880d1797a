"""From recorded reasons to an answer a person can use: why a job waits, and what would let it start.

Asked of a session whose actions have run and which is not closed yet. Only reads; costs nothing to a cycle that nobody
asks about. A job has one reason: the thing that stops it, in the words of the plugin that refused. Advice comes from
that plugin too; this module adds advice only about nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pumice.framework.explaining.explain_evictions import evictions_in_vain
from pumice.framework.explaining.explain_nodes import NearMiss, NodeReason, Nodes, SoleObjection, written
from pumice.framework.explaining.obstacle import FailedTask, obstacle_of, waits
from pumice.framework.session.outcome import Refusal, Stage
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.limit import Limit
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.words import counted

__all__ = ["Explanation", "NearMiss", "NodeReason", "SoleObjection", "Stage", "explain", "waits"]

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
    """The reason, in one word that does not change."""
    text: str
    plugin: str
    position: int
    """Its place among the waiting jobs of its queue, from 1; 0 when it does not wait in one."""
    waiting: int
    """How many jobs wait in its queue."""
    let_in: bool
    """Whether it was let into its queue."""
    min_available: int
    tasks: dict[str, int]
    """Status -> tasks."""
    runs: str = ""
    """How many of its pods run (``8 of 10 pods``), if it has what it needs and more of them wait; else nothing."""
    limits: list[Limit] = field(default_factory=list)
    """The limits that are in its way: amounts in use, permitted with their rule, and requested."""
    task: str = ""
    """The task that the reasons are about."""
    wants: dict[str, str] = field(default_factory=dict)
    """The request of that task."""
    reasons: list[NodeReason] = field(default_factory=list)
    """Why no node takes that task; where others of the job have one, once they do."""
    nearest: NearMiss | None = None
    but_for: list[SoleObjection] = field(default_factory=list)
    """Objections that are the only one of some nodes, most nodes first."""
    large_enough: int = 0
    """Nodes on which eviction could help: large enough, and nobody objects to them for good."""
    protected: dict[str, int] = field(default_factory=dict)
    """Disruption budget -> how many pods it protects on those nodes."""
    evictions: list[str] = field(default_factory=list)
    """Why preempt and reclaim, if the conf has them, made no room for it: the pods that they looked at, and why they
    stay."""
    room_for: int | None = None
    """How many of the tasks that it needs had found a node when the next did not."""
    unblock: list[str] = field(default_factory=list)
    """The changes that would let it start."""


def _lets_in(ssn: Session) -> bool:
    """Does an action let jobs into their queues? Without one nobody waits for that."""
    return not ssn.actions or "enqueue" in ssn.actions


def runs_in_part(job: Job) -> str:
    """How many of its pods run, if a job has what it needs and more of its pods wait; else nothing."""
    have, more = job.ready_count, len(job.with_status(S.PENDING))
    return f"{have} of {counted(have + more, 'pod')}" if more and have and have >= job.min_available else ""


def explain(ssn: Session, job: Job) -> Explanation:
    """Why *job* was or was not served in this session."""
    obstacle = obstacle_of(ssn, job)
    position, waiting = _position(ssn, job) if obstacle.stage is not Stage.SERVED else (0, _waiting(ssn, job))
    out = Explanation(
        job=job.uid,
        queue=job.queue,
        phase=str(job.phase),
        stage=obstacle.stage,
        code=obstacle.code,
        text=obstacle.text,
        plugin=obstacle.plugin,
        position=position,
        waiting=waiting,
        let_in=not job.is_pending or not _lets_in(ssn),
        min_available=job.min_available,
        tasks={s.title: len(job.with_status(s)) for s in S if job.with_status(s)},
        runs=runs_in_part(job),
        unblock=[obstacle.hint] if obstacle.hint else [],
    )
    if obstacle.failed is not None:
        _by_nodes(ssn, obstacle.failed, obstacle.never, out)
    elif obstacle.refusal is not None:
        out.limits = _limits(job, obstacle.refusal)
    if not obstacle.never and (task := _without_room(job, obstacle.failed, out.limits)) is not None:
        out.evictions = evictions_in_vain(ssn, task)
    return out


def _without_room(job: Job, failed: FailedTask | None, limits: Sequence[Limit]) -> Task | None:
    """The task for which others could make room: one that fits nowhere for want of it, or that its queue's limit keeps.

    If another obstacle stops it, evictions do not matter.
    """
    if failed is not None:
        return failed.task if any(reason.evictable for reason, _ in failed.error.reasons()) else None
    return min(job.with_status(S.PENDING).values(), key=lambda t: t.name, default=None) if limits else None


def _position(ssn: Session, job: Job) -> tuple[int, int]:
    queue = ssn.queues.get(job.queue)
    if queue is None or not job.in_session:
        return 0, 0
    waiting = ssn.orders.sorted_jobs(filter(waits, queue.jobs.values()))
    place = next((n for n, j in enumerate(waiting, 1) if j is job), 0)
    return place, len(waiting)


def _waiting(ssn: Session, job: Job) -> int:
    """How many wait in its queue."""
    queue = ssn.queues.get(job.queue)
    return sum(map(waits, queue.jobs.values())) if queue is not None and job.in_session else 0


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


# -- nodes ----------------------------------------------------------------------------------------------------------
def _by_nodes(ssn: Session, failed: FailedTask, never: bool, out: Explanation) -> None:
    out.task, out.wants = failed.task.key, written(failed.task.klass.items)
    out.room_for = failed.placed
    if not ssn.search.by_rows:  # the plugin that looked at the nodes has said all
        out.reasons = [NodeReason(r.text, r.plugin, n, None) for r, n in failed.error.reasons()]
        return
    nodes = Nodes(ssn, failed.task, failed.error)
    out.reasons, rows = nodes.reasons()
    if nodes.everywhere:
        out.nearest = nodes.nearest()
        out.large_enough, out.protected = len(rows), nodes.protected(rows)
        out.but_for = nodes.but_for()
        if out.nearest is None and out.but_for:
            sole = out.but_for[0]
            out.nearest = NearMiss(sole.example, {}, sole.text)
    if not never:
        job = failed.task.job
        out.unblock = list(_unblock_nodes(ssn, out, job.min_available - job.ready_count - failed.placed))


def _unblock_nodes(ssn: Session, why: Explanation, without: int) -> Iterable[str]:
    """The advice, node by node; *without*: the number of needed tasks without a node."""
    near = why.nearest
    if not ssn.nodes:
        yield "nodes"
    if near is not None and near.lacks:
        lacks = " and ".join(f"{amount} more {name}" for name, amount in near.lacks.items())
        if why.room_for:
            whom = f"the next of {without} tasks that have" if without > 1 else "the task that has"
            yield f"{lacks} on {near.node}, for {whom} no node yet"
        else:
            whom = f", for the first of the {without} tasks that it needs" if without > 1 else ""
            yield f"{lacks} free on one node{whom}; {near.node} comes nearest"
    for sole in why.but_for:
        others = f" and {counted(sole.nodes - 1, 'other')}" if sole.nodes > 1 else ""
        yield f"{sole.example}{others} would fit but for this: {sole.text}"
    if why.large_enough and not any(a in _EVICTING for a in ssn.actions):
        yield f"evicting could free {counted(why.large_enough, 'node')}; add preempt or reclaim to the conf"
    for budget, pods in why.protected.items():
        yield f"{counted(pods, 'pod')} could make room but for {budget}"
