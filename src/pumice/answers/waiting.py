"""Jobs in a line each: who waits, for how long, at which place, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import msgspec

from pumice.framework.explaining.obstacle import obstacle_of, waits
from pumice.framework.session.refusals import Stage
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus

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
    """Who waits, the longest first."""

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
    """Does it wait: for a place, to be let in, or to be looked at at all?"""
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
