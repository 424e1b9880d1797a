"""The life of the jobs that matter most, the heaviest and the longest waiting: waiting, running, evicted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from pumice.sim.report import units
from pumice.sim.report.charts.plot import percent, time_ticks, x_axis
from pumice.sim.report.markup import Markup, tag
from pumice.sim.report.palette import OTHER_CLASS
from pumice.sim.results import timeline
from pumice.sim.results.records import EvictionRecord, JobRecord, PodRecord, RunRecord
from pumice.words import distinct

HEAVIEST = 32
LONGEST = 16
_NAME = 18
"""Letters of a name that its column has room for."""
_MARKS = 40
"""Evictions marked in one row at most; a job bounced more often shows that by then."""


def chosen(run: RunRecord) -> list[JobRecord]:
    """Return the jobs that are drawn, in the order of submission: the heaviest by GPU- or CPU-time, and those that
    waited longest."""
    resource = timeline.main_resource(run)
    held: dict[str, float] = defaultdict(float)
    for pod in run.pods:
        length = (run.horizon if pod.end is None else pod.end) - pod.start
        held[pod.job] += length * (pod.gpu_milli if resource == "gpu" else pod.cpu_milli)
    heavy = sorted(run.jobs, key=lambda job: (-held[job.key], job.key))[:HEAVIEST]
    known = {job.key for job in heavy}
    others = [job for job in run.jobs if job.key not in known]
    slow = sorted(others, key=lambda job: (-_wait(job, run.horizon), job.key))[:LONGEST]
    return sorted((*heavy, *slow), key=lambda job: (job.submit, job.key))


def gantt(run: RunRecord, jobs: list[JobRecord], colours: Mapping[str, str]) -> Markup:
    """Return a row for each of *jobs*."""
    pods: dict[str, list[PodRecord]] = defaultdict(list)
    for pod in run.pods:
        pods[pod.job].append(pod)
    evictions: dict[str, list[EvictionRecord]] = defaultdict(list)
    for eviction in run.evictions:
        evictions[eviction.job].append(eviction)
    first, last = timeline.span(run)
    scale = _Scale(first, max(last - first, 1.0))
    names = labels(jobs)
    rows = [
        _row(
            job,
            names[job.key],
            pods[job.key],
            evictions[job.key],
            run.horizon,
            scale,
            colours.get(job.queue, OTHER_CLASS),
        )
        for job in jobs
    ]
    ticks = time_ticks(scale.length)
    grid = tag("div", *(tag("i", style=f"left:{percent(tick.at)}") for tick in ticks), class_="lines")
    return tag("div", grid, *rows, tag("div", tag("span"), x_axis(ticks), class_="axis"), class_="gantt")


def labels(jobs: Sequence[JobRecord]) -> dict[str, str]:
    """Return what stands before the row of each job, by key: short names, no two alike.

    A namespace is told where two jobs have one name.
    """
    count = Counter(job.name for job in jobs)
    full = {job.key: job.name if count[job.name] == 1 else job.key for job in jobs}
    short = distinct(full.values(), _NAME)
    return {key: short[name] for key, name in full.items()}


class _Scale:
    def __init__(self, first: float, length: float) -> None:
        self.first, self.length = first, length

    def at(self, time: float) -> float:
        return min(max((time - self.first) / self.length, 0.0), 1.0)

    def box(self, start: float, end: float) -> str:
        return f"left:{percent(self.at(start))};width:{percent(self.at(end) - self.at(start))}"


def _row(
    job: JobRecord,
    label: str,
    pods: list[PodRecord],
    evictions: list[EvictionRecord],
    horizon: float,
    scale: _Scale,
    colour: str,
) -> Markup:
    stays = timeline.stays(pods, horizon)
    if not stays and job.start is not None:  # no pods were recorded
        stays = [(job.start, horizon if job.end is None else job.end)]
    over = horizon if job.end is None else job.end
    parts = [_part("wait", scale, begin, end, f"{job.key}\nwaited {units.duration(end - begin)}")
             for begin, end in _gaps(job.submit, over, stays) if end > begin]  # fmt: skip
    for begin, end in stays:
        running = " so far" if job.outcome == "running" and end >= horizon else ""
        parts.append(
            _part(f"run {colour}", scale, begin, end, f"{job.key}\nran {units.duration(end - begin)}{running}")
        )
    for eviction in evictions[:_MARKS]:
        who = f" for {eviction.beneficiary}" if eviction.beneficiary else ""
        tip = f"{eviction.pod}\nevicted by {eviction.action}{who}"
        parts.append(tag("i", class_="evicted", style=f"left:{percent(scale.at(eviction.time))}", data_tip=tip))
    size = (
        f"{units.number(job.gpus)} GPU{'' if job.gpus == 1 else 's'}" if job.gpus else f"{units.number(job.cpus)} CPU"
    )
    name = tag("span", tag("i", class_=f"swatch {colour}"), tag("b", label), tag("small", size), class_="job")
    tip = f"{job.key}\nqueue {job.queue}" + (f", user {job.user}" if job.user else "")
    return tag("div", name, tag("div", *parts, class_="track"), class_="row", title=tip)


def _part(kind: str, scale: _Scale, start: float, end: float, tip: str) -> Markup:
    return tag("i", class_=kind, style=scale.box(start, end), data_tip=tip)


def _gaps(start: float, end: float, stays: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The times from *start* to *end* that no stay covers."""
    begins = [start, *(stay[1] for stay in stays)]
    ends = [*(stay[0] for stay in stays), end]
    return list(zip(begins, ends, strict=True))


def _wait(job: JobRecord, horizon: float) -> float:
    return (horizon if job.start is None else job.start) - job.submit
