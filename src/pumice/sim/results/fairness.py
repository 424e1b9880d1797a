"""How fairly queues fared, by two measures that answer two questions.

*Service*: were the jobs of all queues slowed down alike? *Share*: while queues competed, did they get equal shares?
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from pumice.sim.results import timeline
from pumice.sim.results.records import JobRecord, RunRecord
from pumice.sim.results.statistics import bounded_slowdown, jain

_BUCKETS = 500


def service(jobs_by_queue: Mapping[str, list[JobRecord]], horizon: float) -> float | None:
    """Return Jain's index over queues of the mean part of its time in the system that a job ran (1 / slowdown).

    A job that is not done counts with the most that it can still reach, its run time over the time until the
    *horizon*, so a queue that is never served is seen. Jobs that failed, or whose run time is unknown, do not count;
    ``None`` with fewer than two queues of jobs that do.
    """
    rates: list[float] = []
    for _, jobs in sorted(jobs_by_queue.items()):
        known = [1 / slowdown for job in jobs if (slowdown := slowdown_of(job, horizon)) is not None]
        if known:
            rates.append(math.fsum(known) / len(known))
    return jain(rates) if len(rates) > 1 else None


def slowdown_of(job: JobRecord, horizon: float) -> float | None:
    """Return the bounded slowdown of a job, of one that is not done the least that it can be; else ``None``."""
    if job.outcome == "completed" and job.start is not None and job.end is not None:
        run = job.end - job.start if job.duration is None else job.duration
        return bounded_slowdown(job.end - job.submit, run)
    if job.outcome == "failed" or job.duration is None:
        return None
    return bounded_slowdown(horizon - job.submit, job.duration)


def share(run: RunRecord) -> float | None:
    """Return Jain's index of dominant shares by weight over the queues that compete, the mean over the time they do.

    A queue competes while one of its jobs waits for its first start: one that has all it wants is not treated badly.
    Its dominant share is the greatest of its shares of CPU, memory and GPU, divided by its weight. The span is cut into
    500 parts; those where fewer than two queues compete, or where all that do have nothing, do not
    count. ``None`` if there are no others.
    """
    borders = timeline.edges(run, _BUCKETS, timeline.measured(run))
    middle = (borders[:-1] + borders[1:]) / 2
    dominant: dict[str, timeline.Floats] = {}
    for resource in ("gpu", "cpu", "memory"):
        capacity = timeline.mean_capacity(run.nodes, resource, borders, run.horizon)
        for queue, used in timeline.use_by_queue(run, resource, borders).items():
            part = np.divide(used, capacity, out=np.zeros_like(used), where=capacity > 0)
            dominant[queue] = np.maximum(dominant.get(queue, part), part)
    by_queue: dict[str, list[JobRecord]] = defaultdict(list)
    for job in run.jobs:
        by_queue[job.queue].append(job)
    weights = {queue.name: queue.weight for queue in run.queues if queue.weight > 0}
    names = sorted(by_queue)
    shares = [dominant.get(name, np.zeros_like(middle)) / weights.get(name, 1.0) for name in names]
    competes = [timeline.waiting(by_queue[name], middle) > 0 for name in names]
    indexes: list[float] = []
    for moment in range(len(middle)):
        values = [float(shares[row][moment]) for row in range(len(names)) if competes[row][moment]]
        if len(values) > 1 and (index := jain(values)) is not None:
            indexes.append(index)
    return math.fsum(indexes) / len(indexes) if indexes else None
