"""Jobs in a line each: who waits, for how long, at which place, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pumice.framework.explaining.explain import absent, waits
from pumice.framework.session.session import Session
from pumice.model.codes import ReasonCode
from pumice.model.job import Job
from pumice.model.queue import Queue

Amounts = dict[str, float]


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job, in a line."""

    job: str
    namespace: str
    queue: str
    since: float
    pods: int
    needs: int
    ready: int
    holds: Amounts
    asks: Amounts
    waits: bool = False
    place: int = 0
    """Among those who wait in its queue."""
    reason: str = ""
    """The word for programs."""
    text: str = ""


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
    rows = []
    for job in jobs:
        queue = ssn.queues.get(job.queue)
        if queue is not None and job.queue not in places:
            places[job.queue] = _places(ssn, queue)
        rows.append(_row(ssn, job, places.get(job.queue, {}).get(job.uid, 0)))
    return rows


def _places(ssn: Session, queue: Queue) -> dict[str, int]:
    waiting = sorted(filter(waits, queue.jobs.values()), key=ssn.orders.job_key())
    return {job.uid: number for number, job in enumerate(waiting, 1)}


def _row(ssn: Session, job: Job, place: int) -> JobRow:
    waiting, refusal = waits(job) or not job.in_session, ssn.outcome.refusals.get(job.uid)
    reason, text = "", ""
    if waiting:
        reason, text = str(ReasonCode.NOT_TRIED), "not looked at in this cycle"
        if not job.in_session:
            text, reason, _ = absent(ssn, job)
        elif refusal is not None:
            reason, text = str(refusal.code), refusal.text
        elif job.ready_count >= job.min_available:
            reason, text = "", "starts now"
    return JobRow(
        job=job.uid,
        namespace=job.namespace,
        queue=job.queue,
        since=job.creation,
        pods=len(job.tasks),
        needs=job.min_available,
        ready=job.ready_count,
        holds=_whole(job.allocated.as_written()),
        asks=_whole(job.pending.as_written()),
        waits=waiting,
        place=place,
        reason=reason,
        text=text,
    )


def _whole(amounts: Mapping[str, float]) -> Amounts:
    return {name: value for name, value in amounts.items() if value and name != "pods"}
