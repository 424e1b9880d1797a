"""``summarise``: the figures of one run. Each is defined in the docstring of its field, and nowhere else."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from pumice.sim.results import sizes, timeline
from pumice.sim.results.records import SEED, EvictionRecord, JobRecord, Origin, PodRecord, RunRecord, Window
from pumice.sim.results.statistics import Distribution, bounded_slowdown, jain

_BUCKETS = 500


def fairness_of_service(jobs_by_queue: Mapping[str, list[JobRecord]], horizon: float) -> float | None:
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


def fairness_of_shares(run: RunRecord) -> float | None:
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


_HOUR = 3600.0


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a group of jobs: all of them, those of a queue, or those of a size class."""

    name: str
    jobs: int
    completed: int
    running: int
    pending: int
    failed: int
    unfinished: int
    """Jobs that did not complete: they wait, run or failed. One that runs and has no end of its own is not counted."""
    unstarted: int
    """Jobs that never ran."""
    wait: Distribution | None
    """Seconds from submission to the first start. A job that never started counts until the end of the run (a lower
    bound), one that ran before the run began does not count."""
    jct: Distribution | None
    """Seconds from submission to the end (job completion time). An unfinished job counts until the end of the run (a
    lower bound). A job that failed, or that runs without an end of its own, does not count."""
    slowdown: Distribution | None
    """Bounded slowdown: completion time / run time undisturbed, where run times below 10 s count as 10 s, and at least
    1. Over the jobs of ``jct`` whose run time is known."""
    gpu_hours: float
    """GPU-hours held by pods, the lost ones included."""
    cpu_hours: float
    evictions: int
    """Pods evicted."""
    lost_gpu_hours: float
    """GPU-hours whose work had to be done again."""

    @property
    def endless(self) -> int:
        """Jobs that run and have no end of their own: neither completed nor unfinished."""
        return self.jobs - self.completed - self.unfinished


class Utilisation(msgspec.Struct, frozen=True, kw_only=True):
    """Held by pods / offered by nodes over the span, 0 to 1; ``None`` for what no node offers."""

    gpu: float | None
    cpu: float | None
    memory: float | None


class ReasonCount(msgspec.Struct, frozen=True):
    """A reason why jobs wait at the end of the run, and how many jobs give it."""

    text: str
    plugin: str
    jobs: int


