"""From recorded reasons to an answer a person can use: why a job waits, and what would let it start.

Asked of a session whose actions have run and which is not closed yet. Only reads; costs nothing to a cycle that nobody
asks about.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pumice.engine.choose import FitError
from pumice.engine.rows import NodeRows
from pumice.framework.refusals import Refusal, Stage
from pumice.framework.refused import refusal_for
from pumice.framework.session import Session
from pumice.model.job import Job
from pumice.model.reason import reason_of
from pumice.model.resources import MEMORY, PODS, Number, dim_name, unit
from pumice.model.status import TaskStatus
from pumice.model.task import Task

S = TaskStatus
_EVICTING: Final = ("preempt", "reclaim", "gangpreempt", "gangreclaim")
_GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class NodeReason:
    """One reason and for how many nodes it stands."""

    text: str
    plugin: str
    nodes: int
    eviction_helps: bool


@dataclass(frozen=True, slots=True)
class SoleObjection:
    """Nodes that would take a task but for this one objection."""

    text: str
    plugin: str
    nodes: int
    example: str


@dataclass(frozen=True, slots=True)
class NearMiss:
    """The node that comes nearest to taking a task: what it lacks, or the one objection it has."""

    node: str
    lacks: dict[str, str]
    """Resource -> how much more must be free, as a manifest writes it."""
    objection: str = ""


@dataclass(slots=True)
class Explanation:
    """Why a job waits."""

    job: str
    queue: str
    phase: str
    stage: Stage
    text: str
    plugin: str
    position: int
    """Its place among the waiting jobs of its queue, from 1; 0 when it does not wait."""
    waiting: int
    """How many jobs wait in its queue."""
    min_available: int
    tasks: dict[str, int]
    """Status -> tasks."""
    task: str = ""
    """The task that the reasons are about."""
    wants: dict[str, str] = field(default_factory=dict)
    """What that task asks for."""
    reasons: list[NodeReason] = field(default_factory=list)
    nearest: NearMiss | None = None
    but_for: list[SoleObjection] = field(default_factory=list)
    """Objections that are the only one of some nodes, most nodes first."""
    large_enough: int = 0
    """Nodes that nobody objects to and that would have room if they were empty, but have none now."""
    protected: dict[str, int] = field(default_factory=dict)
    """Disruption budget -> how many pods it protects on those nodes."""
    room_for: int | None = None
    """How many tasks like that one would fit now, all nodes together."""
    unblock: list[str] = field(default_factory=list)
    """What would let it start."""


def explain(ssn: Session, job: Job) -> Explanation:
    """Why *job* was or was not served in this session."""
    refusal = ssn.outcome.refusals.get(job.uid)
    failed = _failed_task(ssn, job, refusal)
    stage = _stage(ssn, job, refusal, failed)
    position, waiting = _position(ssn, job)
    out = Explanation(
        job=job.uid,
        queue=job.queue,
        phase=str(job.phase),
        stage=stage,
        text=refusal.text if refusal is not None else "",
        plugin=refusal.plugin if refusal is not None else "",
        position=position,
        waiting=waiting,
        min_available=job.min_available,
        tasks={s.title: len(job.with_status(s)) for s in S if job.with_status(s)},
    )
    if stage is Stage.ABSENT:
        out.text = "it has no PodGroup" if job.group is None else f"queue {job.queue!r} does not exist"
    elif stage is Stage.SERVED:
        out.text = f"{job.ready_count} of {job.min_available} required tasks have a place"
        out.plugin = ""
    elif stage is Stage.UNSEEN:
        out.text = "nothing in this cycle placed or refused it"
    elif stage is Stage.NODES and failed is not None:
        task, error = failed
        out.task, out.wants = task.key, _written(task.klass.items)
        out.text, out.plugin = _summary(error), ""
        out.reasons = _reasons(error)
        out.nearest, out.room_for = _nearest(ssn, task)
        large = _large_enough(ssn, task)
        out.large_enough, out.protected = len(large), _protected(ssn, large)
        out.but_for = _but_for(ssn, task)
        if out.nearest is None and out.but_for:
            sole = out.but_for[0]
            out.nearest = NearMiss(sole.example, {}, sole.text)
    if stage is not Stage.SERVED and (refused := refusal_for(ssn, job)):
        out.text = f"{out.text}; {refused}" if out.text else refused
    out.unblock = list(_unblock(ssn, job, out))
    return out


def _failed_task(ssn: Session, job: Job, refusal: Refusal | None) -> tuple[Task, FitError] | None:
    """The first waiting task, by name, that fits nowhere, and why."""
    errors = ssn.outcome.fit_errors.get(job.uid, {})
    found = [(t.name, t, e) for uid, e in errors.items() if (t := job.tasks.get(uid)) is not None and e.counts]
    if found:
        _, task, error = min(found, key=lambda f: f[0])
        return task, error
    if refusal is not None and refusal.error is not None:
        waiting = [t for t in job.with_status(S.PENDING).values() if not t.best_effort]
        if waiting:
            return min(waiting, key=lambda t: t.name), refusal.error
    return None


def _stage(ssn: Session, job: Job, refusal: Refusal | None, failed: tuple[Task, FitError] | None) -> Stage:
    if not job.in_session:
        return Stage.ABSENT
    if job.is_ready and (refusal is None or not job.with_status(S.PENDING)):
        return Stage.SERVED
    if refusal is not None and refusal.stage not in (Stage.READY, Stage.NODES):
        return refusal.stage
    if failed is not None:
        return Stage.NODES
    if refusal is not None:
        return Stage.READY
    return Stage.UNSEEN


def _position(ssn: Session, job: Job) -> tuple[int, int]:
    queue = ssn.queues.get(job.queue)
    if queue is None:
        return 0, 0
    waiting = sorted((j for j in queue.jobs.values() if j.with_status(S.PENDING)), key=ssn.orders.job_key())
    place = next((n for n, j in enumerate(waiting, 1) if j is job), 0)
    return place, len(waiting)


def _reasons(error: FitError) -> list[NodeReason]:
    return [NodeReason(r.text, r.plugin, n, r.evictable) for r, n in error.reasons()]


def _summary(error: FitError) -> str:
    parts = ", ".join(f"{r.nodes} {r.text}" for r in _reasons(error))
    return error.text or f"fits none of {error.nodes} nodes: {parts}"


def _nearest(ssn: Session, task: Task) -> tuple[NearMiss | None, int]:
    """The node that lacks least among those that nobody objects to, and how many such tasks would fit now."""
    view = ssn.search.evaluator.view(task)
    table, klass = ssn.state.table, task.klass
    rows = ssn.search.chooser.feasible(view, task, table.valid[: view.size] & (view.code == 0))
    needs = [(d, v) for d, v in zip(klass.fit_dims, klass.fit_values, strict=True) if v > 0]
    if not len(rows) or not needs:
        return None, 0
    idle = {d: np.maximum(table.idle[d, rows], 0) for d, _ in needs}
    room = np.min([idle[d] // v for d, v in needs], axis=0)
    lacking = {d: np.maximum(v - (idle[d] - room * v), 0) for d, v in needs}
    short = np.max([lacking[d] / v for d, v in needs], axis=0)
    names = [node.name for row in rows.tolist() if (node := table.nodes[row]) is not None]
    best = min(range(len(names)), key=lambda i: (short[i], names[i]))
    lacks = [(d, int(amounts[best])) for d, amounts in lacking.items() if amounts[best] > 0]
    return NearMiss(names[best], _written(lacks)), int(room.sum())


def _large_enough(ssn: Session, task: Task) -> list[int]:
    """The rows that nobody objects to and that would have room if they were empty, but have none now."""
    view, table = ssn.search.evaluator.view(task), ssn.state.table
    fits = table.valid[: view.size] & (view.code == 0) & ~view.idle_ok
    for d, v in task.klass.items:
        fits = fits & (table.allocatable[d, : view.size] >= v)
    rows: list[int] = np.flatnonzero(fits).tolist()
    return rows


def _protected(ssn: Session, rows: Iterable[int]) -> dict[str, int]:
    """What keeps running pods on these rows from being evicted, with how many."""
    found: dict[str, int] = {}
    for row in rows:
        node = ssn.state.table.nodes[row]
        for victim in node.tasks.values() if node is not None else ():
            if victim.preemptible and (why := ssn.budgets.spent(victim)):
                found[why] = found.get(why, 0) + 1
    return dict(sorted(found.items()))


def _but_for(ssn: Session, task: Task) -> list[SoleObjection]:
    """The objections that are the only one of some nodes with room, asking every filter about every node."""
    evaluator, table = ssn.search.evaluator, ssn.state.table
    view = evaluator.view(task)
    index = np.flatnonzero(table.valid[: view.size] & view.idle_ok)
    rows = NodeRows(table, index)
    objections = np.zeros(len(index), dtype=np.int64)
    last = np.zeros(len(index), dtype=np.int64)
    for f in evaluator.filters:
        if len(index) and evaluator.guard.applies(f, task):
            codes = evaluator.ask_filter(f, task, rows)
            objections += codes != 0
            last = np.where(codes != 0, codes, last)
    found: dict[int, list[str]] = {}
    for row in np.flatnonzero(objections == 1).tolist():
        node = table.nodes[int(index[row])]
        if node is not None:
            found.setdefault(int(last[row]), []).append(node.name)
    out = [SoleObjection(reason_of(c).text, reason_of(c).plugin, len(n), min(n)) for c, n in found.items()]
    return sorted(out, key=lambda o: (-o.nodes, o.text))


def _written(items: Iterable[tuple[int, Number]]) -> dict[str, str]:
    """Amounts as a manifest would write them, the pod slot left out."""
    return {dim_name(d): _amount(d, v) for d, v in items if d != PODS and v}


def _amount(d: int, v: Number) -> str:
    if d == MEMORY or unit(d) == 1:
        return f"{v / _GIB:.4g}Gi" if v >= _GIB // 100 else f"{v:g}"
    return f"{v / unit(d):.4g}"


def _unblock(ssn: Session, job: Job, why: Explanation) -> Iterable[str]:
    match why.stage:
        case Stage.ABSENT:
            yield "create its PodGroup" if job.group is None else f"create queue {job.queue!r}"
        case Stage.ENQUEUE:
            yield f"room in queue {job.queue} for its minResources, or a smaller minResources"
        case Stage.VALID:
            missing = job.min_available - job.valid_count
            more = f"{_count(missing, 'more pod')}, or a smaller minMember"
            yield more if missing > 0 else "the pods that its roles or sub-groups ask for"
        case Stage.QUEUE:
            yield f"other work of queue {job.queue} ends, or the queue gets more ({_queue_sums(ssn, job)})"
        case Stage.NODES:
            yield from _unblock_nodes(ssn, job, why)
        case Stage.READY if job.with_status(S.PIPELINED):
            yield "the pods that are being removed from its nodes are gone"
        case Stage.READY:
            yield "places for the tasks that have none yet"
        case Stage.EVICTION:
            yield "another plan of evictions that every plugin accepts"
        case _:
            return


def _unblock_nodes(ssn: Session, job: Job, why: Explanation) -> Iterable[str]:
    near, needed = why.nearest, max(job.min_available - job.ready_count, 1)
    if near is not None and near.lacks:
        lacks = " and ".join(f"{amount} more {name}" for name, amount in near.lacks.items())
        if why.room_for:
            text = f"there is room for {why.room_for} of the {needed} tasks that it needs together"
            yield f"{text}; the next would need {lacks} on {near.node}"
        else:
            yield f"{lacks} free on one node; {near.node} comes nearest"
    for sole in why.but_for:
        others = f" and {_count(sole.nodes - 1, 'other')}" if sole.nodes > 1 else ""
        yield f"{sole.example}{others} would do but for: {sole.text}"
    if why.large_enough and not any(a in _EVICTING for a in ssn.actions):
        yield f"eviction could help on {_count(why.large_enough, 'node')}, but no action of this conf evicts"
    for budget, pods in why.protected.items():
        yield f"{_count(pods, 'pod')} could make room but for {budget}"


def _queue_sums(ssn: Session, job: Job) -> str:
    """What the queue holds of what the job asks for."""
    asked = {d for task in job.with_status(S.PENDING).values() for d, _ in task.klass.items if d != PODS}
    scarce = {d for d in asked if "/" in dim_name(d)} or asked
    held, pending = ssn.queues[job.queue].held, job.pending
    return ", ".join(
        f"it holds {_amount(d, held.get(d))} {dim_name(d)}, the job asks for {_amount(d, pending.get(d))}"
        for d in sorted(scarce, key=dim_name)
    )


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
