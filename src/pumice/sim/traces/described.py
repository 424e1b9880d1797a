"""The content of a trace: counts, loads and distributions, for people and for programs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from pumice.sim.traces.model import TraceJob


class JobsPart(NamedTuple):
    """A part of the jobs, such as those of one queue."""

    name: str
    jobs: int
    gpu_hours: float
    cpu_hours: float
    run_p50: float | None
    """Seconds; None where no job has an end."""
    run_p90: float | None
    users: int


class Description(NamedTuple):
    """A trace in figures."""

    total: JobsPart
    first_s: float
    last_s: float
    """When the first and the last job comes."""
    declared: int
    """Jobs that announce their run time."""
    endless: int
    gangs: int
    """Jobs of more than one pod that must start together."""
    elastic: int
    """Jobs that need fewer pods than they have."""
    shared: int
    """Jobs that want a part of a GPU."""
    largest_gpus: float
    largest_pods: int
    busiest_hour: int
    """Jobs that came in the hour with the most."""
    queues: tuple[JobsPart, ...]
    sizes: tuple[JobsPart, ...]


def describe(jobs: Sequence[TraceJob]) -> Description:
    """The content of a trace."""
    hours: defaultdict[int, int] = defaultdict(int)
    for job in jobs:
        hours[int(job.submit_s // 3600)] += 1
    return Description(
        total=_part("all", jobs),
        first_s=min((job.submit_s for job in jobs), default=0.0),
        last_s=max((job.submit_s for job in jobs), default=0.0),
        declared=sum(job.run_time_declared_s is not None for job in jobs),
        endless=sum(math.isinf(job.duration_s) for job in jobs),
        gangs=sum(job.min_available > 1 for job in jobs),
        elastic=sum(job.min_available < job.tasks for job in jobs),
        shared=sum(any(0 < pod.gpu_milli < 1000 for pod in job.pods) for job in jobs),
        largest_gpus=max((job.gpus for job in jobs), default=0.0),
        largest_pods=max((job.tasks for job in jobs), default=0),
        busiest_hour=max(hours.values(), default=0),
        queues=tuple(sorted(_parts(jobs, lambda job: job.queue), key=lambda part: (-part.jobs, part.name))),
        sizes=tuple(part for _, part in sorted((_rank(part.name), part) for part in _parts(jobs, _size))),
    )


_SIZES = ("no GPU, 1 pod", "no GPU, gang", "part of a GPU", "1 GPU", "2 to 4 GPUs", "5 to 8 GPUs", "more GPUs")


def _rank(size: str) -> int:
    return _SIZES.index(size)


def _size(job: TraceJob) -> str:
    gpus = job.gpus
    if gpus == 0:
        return _SIZES[0] if job.tasks == 1 else _SIZES[1]
    for most, name in ((0.999, _SIZES[2]), (1, _SIZES[3]), (4, _SIZES[4]), (8, _SIZES[5])):
        if gpus <= most:
            return name
    return _SIZES[6]


def _parts(jobs: Iterable[TraceJob], key: Callable[[TraceJob], str]) -> list[JobsPart]:
    groups: defaultdict[str, list[TraceJob]] = defaultdict(list)
    for job in jobs:
        groups[key(job)].append(job)
    return [_part(name, group) for name, group in groups.items()]


def _part(name: str, jobs: Sequence[TraceJob]) -> JobsPart:
    ends = [job for job in jobs if math.isfinite(job.duration_s)]
    runs = sorted(job.duration_s for job in ends)
    cpus = [sum(pod.count * pod.cpu_milli for pod in job.pods) / 1000 for job in ends]
    return JobsPart(
        name=name,
        jobs=len(jobs),
        gpu_hours=sum(job.gpus * job.duration_s for job in ends) / 3600,
        cpu_hours=sum(cpu * job.duration_s for cpu, job in zip(cpus, ends, strict=True)) / 3600,
        run_p50=_quantile(runs, 0.5),
        run_p90=_quantile(runs, 0.9),
        users=len({job.user for job in jobs if job.user}),
    )


def _quantile(values: Sequence[float], part: float) -> float | None:
    """The smallest value that at least this part of all does not exceed."""
    return values[max(math.ceil(part * len(values)) - 1, 0)] if values else None
