"""Jobs: found by name, in a line each, and explained from their own objects where no scheduler answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from pumice.answers.queues import Snapshot, Standing, standing_of
from pumice.answers.why import WhyAnswer
from pumice.config.problems import nearest
from pumice.errors import InvalidInput
from pumice.framework.explaining.explain import Explanation, runs_in_part
from pumice.framework.explaining.obstacle import obstacle_of, waits
from pumice.framework.session.outcome import Stage
from pumice.framework.session.session import Session
from pumice.model import keys
from pumice.model.api import Condition
from pumice.model.codes import ReasonCode
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.resources import Resources
from pumice.model.status import TaskStatus
from pumice.state.cluster import ClusterState

JOB_NAME_LABELS = (keys.JOB_NAME, keys.BATCH_JOB_NAME, "job-name")
"""The label by which pods name their Job."""


class NoSuchThing(InvalidInput):
    """There is no such job or queue, or more than one is meant."""


def find_job(state: ClusterState, name: str, namespace: str = "") -> Job:
    """The job called ``namespace/name``, or by its bare name where only one has it; within *namespace* if one is given.

    The name may be that of its PodGroup, of the Job that it was made of, or of one of its pods.
    :raises NoSuchThing: there is none, or several; says which ones.
    """
    within, _, bare = name.rpartition("/")
    if namespace and within and within != namespace:
        raise NoSuchThing(f"job {name!r}: is not in namespace {namespace!r}")
    within = within or namespace
    if within and f"{within}/{bare}" in state.jobs:
        return state.jobs[f"{within}/{bare}"]
    jobs = [job for job in state.jobs.values() if within in ("", job.namespace)]
    for called in (_groups, _owners, _pods):
        found = sorted(job.uid for job in jobs if bare in called(job))
        if len(found) == 1:
            return state.jobs[found[0]]
        if found:
            raise NoSuchThing(f"job {name!r}: must say which one, {' or '.join(found)}")
    if left := [
        t for t in state.task_by_key.values() if not t.job_key and bare == t.name and within in ("", t.namespace)
    ]:
        raise NoSuchThing(f"job {name!r}: pod {left[0].key} is in no PodGroup, so that nothing here schedules it")
    names = {known for job in jobs for known in (*_groups(job), *_owners(job))}
    near = nearest(bare, sorted(names)) or nearest(name, [job.uid for job in jobs])
    raise NoSuchThing(f"no job named {name!r}{_hint(near)}")


def find_queue(state: ClusterState, name: str) -> Queue:
    """The queue of a name.

    :raises NoSuchThing: there is none; says which one is near.
    """
    if name in state.queues:
        return state.queues[name]
    raise NoSuchThing(f"no queue named {name!r}{_hint(nearest(name, state.queues))}")


def _hint(near: str | None) -> str:
    return f"; did you mean {near!r}?" if near else ""


def _groups(job: Job) -> Iterable[str]:
    return (job.name,)


def _owners(job: Job) -> Iterator[str]:
    for owner in (job.group.metadata.owner_references if job.group is not None else None) or ():
        yield owner.name
    for task in job.tasks.values():
        for label in JOB_NAME_LABELS:
            if label in task.labels:
                yield task.labels[label]


def _pods(job: Job) -> Iterator[str]:
    return (task.name for task in job.tasks.values())


Amounts = dict[str, float]


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job, in a line: for lists in the terminal, in pages and in answers."""

    job: str
    namespace: str
    queue: str
    state: str = ""
    """The phase of its PodGroup."""
    priority: int = 0
    created: datetime | None = None
    pods: int
    needs: int
    ready: int
    counts: dict[str, int] = {}
    """Status -> pods in it."""
    nodes: dict[str, int] = {}
    """Node -> pods there."""
    holds: Amounts
    asks: Amounts
    waits: bool = False
    place: int = 0
    """Among those who wait in its queue."""
    reason: str = ""
    """The word for programs."""
    text: str = ""

    @property
    def since(self) -> float:
        """When it was created, in seconds; 0 if it does not say."""
        return self.created.timestamp() if self.created is not None else 0.0


class WaitingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Pending jobs, the longest wait first."""

    waiting: int
    """How many wait of those who were asked about; the rows may be fewer."""
    rows: list[JobRow]
    reasons: dict[str, int]
    """Why they all wait: the word -> how many."""
    now: float
    source: str = "scheduler"
    unseen: list[str] = []


def job_rows(ssn: Session, jobs: Iterable[Job]) -> list[JobRow]:
    """A row for each of these jobs, as the session left them."""
    places: dict[str, dict[str, int]] = {}
    obstacles, rows = Obstacles(ssn), []
    for job in jobs:
        queue = ssn.queues.get(job.queue)
        if queue is not None and job.queue not in places:
            places[job.queue] = _places(ssn, queue)
        rows.append(row_of(job, places.get(job.queue, {}).get(job.uid, 0), *obstacles.of(job)))
    return rows


def _places(ssn: Session, queue: Queue) -> dict[str, int]:
    waiting = ssn.orders.sorted_jobs(filter(waits, queue.jobs.values()))
    return {job.uid: number for number, job in enumerate(waiting, 1)}


def is_waiting(job: Job) -> bool:
    """Report whether it waits: for a place, for admission, or to be looked at."""
    return waits(job) or not job.in_session


class Obstacles:
    """Why jobs of a session wait, each in the word for programs and in a text: as `explain` says it of one."""

    def __init__(self, ssn: Session) -> None:
        self._ssn, self._fits = ssn, dict[int, bool]()
        self._codes: dict[tuple[int, int, int, int], str] = {}

    def of(self, job: Job) -> tuple[str, str]:
        """The word and the text; nothing of one that does not wait, no word for one that starts now."""
        if not is_waiting(job):
            return "", ""
        obstacle = obstacle_of(self._ssn, job, self._fits)
        return ("", "starts now") if obstacle.stage is Stage.SERVED else (str(obstacle.code), obstacle.text)

    def code(self, job: Job) -> str:
        """The word alone; jobs of equal pods that were refused together share it."""
        refusal, waiting = self._ssn.outcome.refusals.get(job.uid), job.with_status(TaskStatus.PENDING)
        alike = job.in_session and refusal is not None and len(waiting) == len(job.tasks)
        first = next(iter(waiting.values()), None) if alike and not self._ssn.outcome.fit_errors.get(job.uid) else None
        if first is None or any(task.klass is not first.klass for task in waiting.values()):
            return self.of(job)[0]
        key = (id(refusal), id(first.klass), len(waiting), job.min_available)
        if key not in self._codes:
            self._codes[key] = self.of(job)[0]
        return self._codes[key]


def row_of(job: Job, place: int, reason: str, text: str) -> JobRow:
    """Return the row of a job that is at a *place* in its queue for a reason."""
    return JobRow(
        job=job.uid,
        namespace=job.namespace,
        queue=job.queue,
        state=_state(job),
        priority=job.priority,
        created=datetime.fromtimestamp(job.creation, UTC) if job.creation else None,
        pods=len(job.tasks),
        needs=job.min_available,
        ready=job.ready_count,
        counts={status.title: len(tasks) for status in TaskStatus if (tasks := job.with_status(status))},
        nodes=dict(Counter(task.node_name for task in job.tasks.values() if task.node_name)),
        holds=_whole(job.allocated.as_written()),
        asks=_whole(job.pending.as_written()),
        waits=is_waiting(job),
        place=place,
        reason=reason,
        text=text,
    )


def _state(job: Job) -> str:
    """Return the phase; Starting if the job was pending and all its pods have a node now."""
    phase = str(job.phase) or "Pending"
    placed = job.ready_count >= max(job.min_available, 1) and not job.with_status(TaskStatus.PENDING)
    return "Starting" if placed and phase in ("Pending", "Inqueue") else phase


def _whole(amounts: Mapping[str, float]) -> Amounts:
    return {name: value for name, value in amounts.items() if value and name != "pods"}


S = TaskStatus
_STAGES: Final = {stage.code: stage for stage in Stage} | {ReasonCode.UNSCHEDULABLE: Stage.NODES}
NOT_KNOWN: Final = ("its place in the queue", "what would let it start sooner")
"""The facts that objects never contain."""


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
    """The content of a job's objects, of their events (the newest last) and of the status of its queue."""
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