class LeftJob(msgspec.Struct, frozen=True):
    """A job that did not complete, though it could have."""

    job: str
    queue: str
    size: str
    started: bool
    failed: bool


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run."""

    run: str
    conf_digest: str
    seed: int
    version: str
    trace: str
    partial: bool
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    unit: str = SEED
    """The population of the run in a comparison."""
    measure: Window | None = None
    """Only jobs submitted in it count, and utilisation, fragmentation and shares are those of this time."""
    origin: Origin = Origin()
    nodes: int
    gpus: int
    cpus: float
    span_s: float
    """From the first submission to the last end, or to the end of the run where jobs were left; or what is measured."""
    makespan_s: float | None
    """From the first submission to the last end, or to the end of the run if jobs are not finished. ``None`` without
    jobs that end, and if a part of the run is measured."""
    makespan_at_least: bool
    """It is a lower bound: jobs were not finished."""
    total: Figures
    utilisation: Utilisation
    fragmentation: float | None
    """Mean over time of the samples that have one, each until the next."""
    fairness_service: float | None
    """Were the jobs of all queues slowed down alike, those that are not done included? See ``fairness_of_service``."""
    fairness_share: float | None
    """While queues competed, did they get equal shares? See ``fairness_of_shares``."""
    by_queue: tuple[Figures, ...]
    """In the order of names."""
    by_size: tuple[Figures, ...]
    """Small to large; classes without jobs are left out."""
    left: tuple[LeftJob, ...]
    """Jobs that did not complete, in the order of submission."""
    reasons: tuple[ReasonCount, ...]
    """Why jobs wait at the end, the most frequent first."""


def summarise(run: RunRecord) -> Summary:
    """Return the figures of *run*. The same record gives the same figures."""
    measured = [job for job in run.jobs if run.measures(job)]
    size_of = sizes.classes(measured)
    queue_of = {job.key: job.queue for job in measured}
    everything = dict.fromkeys(queue_of, "all jobs")
    by_queue = _by_group(run, queue_of)
    by_size = {figures.name: figures for figures in _by_group(run, size_of)}
    totals = _by_group(run, everything)
    first, last = timeline.measured(run)
    makespan, open_ = (None, False) if run.measure is not None else _makespan(run)
    jobs_by_queue: dict[str, list[JobRecord]] = defaultdict(list)
    for job in measured:
        jobs_by_queue[job.queue].append(job)
    machines = {node.name: node for node in run.nodes}.values()  # one that failed and came back is one
    return Summary(
        run=run.name,
        conf_digest=run.conf_digest,
        seed=run.seed,
        version=run.version,
        trace=run.trace,
        partial=run.partial,
        warnings=run.warnings,
        notes=run.notes,
        unit=run.unit,
        measure=run.measure,
        origin=run.origin,
        nodes=len(machines),
        gpus=sum(node.gpus for node in machines),
        cpus=sum(node.cpu_milli for node in machines) / 1000,
        span_s=last - first,
        makespan_s=makespan,
        makespan_at_least=open_,
        total=totals[0] if totals else _figures("all jobs", [], [], [], run.horizon),
        utilisation=_utilisation(run),
        fragmentation=_fragmentation(run),
        fairness_service=fairness_of_service(jobs_by_queue, run.horizon),
        fairness_share=fairness_of_shares(run),
        by_queue=tuple(by_queue),
        by_size=tuple(by_size[name] for name in sizes.SIZES if name in by_size),
        left=tuple(
            LeftJob(job.key, job.queue, size_of[job.key], not is_unstarted(job), job.outcome == "failed")
            for job in measured
            if is_unfinished(job)
        ),
        reasons=_reasons(measured),
    )


def _by_group(run: RunRecord, group_of: Mapping[str, str]) -> list[Figures]:
    """The figures of each group, in the order of names. *group_of* names the group of every job that counts."""
    jobs: dict[str, list[JobRecord]] = defaultdict(list)
    pods: dict[str, list[PodRecord]] = defaultdict(list)
    evictions: dict[str, list[EvictionRecord]] = defaultdict(list)
    for job in run.jobs:
        if job.key in group_of:
            jobs[group_of[job.key]].append(job)
    for pod in run.pods:
        if pod.job in group_of:
            pods[group_of[pod.job]].append(pod)
    for eviction in run.evictions:
        if eviction.job in group_of:
            evictions[group_of[eviction.job]].append(eviction)
    return [_figures(name, jobs[name], pods[name], evictions[name], run.horizon) for name in sorted(jobs)]


def _figures(
    name: str, jobs: list[JobRecord], pods: list[PodRecord], evictions: list[EvictionRecord], horizon: float
) -> Figures:
    outcomes = Counter(job.outcome for job in jobs)
    done = [job for job in jobs if job.outcome == "completed"]
    left = [job for job in jobs if job.outcome != "failed" and is_unfinished(job)]
    slowdowns = (slowdown_of(job, horizon) for job in done)
    fresh = [job for job in jobs if not job.stood]
    return Figures(
        name=name,
        jobs=len(jobs),
        completed=outcomes["completed"],
        running=outcomes["running"],
        pending=outcomes["pending"],
        failed=outcomes["failed"],
        unfinished=sum(is_unfinished(job) for job in jobs),
        unstarted=sum(is_unstarted(job) for job in jobs),
        wait=Distribution.of(
            (job.start - job.submit for job in fresh if job.start is not None),
            ((horizon if job.end is None else job.end) - job.submit for job in fresh if job.start is None),
        ),
        jct=Distribution.of(
            (job.end - job.submit for job in done if job.end is not None),
            (horizon - job.submit for job in left),
        ),
        slowdown=Distribution.of(
            (slowdown for slowdown in slowdowns if slowdown is not None),
            (bound for job in left if (bound := slowdown_of(job, horizon)) is not None),
        ),
        gpu_hours=sum(pod.gpu_milli * _length(pod, horizon) for pod in pods) / 1000 / _HOUR,
        cpu_hours=sum(pod.cpu_milli * _length(pod, horizon) for pod in pods) / 1000 / _HOUR,
        evictions=len(evictions),
        lost_gpu_hours=sum(pod.gpu_milli * pod.lost_s for pod in pods) / 1000 / _HOUR,
    )


def is_unfinished(job: JobRecord) -> bool:
    """Whether a job did not complete, though it could have: what runs without an end of its own cannot."""
    return job.outcome != "completed" and not (job.outcome == "running" and job.duration is None)


def is_unstarted(job: JobRecord) -> bool:
    """Whether a job never ran."""
    return job.start is None


def _makespan(run: RunRecord) -> tuple[float | None, bool]:
    first = min((job.submit for job in run.jobs), default=0.0)
    if any(is_unfinished(job) and job.outcome != "failed" for job in run.jobs):
        return run.horizon - first, True
    ends = [job.end for job in run.jobs if job.end is not None]
    return (max(ends) - first if ends else None), False


def _length(pod: PodRecord, horizon: float) -> float:
    return (horizon if pod.end is None else pod.end) - pod.start


def _utilisation(run: RunRecord) -> Utilisation:
    borders = timeline.edges(run, 1, timeline.measured(run))

    def part(resource: timeline.Resource) -> float | None:
        offered = float(timeline.mean_capacity(run.nodes, resource, borders, run.horizon)[0])
        if offered == 0:
            return None
        return float(timeline.mean_use(run.pods, resource, borders, run.horizon)[0]) / offered

    return Utilisation(gpu=part("gpu"), cpu=part("cpu"), memory=part("memory"))


def _fragmentation(run: RunRecord) -> float | None:
    if not run.samples:
        return None
    times = np.array([sample.time for sample in run.samples] + [max(run.horizon, run.samples[-1].time)])
    lengths = np.diff(times if run.measure is None else np.clip(times, *run.measure))
    known = np.array([sample.fragmentation is not None for sample in run.samples])
    values = np.array([sample.fragmentation or 0.0 for sample in run.samples])
    weight = float(lengths[known].sum())
    if weight > 0:
        return float((values[known] * lengths[known]).sum()) / weight
    return float(values[known].mean()) if known.any() else None


def _reasons(jobs: Iterable[JobRecord]) -> tuple[ReasonCount, ...]:
    counts: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        if job.outcome == "pending":
            counts.update({(reason.text, reason.plugin) for reason in job.reasons})
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(ReasonCount(text, plugin, count) for (text, plugin), count in ranked)
