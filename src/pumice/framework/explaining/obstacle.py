"""What stops a job: the one thing, in the words of who refused. The same wherever it is told, of one job or of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from pumice.engine.diagnosis import FitError
from pumice.framework.explaining.explain_nodes import FitsEmpty, never_fits
from pumice.framework.session.outcome import Refusal, Stage
from pumice.framework.session.problems import queue_problem
from pumice.framework.session.session import Session
from pumice.model.codes import ReasonCode
from pumice.model.job import Job
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.words import counted

S = TaskStatus
_NAMED: Final = 3
"""So many nodes on which room is made are named."""


class FailedTask(NamedTuple):
    """A task that fits nowhere, why, and how many of its job had found a node before it."""

    task: Task
    error: FitError
    placed: int


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What stops a job."""

    stage: Stage
    code: str
    """In one word that does not change."""
    text: str
    plugin: str = ""
    hint: str = ""
    """What would help, by who refused."""
    failed: FailedTask | None = None
    """The task that no node takes, where nodes are the matter."""
    refusal: Refusal | None = None
    """The one whose words these are."""
    never: bool = False
    """However empty the nodes were, it would not fit."""


def obstacle_of(ssn: Session, job: Job, fits: FitsEmpty | None = None) -> Obstacle:
    """What stops *job* in this session; *fits* is kept between jobs by who asks about many."""
    refusal = ssn.outcome.refusals.get(job.uid)
    failed = _failed_task(ssn, job, refusal)
    stage = _stage(job, refusal, failed)
    code: str = stage.code
    text, plugin, hint, told = "", "", "", None
    if stage is Stage.SERVED:
        return Obstacle(stage, code, _served(job))
    if stage is Stage.ABSENT:
        text, code, hint = absent(ssn, job)
    elif stage is Stage.UNSEEN:
        text, code, hint = _unseen(ssn, job)
    elif stage is Stage.NODES and failed is not None:
        text = _no_node(ssn, job, failed)
    elif _has_room(job):
        text, hint = _made(job), "the pods that are being removed from its nodes are gone"
    elif refusal is not None:
        told, text, plugin, code, hint = refusal, refusal.text, refusal.plugin, refusal.code, refusal.advice
        if not hint and stage is Stage.READY and job.with_status(S.PIPELINED):
            hint = "the pods that are being removed from its nodes are gone"
    if stage is not Stage.NODES:
        failed = None
    if stage is not Stage.ABSENT and (never := never_fits(ssn, job, fits)) is not None:
        beside = f"; besides: {text}" if text and stage is not Stage.NODES else ""
        return Obstacle(
            Stage.NODES,
            ReasonCode.CAN_NEVER_FIT,
            f"can never fit: {never}{beside}",
            plugin if beside else "",
            "a larger node, or a smaller request",
            failed,
            told,
            never=True,
        )
    if refused := ssn.outcome.refused_write(job):
        text = f"{text}; {refused}" if text else refused
    return Obstacle(stage, code, text, plugin, hint, failed, told)


def _failed_task(ssn: Session, job: Job, refusal: Refusal | None) -> FailedTask | None:
    """The first waiting task, by name, that fits nowhere, and why."""
    errors = ssn.outcome.fit_errors.get(job.uid, {})
    found = [(t, e) for uid, e in errors.items() if (t := job.tasks.get(uid)) is not None and e.counts]
    if not found and (refusal is None or refusal.error is None):
        return None
    waiting = sorted((t for t in job.with_status(S.PENDING).values() if not t.best_effort), key=lambda t: t.name)
    if found:
        task, error = min(found, key=lambda f: f[0].name)
    elif refusal is not None and refusal.error is not None and waiting:
        task, error = waiting[0], refusal.error
    else:
        return None
    if (placed := _had_a_node(refusal)) < len(waiting) and all(t.klass is task.klass for t in waiting):
        task = waiting[placed]  # equal tasks: those before it had found a node
    return FailedTask(task, error, placed)


def _had_a_node(refusal: Refusal | None) -> int:
    """How many tasks had found a node, or would have, when the next did not."""
    if refusal is None or not refusal.placed:
        return 0
    room = refusal.error.room if refusal.error is not None else None
    return min(refusal.placed, room()) if room is not None else refusal.placed


