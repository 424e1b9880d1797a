"""``read``: one way in for every format."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final, Literal, get_args

from pumice.errors import InvalidInput
from pumice.sim.draws import uniform_of
from pumice.sim.traces import native, openb, philly, swf
from pumice.sim.traces.errors import TraceError
from pumice.sim.traces.model import Trace, TraceJob
from pumice.sim.traces.openb import OpenbOptions
from pumice.sim.traces.philly import PhillyOptions
from pumice.sim.traces.source import Notes, lines
from pumice.sim.traces.swf import SwfOptions

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
        if text.lstrip().startswith(";") or swf.is_record(text):
            return "swf"
        header = {column.strip() for column in text.split(",")}
        if header.issuperset(openb.POD_COLUMNS):
            return "openb"
        if header.issuperset(philly.COLUMNS):
            return "philly"
        if header.issuperset(native.REQUIRED):
            return "native"
        if header.issuperset(openb.NODE_COLUMNS):
            raise TraceError(path, "is a list of nodes, not of jobs", line=number)
        rule = f"the format is not recognised; known are {', '.join(FORMATS)} (a header or a line of 18 numbers)"
        raise TraceError(path, rule, line=number, value=text)
    raise TraceError(path, "is empty")


def _jobs(path: Path, kind: Format, options: Options | None, notes: Notes) -> Iterable[TraceJob]:
    match kind, options:
        case "openb", OpenbOptions() | None:
            return openb.read_jobs(path, options or OpenbOptions(), notes)
        case "philly", PhillyOptions() | None:
            return philly.read_jobs(path, options or PhillyOptions(), notes)
        case "swf", SwfOptions() | None:
            return swf.read_jobs(path, options or SwfOptions(), notes)
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
