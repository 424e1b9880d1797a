"""How long jobs waited: so many within each length of time, and the share that had started after each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from pumice.sim.report import units
from pumice.sim.report.charts.plot import Pointer, Tick, frame, legend, line, percent
from pumice.sim.report.markup import Markup, join, tag
from pumice.sim.report.palette import OTHER_CLASS
from pumice.sim.results.records import JobRecord, RunRecord
from pumice.sim.results.timeline import Floats

_BOUNDS = (1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86_400, 3 * 86_400, 7 * 86_400)
"""Ends of the classes of waits, in seconds; a last class is open."""
_MARKS = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 4 * 86_400, 14 * 86_400, 60 * 86_400)
_POINTS = 160


def histogram(jobs: Sequence[JobRecord]) -> Markup:
    """Return how many jobs waited how long, a bar for each class, and one for those that never ran."""
    waits = [job.start - job.submit for job in jobs if job.start is not None]
    never = len(jobs) - len(waits)
    counts = [sum(wait < _BOUNDS[0] for wait in waits)]
    counts += [sum(low <= wait < high for wait in waits) for low, high in pairwise(_BOUNDS)]
    counts.append(sum(wait >= _BOUNDS[-1] for wait in waits))
    names = ["under 1 s", *(f"up to {units.duration(high)}" for high in _BOUNDS[1:])]
    names.append(f"over {units.duration(_BOUNDS[-1])}")
    last = max((index for index, count in enumerate(counts) if count), default=0)
    bars = list(zip(names, counts, ["accent"] * len(counts), strict=True))[: last + 1]
    if never:
        bars.append(("never ran", never, "warn"))
    most = max((count for _, count, _ in bars), default=0) or 1
    return tag("ol", *(_bar(name, count, most, len(jobs) or 1, colour) for name, count, colour in bars), class_="bars")


def _bar(name: str, count: int, most: int, jobs: int, colour: str) -> Markup:
    return tag(
        "li",
        tag("span", name, class_="name"),
        tag("span", tag("i", class_=f"fill {colour}", style=f"width:{percent(count / most)}"), class_="track"),
        tag("span", units.number(count), " ", tag("small", units.percent(count / jobs)), class_="value"),
    )


def started_by_queue(run: RunRecord, colours: Mapping[str, str]) -> Markup:
    """Return, for each queue with a colour of its own, the share of its jobs that had started after each wait."""
    own = sorted((name for name in colours if colours[name] != OTHER_CLASS), key=lambda name: colours[name])
    groups = [(name, colours[name], [job for job in run.jobs if job.queue == name]) for name in own]
    curves = [group for group in groups if group[2]]
    return tag("div", started(curves, run.jobs), legend([(colour, name, "") for name, colour, _ in curves]))


def started(groups: Sequence[tuple[str, str, Sequence[JobRecord]]], everyone: Sequence[JobRecord]) -> Markup:
    """Return the share of jobs that had started after each wait, a line for each (name, colour, jobs).

    Jobs that never ran count as not started, so a line that ends below 100 % shows them. The axis is logarithmic from
    one second up to the longest wait of *everyone*.
    """
    longest = max((job.start - job.submit for job in everyone if job.start is not None), default=1.0)
    top = math.log10(max(longest, 60.0))
    at = np.linspace(0, 1, _POINTS)
    waits = 10 ** (at * top)
    shapes, rows = [], []
    for name, colour, jobs in groups:
        curve = _started(jobs, waits)
        shapes.append(line(at, curve, colour))
        rows.append((name, colour, [units.percent(float(value)) for value in curve]))
    marks = [mark for mark in _MARKS if math.log10(mark) <= top]
    return frame(
        join(shapes),
        height=300,
        label="Share of jobs that had started, by how long they waited",
        x=[Tick(math.log10(mark) / top, units.duration(mark), index % 2 == 1) for index, mark in enumerate(marks)],
        y=[Tick(part, f"{100 * part:.0f} %") for part in (0, 0.25, 0.5, 0.75, 1)],
        pointer=Pointer([f"within {units.duration(float(wait))}" for wait in waits], rows),
    )


def _started(jobs: Sequence[JobRecord], waits: Floats) -> Floats:
    ranked = np.sort(np.array([job.start - job.submit for job in jobs if job.start is not None], dtype=np.float64))
    share: Floats = np.searchsorted(ranked, waits * (1 + 1e-9), "right") / max(len(jobs), 1)
    return share