def _stage(job: Job, refusal: Refusal | None, failed: FailedTask | None) -> Stage:
    if not job.in_session:
        return Stage.ABSENT
    left, have = job.count(S.PENDING, S.ALLOCATED), _placed(job)
    if have >= job.min_available and (have or not left) and (refusal is None or not left):
        return Stage.SERVED
    if _has_room(job):
        return Stage.READY  # whoever refused it did so before room was made for it
    if refusal is not None and refusal.stage not in (Stage.READY, Stage.NODES):
        return refusal.stage
    if failed is not None:
        return Stage.NODES
    return refusal.stage if refusal is not None else Stage.UNSEEN


def _placed(job: Job) -> int:
    """Tasks that have a place for good: one that is only allocated by now was not committed."""
    return job.ready_count - job.count(S.ALLOCATED)


def _has_room(job: Job) -> bool:
    """Report whether all tasks that must start together have a place, or room that is being released."""
    return job.waiting_count > 0 and not job.is_starving


def waits(job: Job) -> bool:
    """Report whether it has tasks without a place, or was not let in and so has no tasks yet."""
    if job.with_status(S.PENDING) or job.with_status(S.PIPELINED) or job.with_status(S.ALLOCATED):
        return True
    return job.is_pending and not job.ready_count


# -- what is said ---------------------------------------------------------------------------------------------------
def _served(job: Job) -> str:
    have, least = _placed(job), job.min_available
    text = f"{min(have, least)} of {least} required tasks have a place"
    if have > least:
        text += f", and {have - least} more"
    left = len(job.with_status(S.PENDING))
    return f"{text}; {left} more could be placed" if left else text


def _made(job: Job) -> str:
    nodes = sorted({task.node_name for task in job.with_status(S.PIPELINED).values()})
    where = ", ".join(nodes[:_NAMED])
    if len(nodes) > _NAMED:
        where += f" and {counted(len(nodes) - _NAMED, 'other node')}"
    return f"room is being made for it on {where}"


def absent(ssn: Session, job: Job) -> tuple[str, str, str]:
    """What it lacks to be looked at: in words, as a code, and what would help."""
    if job.group is None:
        return "it has no PodGroup", ReasonCode.NO_POD_GROUP, "create its PodGroup"
    if job.problem:
        return job.problem, ReasonCode.INVALID, "mend its PodGroup"
    text, near = queue_problem(ssn.state, job.queue)
    hint = f"put it into queue {near!r}, or create queue {job.queue!r}" if near else f"create queue {job.queue!r}"
    return text, ReasonCode.UNKNOWN_QUEUE, hint if job.queue not in ssn.queues else f"mend queue {job.queue!r}"


def _unseen(ssn: Session, job: Job) -> tuple[str, str, str]:
    """Why nobody placed or refused it: in words, as a code, and what would help."""
    waiting = sorted(job.with_status(S.PENDING).values(), key=lambda t: t.name)
    code = Stage.UNSEEN.code
    if not waits(job):
        leaving = len(job.with_status(S.RELEASING))
        return "nothing of it waits" + (f"; being removed: {counted(leaving, 'pod')}" if leaving else ""), code, ""
    if wrong := [t for t in waiting if t.invalid]:
        others = f", and {counted(len(wrong) - 1, 'other pod')}" if len(wrong) > 1 else ""
        return f"pod {wrong[0].name} cannot be used: {wrong[0].invalid}{others}", ReasonCode.INVALID, "mend its pods"
    if waiting and all(t.gates for t in waiting):
        gates = ", ".join(sorted({gate for t in waiting for gate in t.gates}))
        return f"its pods have scheduling gates: {gates}", code, "whoever set the gates takes them away"
    if waiting and all(t.best_effort for t in waiting) and "backfill" not in ssn.actions:
        text = "its pods ask for nothing, and the action that places such (backfill) is not in the conf"
        return text, code, "backfill among the actions of the conf"
    return "skipped in this cycle (no action reached it)", code, ""


def _no_node(ssn: Session, job: Job, failed: FailedTask) -> str:
    task, error, placed = failed.task, failed.error, failed.placed
    parts = ", ".join(f"{n} {reason.text}" for reason, n in error.reasons())
    if error.text:
        text = error.text
    elif not ssn.nodes:
        text = "there are no nodes"
    else:
        text = f"fits on none of {error.nodes} nodes: {parts}"
    if not placed:
        return text
    needed = job.min_available - job.ready_count
    if placed < needed:
        return f"{placed} of {needed} pods have a node. {task.name} {text}"
    return f"{counted(placed, 'task')} of it could have a node; {task.name}, which it also needs, {text}"
