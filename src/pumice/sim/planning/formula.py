"""The result of queueing theory, beside the simulation: many equal servers, one line, any run times.

Erlang's formula for M/M/c, scaled by Allen and Cunneen's factor for other arrivals and run times. It knows nothing of
gangs, of nodes that are full in part, of quotas and of the pattern of a day: where it is far off, these matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pumice.sim.jobs import JobSpec


def erlang_c(servers: int, offered: float) -> float:
    """Return the probability that an arrival has to wait, at an *offered* load in servers; 1 where it is too much."""
    if offered >= servers:
        return 1.0
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


@dataclass(frozen=True, slots=True)
class Demanded:
    """A workload as the formula sees it: how often jobs come, how large they are and how long they run."""

    resource: str
    """``gpu`` or ``cpu``: what the jobs are measured in."""
    per_second: float
    size: float
    """Mean units of a job."""
    service_s: float
    """Mean run time of a unit of work: of a job, weighted by its size."""
    variation_between: float
    """Squared coefficient of variation of the times between arrivals."""
    variation_of_service: float

    def waits(self, units: float) -> Waits | None:
        """Return the waits on a cluster of so many units; None where it could not keep up."""
        servers = int(units / self.size) if self.size else 0
        offered = self.per_second * self.service_s
        if servers < 1 or offered >= servers:
            return None
        factor = (self.variation_between + self.variation_of_service) / 2
        return Waits(erlang_c(servers, offered), (servers - offered) / self.service_s, factor)


@dataclass(frozen=True, slots=True)
class Waits:
    """How long jobs wait by the formula."""

    probability: float
    """The probability that a job waits."""
    rate: float
    """1 / the mean wait of those that wait, for M/M/c."""
    factor: float

    @property
    def mean(self) -> float:
        """The mean wait in seconds."""
        return self.probability / self.rate * self.factor

    def quantile(self, part: float) -> float:
        """The wait that so large a part of the jobs does not exceed."""
        if self.probability <= 1 - part:
            return 0.0
        return math.log(self.probability / (1 - part)) / self.rate * self.factor

    def figure(self, name: str) -> float | None:
        """A figure by its name; None of what the formula does not tell."""
        if name == "wait.mean":
            return self.mean
        kind, _, part = name.partition(".p")
        return self.quantile(int(part) / 100) if kind == "wait" and part.isdigit() else None


def demanded(workloads: Iterable[Sequence[JobSpec]], *, gpus: bool) -> Demanded | None:
    """Return what workloads ask for, taken together; None where there are too few jobs with an end."""
    gaps: list[float] = []
    jobs: list[tuple[float, float]] = []
    for workload in workloads:
        known = [(job.submit_s, _units(job, gpus), _run_s(job)) for job in workload]
        known = [one for one in known if one[1] > 0 and 0 < one[2] < math.inf]
        gaps += [after[0] - before[0] for before, after in pairwise(known)]
        jobs += [(size, run) for _, size, run in known]
    if len(gaps) < 2 or not sum(gaps):
        return None
    size = sum(units for units, _ in jobs)
    service = sum(units * run for units, run in jobs) / size
    spread = sum(units * (run - service) ** 2 for units, run in jobs) / size
    between = sum(gaps) / len(gaps)
    varied = sum((gap - between) ** 2 for gap in gaps) / len(gaps)
    return Demanded(
        "gpu" if gpus else "cpu", 1 / between, size / len(jobs), service, varied / between**2, spread / service**2
    )


def _units(job: JobSpec, gpus: bool) -> float:
    return (
        sum(len(kind.names) * (kind.demand.gpu_milli if gpus else kind.demand.cpu_milli) for kind in job.kinds) / 1000
    )


def _run_s(job: JobSpec) -> float:
    return job.run_s if job.run_s is not None else max((kind.run_s for kind in job.kinds), default=math.inf)
