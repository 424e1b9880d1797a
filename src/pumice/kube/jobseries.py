"""What is measured per job: how long it took to be placed, and what it still lacks. Gone with the job."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from pumice.model.job import Job

_PLACED = ("job_name", "queue", "job_namespace")
_WAITING = ("job_id", "job_ns")


@dataclass(slots=True)
class _Seen:
    name: str
    namespace: str
    queue: str
    created: float
    placed: float = 0.0
    """When a task was placed last; 0: none was."""
    lacking: int = 0
    """Tasks that the gang lacks."""
    retries: int = 0
    since: int = 0
    """The cycle in which it began to lack tasks."""


class JobSeries:
    """Volcano's series per job. Told of jobs that changed only, so that a cycle costs nothing for those that wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, _Seen] = {}
        self._cycle = 0

    def cycle(self, changed: Iterable[Job]) -> None:
        """A cycle is over; *changed*: the jobs that are not as they were at the end of the last."""
        with self._lock:
            self._cycle += 1
            for job in changed:
                lacking = 0 if job.is_ready or not job.tasks else max(job.min_available - job.ready_count, 0)
                seen = self._jobs.get(job.uid)
                if seen is None:
                    if not lacking:
                        continue
                    seen = self._of(job)
                if lacking and not seen.lacking:
                    seen.since = self._cycle - 1
                elif seen.lacking and not lacking:
                    seen.retries += self._cycle - seen.since
                seen.lacking = lacking

    def placed(self, job: Job, now: float) -> None:
        """Tasks of a job were placed."""
        with self._lock:
            self._of(job).placed = now

    def keep(self, jobs: Iterable[str]) -> None:
        """Forget all jobs but these, which are there, by UID."""
        present = set(jobs)
        with self._lock:
            for uid in [uid for uid in self._jobs if uid not in present]:
                del self._jobs[uid]

    def _of(self, job: Job) -> _Seen:
        if job.uid not in self._jobs:
            self._jobs[job.uid] = _Seen(job.name, job.namespace, job.queue, job.creation)
        return self._jobs[job.uid]

    def describe(self) -> Iterable[Metric]:
        """The families, without series."""
        return self._families()

    def collect(self) -> Iterable[Metric]:
        """The series of the jobs that are there."""
        duration, start, last, lacks, waiting, retries = families = self._families()
        with self._lock:
            waiting.add_metric([], sum(1 for seen in self._jobs.values() if seen.lacking))  # type: ignore[attr-defined]
            for seen in self._jobs.values():
                names = [seen.name, seen.queue, seen.namespace]
                if seen.placed:
                    duration.add_metric(names, max(seen.placed - seen.created, 0.0) * 1000)  # type: ignore[attr-defined]
                    start.add_metric(names, seen.created)  # type: ignore[attr-defined]
                    last.add_metric(names, seen.placed)  # type: ignore[attr-defined]
                lacks.add_metric([seen.name, seen.namespace], seen.lacking)  # type: ignore[attr-defined]
                times = seen.retries + (self._cycle - seen.since if seen.lacking else 0)
                who = {"job_id": seen.name, "job_ns": seen.namespace}
                retries.add_sample(retries.name, who, times)
        return families

    def _families(self) -> list[Metric]:
        def gauge(name: str, text: str, labels: tuple[str, ...]) -> Metric:
            return GaugeMetricFamily(f"volcano_{name}", text, labels=labels)

        return [
            gauge("e2e_job_scheduling_duration", "Creation of a job to its last placement, in milliseconds.", _PLACED),
            gauge("e2e_job_scheduling_start_time", "When a job was created, in seconds since 1970.", _PLACED),
            gauge("e2e_job_scheduling_last_time", "When a task was placed last, in seconds since 1970.", _PLACED),
            gauge("unschedule_task_count", "Tasks that a gang lacks.", _WAITING),
            gauge("unschedule_job_count", "Jobs whose gang lacks tasks.", ()),
            Metric("volcano_job_retry_counts", "Cycles in which a job's gang lacked tasks.", "unknown"),
        ]
