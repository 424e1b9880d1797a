"""When jobs last started, were last evicted or began to run in vain: kept, and written on their PodGroups."""

from __future__ import annotations

from collections.abc import Container
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pumice.kai.view.jobs import JobView
from pumice.model.intents import StatusUpdate
from pumice.model.kai import KaiPodGroup
from pumice.model.keys import LAST_EVICTION, LAST_START

if TYPE_CHECKING:
    from pumice.framework.session.session import Session


class WrittenTimes:
    """Times that this scheduler saw, from session to session; a job's PodGroup may say more."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        memory = ssn.memory_of("kai")
        self._started: dict[str, float] = memory.setdefault("started", {})
        self._evicted: dict[str, float] = memory.setdefault("evicted", {})
        self._noted: dict[tuple[str, str], str | None] = {}

    def recall(self, job: JobView) -> None:
        """Let a job that is first looked at know its times, the later of what is kept and what is written."""
        uid = job.job.uid
        if uid in self._started:
            job.last_start = max(job.last_start or 0.0, self._started[uid])
        if uid in self._evicted:
            job.last_eviction = max(job.last_eviction or 0.0, self._evicted[uid])

    def forget_all_but(self, jobs: Container[str]) -> None:
        """Keep nothing of jobs that are gone."""
        for kept in (self._started, self._evicted):
            for uid in [u for u in kept if u not in jobs]:
                del kept[uid]

    def started(self, job: JobView) -> None:
        """A job has just started."""
        job.last_start = self._started[job.job.uid] = now = self._ssn.state.now
        self.note(job, LAST_START, now)

    def lost_some(self, job: JobView) -> None:
        """Tasks of a job have just been evicted for somebody else."""
        job.last_eviction = self._evicted[job.job.uid] = self._ssn.state.now
        self.note(job, LAST_EVICTION, self._ssn.state.now)

    def note(self, job: JobView, what: str, at: float | None) -> None:
        """Have a time written on the PodGroup of a job, or (None) taken away, so that who comes after us knows it."""
        if not isinstance(job.job.group, KaiPodGroup):
            return
        text = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at is not None else None
        if job.job.annotations.get(what) == text:
            return
        if self._noted.get((job.job.uid, what), "") != text:
            self._noted[job.job.uid, what] = text
            self._ssn.outcome.intents.append(StatusUpdate(job.job.kind, job.job.uid, {}, {what: text}))
