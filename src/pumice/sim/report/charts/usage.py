"""Utilisation over time: by queue (stacked), by run (lines); jobs that wait; fragmentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pumice.sim.report import units
from pumice.sim.report.charts.plot import Pointer, Tick, area, frame, legend, line, time_ticks, value_ticks
from pumice.sim.report.markup import Markup, join, tag
from pumice.sim.report.palette import OTHER, OTHER_CLASS
from pumice.sim.results import timeline
from pumice.sim.results.records import RunRecord
from pumice.sim.results.timeline import Floats, Resource

_BUCKETS = 240
_SCALE: Mapping[Resource, tuple[float, str, str]] = {
    "gpu": (1000, "GPUs", "GPU"),
    "cpu": (1000, "CPUs", "CPU"),
    "memory": (1024**4, "TiB", "Memory"),
}


def by_queue(run: RunRecord, resource: Resource, colours: Mapping[str, str]) -> Markup:
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
    rows.append(("in use", "", [units.percent(_part(a, b)) for a, b in zip(everything, capacity, strict=True)]))
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


def by_run(runs: Sequence[RunRecord], colours: Sequence[str]) -> Markup:
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


def _part(used: float, offered: float) -> float:
    return used / offered if offered else 0.0
