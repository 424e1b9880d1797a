"""Why a job waits, as its own objects say it: for those to whom no scheduler answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pumice.answers.standing import Snapshot, Standing, standing_of
from pumice.answers.waiting import JobRow, is_waiting, row_of
from pumice.answers.why import WhyAnswer
from pumice.framework.explaining.explain import Explanation, runs_in_part, waits
from pumice.framework.session.refusals import Stage
from pumice.model.api import Condition
from pumice.model.codes import ReasonCode
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.resources import Resources
from pumice.model.status import TaskStatus
from pumice.state.cluster import ClusterState

S = TaskStatus
_STAGES: Final = {stage.code: stage for stage in Stage} | {ReasonCode.UNSCHEDULABLE: Stage.NODES}
NOT_KNOWN: Final = ("its place in the queue", "what would let it start sooner")
"""What objects never say."""


@dataclass(frozen=True, slots=True)
class ToldEvent:
    """An event about the job or one of its pods."""

    about: str
    reason: str
    message: str
    warning: bool = True


def why_of_objects(
    state: ClusterState, job: Job, *, events: Sequence[ToldEvent] = (), unseen: Iterable[str] = ()
) -> WhyAnswer:
    """What the objects of a job, the events about them (the newest last) and the status of its queue say."""
    stage, code, text = _said(job, events)
    queue = state.queues.get(job.queue)
    return WhyAnswer(
        explanation=Explanation(
            job=job.uid,
            queue=job.queue,
            phase=str(job.phase),
            stage=stage,
            code=code,
            text=text,
            plugin="",
            position=0,
            waiting=0,
            let_in=not job.is_pending,
            min_available=job.min_available,
            tasks={s.title: len(job.with_status(s)) for s in S if job.with_status(s)},
            runs=runs_in_part(job),
        ),
        now=state.now,
        since=job.creation or None,
        standing=standing_of_object(queue) if queue is not None else None,
        source="objects",
        unseen=[*unseen, *(() if stage is Stage.SERVED else NOT_KNOWN)],
    )


def row_of_objects(job: Job) -> JobRow:
    """Return the row of a job as its own objects say it: no place in the queue."""
    if not is_waiting(job):
        return row_of(job, 0, "", "")
    _, code, text = _said(job, ())
    return row_of(job, 0, code, text)


def standing_of_object(queue: Queue) -> Standing:
    """How a queue stands, as its own object says it: nothing of what it deserves, nor of what waits elsewhere."""
    allocated = dict(Resources.parse(queue.object.status.allocated).as_written())
    asked = dict(queue.pending.as_written())
    waiting = sum(map(waits, queue.jobs.values()))
    return standing_of(Snapshot(queue=queue, waiting=waiting, allocated=allocated, asked=asked), {})


def _said(job: Job, events: Sequence[ToldEvent]) -> tuple[Stage, str, str]:
    """How far it came, the word and the text; the newest and most telling of what its objects say."""
    if job.group is None:
        return Stage.ABSENT, ReasonCode.NO_POD_GROUP, "it has no PodGroup"
    if job.ready_count >= job.min_available and job.ready_count and not job.with_status(S.PENDING):
        return Stage.SERVED, ReasonCode.SERVED, f"{job.ready_count} of {job.min_available} required tasks have a place"
    group = {c.type: c for c in job.group.status.conditions or ()}
    admitted, unschedulable = group.get("Admitted"), group.get("Unschedulable")
    if admitted is not None and admitted.status == "False" and job.is_pending:
        return Stage.ENQUEUE, admitted.reason, admitted.message
    for task in sorted(job.with_status(S.PENDING).values(), key=lambda t: t.name):
        for condition in task.pod.status.conditions or ():
            if condition.type == "PodScheduled" and condition.status == "False" and condition.message:
                return _by_pod(condition, task.name)
    if unschedulable is not None and unschedulable.status == "True":
        return Stage.READY, unschedulable.reason, unschedulable.message
    for event in reversed(events):
        if event.warning:
            return Stage.UNSEEN, event.reason, f"{event.about}: {event.message}"
    return Stage.UNSEEN, ReasonCode.NOT_TRIED, "its objects do not say why"


def _by_pod(condition: Condition, name: str) -> tuple[Stage, str, str]:
    stage = next((stage for code, stage in _STAGES.items() if code == condition.reason), Stage.UNSEEN)
    code = stage.code if stage is Stage.NODES else condition.reason
    return stage, code, f"{name}: {condition.message}"
