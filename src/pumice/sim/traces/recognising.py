"""``read``: one way in for every format."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

from pumice.errors import InvalidInput
from pumice.sim.draws import uniform_of
from pumice.sim.traces import logs, native
from pumice.sim.traces.logs import OpenbOptions, PhillyOptions, SwfOptions
from pumice.sim.traces.model import Trace, TraceError, TraceJob
from pumice.sim.traces.source import Notes, lines


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


Format = Literal["openb", "philly", "swf", "native"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
Estimates = Literal["trace", "exact", "none"]
Options = OpenbOptions | PhillyOptions | SwfOptions


def read(
    path: Path | str,
    format: Format | None = None,  # noqa: A002 (the word users know)
    *,
    window: tuple[float, float] | None = None,
    sample: float = 1,
    limit: int | None = None,
    compress: float = 1,
    rebase: bool = False,
    estimates: Estimates = "trace",
    options: Options | None = None,
) -> Trace:
    """Return the jobs of a trace in the order of submission; among equals the file's order.

    The whole file is read and checked, also where only a part of it is wanted. The steps happen in this order.

    :param format: recognised by content where it is not given.
    :param window: keep the jobs with start <= submit_s < end, in the trace's own time.
    :param sample: keep this part of them: the same jobs each time, whatever else is kept.
    :param limit: keep the first so many of them.
    :param compress: divide submission times by this and cut them to whole seconds, to raise the load.
    :param rebase: let the first submission be second 0.
    :param estimates: run times declared to the scheduler: those of the ``trace``, the ``exact`` ones, or ``none``.
    :param options: what the reader of this format lets the caller choose.
    :raises TraceError: the file cannot be read, is of no known format, or a line breaks a rule.
    :raises InvalidInput: an argument breaks a rule, or *options* are those of another format.
    """
    path = Path(path)
    _check(window, sample, limit, compress)
    kind = format or recognise(path)
    notes = Notes()
    jobs: Iterable[TraceJob] = sorted(_jobs(path, kind, options, notes), key=lambda job: job.submit_s)
    if window is not None:
        jobs = [job for job in jobs if window[0] <= job.submit_s < window[1]]
    if sample < 1:
        jobs = [job for job in jobs if uniform_of(0, "sample", job.name) < sample]
    jobs = list(islice(jobs, limit))
    start, end = window or (-math.inf, math.inf)
    said = notes.about(jobs, (start, jobs[-1].submit_s if limit is not None and jobs else end))
    if compress != 1:
        jobs = Trace(path, kind, tuple(jobs)).faster(compress).jobs
    if rebase and jobs:
        first = jobs[0].submit_s
        jobs = [replace(job, submit_s=job.submit_s - first) for job in jobs]
    kept = tuple(_declared(job, estimates) for job in jobs)
    return Trace(path, kind, kept, said)


def recognise(path: Path | str) -> Format:
    """Return the format that the first line with content shows.

    :raises TraceError: it shows none of those known.
    """
    path = Path(path)
    for number, text in lines(path):
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        if text.lstrip().startswith(";") or logs.is_record(text):
            return "swf"
        header = {column.strip() for column in text.split(",")}
        if header.issuperset(logs.POD_COLUMNS):
            return "openb"
        if header.issuperset(logs.COLUMNS):
            return "philly"
        if header.issuperset(native.REQUIRED):
            return "native"
        if header.issuperset(logs.NODE_COLUMNS):
            raise TraceError(path, "is a list of nodes, not of jobs", line=number)
        rule = f"the format is not recognised; known are {', '.join(FORMATS)} (a header or a line of 18 numbers)"
        raise TraceError(path, rule, line=number, value=text)
    raise TraceError(path, "is empty")


def _jobs(path: Path, kind: Format, options: Options | None, notes: Notes) -> Iterable[TraceJob]:
    match kind, options:
        case "openb", OpenbOptions() | None:
            return logs.read_openb(path, options or OpenbOptions(), notes)
        case "philly", PhillyOptions() | None:
            return logs.read_philly(path, options or PhillyOptions(), notes)
        case "swf", SwfOptions() | None:
            return logs.read_swf(path, options or SwfOptions(), notes)
        case "native", None:
            return native.read_jobs(path)
        case _ if kind not in FORMATS:
            raise InvalidInput(f"format: must be one of {', '.join(FORMATS)}, got {kind!r}")
    raise InvalidInput(f"options: {type(options).__name__} are not those of format {kind!r} ({path})")


def _declared(job: TraceJob, estimates: Estimates) -> TraceJob:
    match estimates:
        case "exact" if math.isfinite(job.duration_s):
            return replace(job, run_time_declared_s=job.duration_s)
        case "trace":
            return job
        case _:
            return replace(job, run_time_declared_s=None)


def _check(window: tuple[float, float] | None, sample: float, limit: int | None, compress: float) -> None:
    if not 0 < sample <= 1:
        raise InvalidInput(f"sample: must be a part of all jobs, above 0 and at most 1, got {sample!r}")
    if window is not None and not window[0] < window[1]:
        raise InvalidInput(f"window: the start must be before the end, got {window[0]:g} to {window[1]:g}")
    if limit is not None and limit < 0:
        raise InvalidInput(f"limit: must be at least 0, got {limit}")
    if not (math.isfinite(compress) and compress > 0):
        raise InvalidInput(f"compress: must be a number above 0, got {compress!r}")
