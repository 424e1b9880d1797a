"""Charts of runs as SVG: use and waits over time, jobs, nodes; and the colours that name queues in all of them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pumice.sim.report import units
from pumice.sim.report.markup import Markup, data, join, tag
from pumice.sim.results import timeline
from pumice.sim.results.records import EvictionRecord, JobRecord, NodeRecord, PodRecord, RunRecord
from pumice.sim.results.summary import Summary
from pumice.sim.results.timeline import Floats, Resource
from pumice.words import distinct

COLOURS = 8
OTHER = "other"
OTHER_CLASS = "cx"


def queue_colours(summaries: Sequence[Summary]) -> dict[str, str]:
    """Return the colour class of each queue: those that used most have their own, the others share one."""
    used: defaultdict[str, float] = defaultdict(float)
    by_gpu = any(figures.gpu_hours > 0 for summary in summaries for figures in summary.by_queue)
    for summary in summaries:
        for figures in summary.by_queue:
            used[figures.name] += figures.gpu_hours if by_gpu else figures.cpu_hours
    ranked = sorted(used, key=lambda name: (-used[name], name))
    return {name: f"c{rank}" if rank < COLOURS else OTHER_CLASS for rank, name in enumerate(ranked)}


def run_colours(runs: Sequence[RunRecord]) -> list[str]:
    """Return the colour class of each run, in order."""
    return [f"c{rank % COLOURS}" for rank in range(len(runs))]


SIDE = 1000
"""Width and height of the SVG's own coordinates; the page stretches them."""
_TIME_STEPS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 432_000,
    864_000, 1_728_000, 4_320_000, 8_640_000, 17_280_000,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: where, from 0 to 1, and what it says. Minor ones give way on narrow pages."""

    at: float
    label: str
    minor: bool = False


@dataclass(frozen=True, slots=True)
class Pointer:
    """The texts for the pointer: a label for each point of the x axis, and for each series its values in words."""

    labels: Sequence[str]
    series: Sequence[tuple[str, str, Sequence[str]]]
    """Name, colour class, values."""


def frame(
    shapes: Markup,
    *,
    height: int,
    label: str,
    x: Sequence[Tick],
    y: Sequence[Tick],
    pointer: Pointer | None = None,
    unit: str = "",
) -> Markup:
    """Return a chart *height* pixels high. *label* says in one sentence what it shows, for those who cannot see it.

    *unit* is that of the y axis, where the ticks do not say it.
    """
    lines = "".join(f"M0 {n(SIDE * (1 - tick.at))}H{SIDE}" for tick in y)
    ups = "".join(f"M{n(SIDE * tick.at)} 0V{SIDE}" for tick in x)
    svg = tag(
        "svg",
        tag("path", class_="grid", d=lines),
        tag("path", class_="grid faint", d=ups),
        shapes,
        viewBox=f"0 0 {SIDE} {SIDE}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
    return tag(
        "div",
        tag("div", *(tag("span", tick.label, style=f"bottom:{percent(tick.at)}") for tick in y), class_="y-axis"),
        tag("div", svg, tag("span", unit, class_="unit") if unit else "", tag("div", class_="cursor"), class_="canvas"),
        x_axis(x),
        "" if pointer is None else _pointer(pointer),
        class_="plot",
        style=f"--height:{height}px",
    )


def x_axis(ticks: Sequence[Tick]) -> Markup:
    """Return the labels below a chart."""
    spans = (
        tag("span", tick.label, style=f"left:{percent(tick.at)}", class_="minor" if tick.minor else None)
        for tick in ticks
    )
    return tag("div", *spans, class_="x-axis")


def legend(entries: Sequence[tuple[str, str, str]]) -> Markup:
    """Return a legend of (colour class, name, note)."""
    return tag(
        "ul",
        *(
            tag(
                "li", tag("i", class_=f"swatch {colour}"), name, " " if note else "", tag("small", note) if note else ""
            )
            for colour, name, note in entries
        ),
        class_="legend",
    )


def _pointer(pointer: Pointer) -> Markup:
    series = [{"name": name, "colour": colour, "values": list(values)} for name, colour, values in pointer.series]
    return data({"labels": list(pointer.labels), "series": series}, class_="pointer")


def area(x: Floats, low: Floats, high: Floats, colour: str) -> Markup:
    """Return a filled area between two lines; all values from 0 to 1."""
    points = [*zip(x, high, strict=True), *zip(x[::-1], low[::-1], strict=True)]
    return tag("path", class_=f"area {colour}", d=_path(points) + "Z")


def line(x: Floats, y: Floats, colour: str) -> Markup:
    """Return a line; all values from 0 to 1."""
    return tag("path", class_=f"line {colour}", d=_path(list(zip(x, y, strict=True))))


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{n(SIDE * a)} {n(SIDE * (1 - b))}" for a, b in points)


def n(value: float) -> str:
    """Return a coordinate, short."""
    return f"{value:.1f}".removesuffix(".0")


def percent(part: float) -> str:
    """Return a part of one as a CSS length."""
    return f"{100 * part:.2f}".rstrip("0").rstrip(".") + "%"


def time_ticks(length: float, most: int = 9) -> list[Tick]:
    """Return round moments of a span of *length* seconds, in the unit that suits their distance."""
    size = next((step for step in _TIME_STEPS if length / step <= most), _TIME_STEPS[-1])
    while length / size > most:
        size *= 2
    unit, name = next((u, w) for u, w in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")) if size % u == 0)
    count = int(length / size * (1 + 1e-9))
    return [
        Tick(index * size / length, f"{index * size // unit:,} {name}" if index else "0", minor=index % 2 == 1)
        for index in range(count + 1)
    ]


def value_ticks(most: float, count: int = 4) -> tuple[list[float], float]:
    """Return round values from 0 up to *most*, and the top of the axis, which leaves a little room above it."""
    if most <= 0:
        return [0.0, 1.0], 1.0
    rough = most / count
    power = 10.0 ** math.floor(math.log10(rough))
    size = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))
    top = 1.06 * most
    return [index * size for index in range(int(top / size) + 1)], top


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


_COLUMNS = 144
_ROWS = 48
_NODE_NAME = 12
"""Letters of a name that its column has room for, twice."""
LEVELS = 10
"""Shades, from idle to full."""


def heatmap(run: RunRecord) -> Markup:
    """Return the share in use of each node over time. More than 48 nodes share rows, in the order of their names."""
    resource = timeline.main_resource(run)
    nodes = [node for node in run.nodes if resource != "gpu" or node.gpus]
    if not nodes:
        return tag("p", "The run had no nodes.", class_="note")
    stays: dict[str, list[NodeRecord]] = defaultdict(list)
    for node in nodes:
        stays[node.name].append(node)  # several where it failed and came back
    machines = [times[0] for times in stays.values()]
    groups = _groups(sorted(machines, key=lambda node: (node.gpu_model, node.name)))
    borders = timeline.edges(run, _COLUMNS)
    by_node: dict[str, list[PodRecord]] = defaultdict(list)
    for pod in run.pods:
        by_node[pod.node].append(pod)
    cells = []
    for group in groups:
        pods = [pod for node in group for pod in by_node[node.name]]
        used = timeline.mean_use(pods, resource, borders, run.horizon)
        there = [stay for node in group for stay in stays[node.name]]
        offered = timeline.mean_capacity(there, resource, borders, run.horizon)
        cells.append(np.divide(used, offered, out=np.full_like(used, -1.0), where=offered > 0))
    height = len(groups)
    svg = tag(
        "svg",
        *(tag("path", class_=f"h{level}", d=path) for level, path in _paths(cells) if path),
        viewBox=f"0 0 {_COLUMNS} {height}",
        preserveAspectRatio="none",
        role="img",
        aria_label="Share in use of each node over time",
    )
    names = [_name(group) for group in groups]
    every, cut = max(1, -(-height // 16)), _common(nodes)
    labels = tag(
        "div",
        *(tag("span", _name(group, cut) if row % every == 0 else "") for row, group in enumerate(groups)),
        class_="names",
    )
    moments = [units.duration(float(moment - borders[0])) for moment in borders]
    shown = [[round(100 * float(value)) for value in row] for row in cells]
    return tag(
        "div",
        labels,
        tag("div", svg, tag("div", class_="cell"), class_="canvas"),
        x_axis(time_ticks(float(borders[-1] - borders[0]))),
        data({"rows": names, "moments": moments, "cells": shown}, class_="cells"),
        class_="heatmap",
        style=f"--rows:{height};--row:{_row_height(height)}px",
    )


def scale() -> Markup:
    """Return the legend of the shades."""
    shades = (tag("i", class_=f"h{level}") for level in range(LEVELS))
    return tag("div", tag("span", "idle"), *shades, tag("span", "full"), class_="shades")


def _groups(nodes: Sequence[NodeRecord]) -> list[list[NodeRecord]]:
    size = max(1, -(-len(nodes) // _ROWS))
    return [list(nodes[first : first + size]) for first in range(0, len(nodes), size)]


def _name(group: Sequence[NodeRecord], cut: int = 0) -> str:
    names = [f"…{node.name[cut:]}" if cut else node.name for node in (group[0], group[-1])]
    return names[0] if len(group) == 1 else f"{names[0]} to {names[1]}"


def _common(nodes: Sequence[NodeRecord]) -> int:
    """How much of the beginning of every name can be left out: what all share up to a separator, if names are long."""
    if max(len(node.name) for node in nodes) <= _NODE_NAME:
        return 0
    first, last = min(node.name for node in nodes), max(node.name for node in nodes)
    shared = next((at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), 0)
    return first.rfind("-", 0, shared) + 1


def _row_height(rows: int) -> int:
    return min(22, max(9, 420 // max(rows, 1)))


def _paths(cells: Sequence[timeline.Floats]) -> list[tuple[str, str]]:
    """One path for each shade, with a box for each run of equal cells in a row."""
    boxes: dict[str, list[str]] = defaultdict(list)
    for row, values in enumerate(cells):
        levels = [_level(float(value)) for value in values]
        start = 0
        for column in range(1, len(levels) + 1):
            if column == len(levels) or levels[column] != levels[start]:
                width = column - start
                boxes[levels[start]].append(f"M{start} {row}h{width}v1h-{width}z")
                start = column
    return [(level, "".join(boxes[level])) for level in ("x", *map(str, range(LEVELS)))]


def _level(share: float) -> str:
    """The shade of a share in use; "x" where there was no node."""
    if share < 0:
        return "x"
    return "0" if share < 0.005 else str(min(LEVELS - 1, 1 + int(share * (LEVELS - 1))))


_BUCKETS = 240
_SCALE: Mapping[Resource, tuple[float, str, str]] = {
    "gpu": (1000, "GPUs", "GPU"),
    "cpu": (1000, "CPUs", "CPU"),
    "memory": (1024**4, "TiB", "Memory"),
}


def use_by_queue(run: RunRecord, resource: Resource, colours: Mapping[str, str]) -> Markup:
    """Return the stacked use of *resource* by queue under the line of what the nodes offer, with its legend."""
    scale, unit, _ = _SCALE[resource]
    borders = timeline.edges(run, _BUCKETS)
    capacity = timeline.mean_capacity(run.nodes, resource, borders, run.horizon) / scale
    stacks = _stacks(timeline.use_by_queue(run, resource, borders), colours, scale)
    x = np.linspace(0, 1, _BUCKETS)
    everything = np.sum([used for _, _, used in stacks], axis=0) if stacks else np.zeros(_BUCKETS)
    ticks, top = value_ticks(max(float(capacity.max()), float(everything.max())), count=5)
    shapes, floor = [], np.zeros(_BUCKETS)
    for _, colour, used in stacks:
        shapes.append(area(x, floor / top, (floor + used) / top, colour))
        floor = floor + used
    shapes.append(line(x, capacity / top, "capacity"))
    rows = [(name, colour, [units.number(value) for value in used]) for name, colour, used in reversed(stacks)]
    rows.append(("in use", "", [units.percent(_share_part(a, b)) for a, b in zip(everything, capacity, strict=True)]))
    plot = frame(
        join(shapes),
        height=300,
        label=f"{unit} in use over time, by queue, under the {unit} offered",
        x=time_ticks(float(borders[-1] - borders[0])),
        y=[Tick(value / top, units.number(value)) for value in ticks],
        unit=unit,
        pointer=Pointer(_moments(borders), rows),
    )
    whole = float(everything.sum()) or 1.0
    entries = [(colour, name, units.percent(float(used.sum()) / whole)) for name, colour, used in stacks]
    return tag("div", plot, legend([*entries, ("capacity", "offered by the nodes", "")]))


def use_by_run(runs: Sequence[RunRecord], colours: Sequence[str]) -> Markup:
    """Return the share in use over time, a line for each run."""
    resource = timeline.main_resource(runs[0])
    curves = []
    for run in runs:
        borders = timeline.edges(run, _BUCKETS)
        used = timeline.mean_use(run.pods, resource, borders, run.horizon)
        offered = timeline.mean_capacity(run.nodes, resource, borders, run.horizon)
        curves.append(np.divide(used, offered, out=np.zeros_like(used), where=offered > 0))
    ticks = [Tick(value, units.percent(value).replace(".0", "")) for value in (0, 0.25, 0.5, 0.75, 1)]
    return _lines(runs, colours, curves, 1.0, ticks, units.percent, "Share in use over time, by run", 240)


def waiting_by_run(runs: Sequence[RunRecord], colours: Sequence[str]) -> Markup:
    """Return how many jobs waited over time, a line for each run."""
    curves = [timeline.waiting(run.jobs, _middle(timeline.edges(run, _BUCKETS))) for run in runs]
    values, top = value_ticks(max(float(curve.max()) for curve in curves), count=3)
    ticks = [Tick(value / top, units.number(value)) for value in values]
    return _lines(runs, colours, curves, top, ticks, units.number, "Jobs waiting over time, by run", 150)


def waiting(run: RunRecord) -> Markup:
    """Return how many jobs waited for their first start over time."""
    borders = timeline.edges(run, _BUCKETS)
    curve = timeline.waiting(run.jobs, _middle(borders))
    values, top = value_ticks(float(curve.max()), count=2)
    x = np.linspace(0, 1, _BUCKETS)
    return frame(
        join([area(x, np.zeros(_BUCKETS), curve / top, "soft"), line(x, curve / top, "accent")]),
        height=110,
        label="Jobs waiting for their first start, over time",
        x=time_ticks(float(borders[-1] - borders[0])),
        y=[Tick(value / top, units.number(value)) for value in values],
        pointer=Pointer(_moments(borders), [("jobs waiting", "accent", [units.number(value) for value in curve])]),
    )


def fragmentation(run: RunRecord) -> Markup | None:
    """Return the fragmentation over time; ``None`` for a run without it."""
    known = [(sample.time, sample.fragmentation) for sample in run.samples if sample.fragmentation is not None]
    if not known:
        return None
    borders = timeline.edges(run, _BUCKETS)
    times = np.array([time for time, _ in known])
    latest = np.clip(np.searchsorted(times, _middle(borders), "right") - 1, 0, None)
    curve = np.array([value for _, value in known])[latest]
    x = np.linspace(0, 1, _BUCKETS)
    return frame(
        join([area(x, np.zeros(_BUCKETS), curve, "soft2"), line(x, curve, "accent2")]),
        height=110,
        label="Fragmentation over time",
        x=time_ticks(float(borders[-1] - borders[0])),
        y=[Tick(0, "0 %"), Tick(0.5, "50 %"), Tick(1, "100 %")],
        pointer=Pointer(_moments(borders), [("fragmentation", "accent2", [units.percent(value) for value in curve])]),
    )


def _lines(
    runs: Sequence[RunRecord],
    colours: Sequence[str],
    curves: Sequence[Floats],
    top: float,
    y: Sequence[Tick],
    words: Callable[[float], str],
    label: str,
    height: int,
) -> Markup:
    longest = max(runs, key=lambda run: timeline.span(run)[1] - timeline.span(run)[0])
    borders = timeline.edges(longest, _BUCKETS)
    length = float(borders[-1] - borders[0])
    shapes, rows = [], []
    at = np.linspace(0, 1, _BUCKETS)
    for run, colour, curve in zip(runs, colours, curves, strict=True):
        first, last = timeline.span(run)
        x = at * (last - first) / length
        shapes.append(line(x, curve / top, colour))
        rows.append((run.name, colour, [words(float(value)) for value in np.interp(at, x, curve, right=0.0)]))
    return frame(
        join(shapes), height=height, label=label, x=time_ticks(length), y=y, pointer=Pointer(_moments(borders), rows)
    )


def _stacks(used: Mapping[str, Floats], colours: Mapping[str, str], scale: float) -> list[tuple[str, str, Floats]]:
    """Queues in the order of their colours, those without one of their own as one last layer."""
    own = sorted(
        (name for name in used if colours.get(name, OTHER_CLASS) != OTHER_CLASS), key=lambda name: colours[name]
    )
    stacks = [(name, colours[name], used[name] / scale) for name in own]
    rest = [used[name] / scale for name in sorted(used) if name not in own]
    if rest:
        stacks.append((f"{OTHER} ({len(rest)})", OTHER_CLASS, np.sum(rest, axis=0)))
    return stacks


def _middle(borders: Floats) -> Floats:
    middle: Floats = (borders[:-1] + borders[1:]) / 2
    return middle


def _moments(borders: Floats) -> list[str]:
    return [f"after {units.duration(float(moment - borders[0]))}" for moment in _middle(borders)]


def _share_part(used: float, offered: float) -> float:
    return used / offered if offered else 0.0


_BOUNDS = (1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86_400, 3 * 86_400, 7 * 86_400)
"""Ends of the classes of waits, in seconds; a last class is open."""
_WAIT_MARKS = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 4 * 86_400, 14 * 86_400, 60 * 86_400)
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
    marks = [mark for mark in _WAIT_MARKS if math.log10(mark) <= top]
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
