"""``compare_seeds``: configurations side by side over many seeds, pair by pair, each against the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import msgspec

from pumice.errors import InvalidInput
from pumice.sim.results import sizes
from pumice.sim.results.comparison import left_apart
from pumice.sim.results.intervals import (
    ALPHA,
    SURE,
    Effect,
    Interval,
    Scale,
    adjusted,
    effect,
    mean_interval,
    median_interval,
    without_limits,
)
from pumice.sim.results.metrics import METRICS, OF_GROUP, Better, Metric, S, Unit
from pumice.sim.results.records import BLOCKS, SEED
from pumice.sim.results.summary import Figures, LeftJob, Summary

_NAMED = 3
_DRIVES = 0.5
"""A cause of at least this part of a difference is called its driver."""
PRIMARY = "wait.mean"
"""The figure that a study is judged by if no other one was declared before it was played."""


class SeedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of all configurations over all seeds."""

    key: str
    label: str
    unit: Unit
    better: Better
    values: tuple[Interval | None, ...]
    """The arithmetic mean over the seeds of each configuration."""
    medians: tuple[Interval | None, ...]
    """The typical seed of each configuration: the median, with its exact interval."""
    at_least: tuple[bool, ...]
    """Values that are lower bounds, because jobs were not finished in at least one run."""
    by_seed: tuple[tuple[float | None, ...], ...]
    """The value of each seed, by configuration."""
    effects: tuple[Effect | None, ...]
    """Against the first configuration; ``None`` for itself, and where too few runs have a value."""


class SeedTable(msgspec.Struct, frozen=True):
    """The figures of one queue or one size class."""

    name: str
    rows: tuple[SeedRow, ...]


class Driver(msgspec.Struct, frozen=True):
    """The causes of the difference in mean wait."""

    configuration: str
    kind: Literal["seed", "queue", "size"]
    name: str
    part: float
    """The part of the whole difference, 1 for all of it; it can be more if others go the other way."""


class SeedComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Configurations over the seeds that all of them have been played on."""

    configurations: tuple[str, ...]
    seeds: tuple[int, ...]
    overall: tuple[SeedRow, ...]
    by_queue: tuple[SeedTable, ...]
    by_size: tuple[SeedTable, ...]
    drivers: tuple[Driver, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    primary: str = PRIMARY
    """The figure that was declared to judge by. Verdicts about all others are exploratory."""
    alike: bool = False
    """Every seed gave the same run, as nothing is drawn: its figures are exact, and chance plays no part."""
    each: str = SEED
    """The common property of a pair of runs: a ``seed``, a ``seed of this trace``, or a ``part of 7 d`` of a trace."""

    def row(self, key: str) -> SeedRow:
        """Return the row of a figure.

        :raises InvalidInput: there is none.
        """
        found = next((row for row in self.overall if row.key == key), None)
        if found is None:
            raise InvalidInput(
                f"figure {key!r}: no run has a value; there are {', '.join(r.key for r in self.overall)}"
            )
        return found


def compare_seeds(
    played: Mapping[str, Mapping[int, Summary]], *, primary: str = PRIMARY, alpha: float = ALPHA
) -> SeedComparison:
    """Return what differs between configurations, from the summaries of their runs by seed.

    Only seeds that every configuration has count, in their order. *primary* is the figure to judge by, and *alpha* the
    error of its intervals, less than that of the others where it was looked at more than once. Runs of one trace whose
    parts are drawn anew are no independent evidence, so nothing about them has an interval or a verdict.

    :raises InvalidInput: no configuration, no seed that all have, or seeds among parts of a trace.
    """
    names = tuple(played)
    seeds, runs, alike = _paired(played)
    each = unit_of(run for part in runs for run in part)
    queues = sorted({figures.name for part in runs for run in part for figures in run.by_queue})
    used = {figures.name for part in runs for run in part for figures in run.by_size}
    rows = _rows(list(METRICS.values()), runs, _left(runs), seeds, {primary: alpha}, each)
    overall = _judged_together(rows, primary)
    return SeedComparison(
        configurations=names,
        seeds=seeds,
        overall=overall,
        by_queue=tuple(_table(name, runs, "queue", seeds, each) for name in queues),
        by_size=tuple(_table(name, runs, "size", seeds, each) for name in sizes.SIZES if name in used),
        drivers=tuple(driver for at in range(1, len(names)) for driver in _drivers(names[at], at, runs, seeds)),
        warnings=_warnings(names, runs),
        notes=_notes(names, runs, alike),
        primary=primary,
        alike=alike,
        each=each,
    )


def unit_of(runs: Iterable[Summary]) -> str:
    """Return what the runs are: seeds of one kind, or parts of a trace.

    :raises InvalidInput: they are of several kinds.
    """
    units = sorted({run.unit for run in runs})
    if len(units) > 1:
        raise InvalidInput(f"runs: cannot be compared, as some are of a {', others of a '.join(units)}")
    return units[0]


def seed_row(
    played: Mapping[str, Mapping[int, Summary]], metric: Metric[Summary], alpha: float = ALPHA
) -> SeedRow | None:
    """Return one figure of `compare_seeds`, without the work for all the others; ``None`` if no run has a value.

    :raises InvalidInput: as of `compare_seeds`.
    """
    seeds, runs, _ = _paired(played)
    each = unit_of(run for part in runs for run in part)
    return next(iter(_rows([metric], runs, _left(runs), seeds, {metric.key: alpha}, each)), None)


def _paired(played: Mapping[str, Mapping[int, Summary]]) -> tuple[tuple[int, ...], list[list[Summary]], bool]:
    """The seeds that all have, the runs of each configuration on them, and whether all of these are one."""
    if not played:
        raise InvalidInput("runs: at least one is needed to compare")
    seeds = tuple(sorted(set.intersection(*(set(runs) for runs in played.values()))))
    if not seeds:
        raise InvalidInput(f"runs: no seed was played to its end under all of {', '.join(played)}")
    runs = [[of[seed] for seed in seeds] for of in played.values()]
    if len(seeds) > 1 and all(
        msgspec.structs.replace(run, seed=part[0].seed) == part[0] for part in runs for run in part
    ):
        return seeds[:1], [part[:1] for part in runs], True  # one run, again and again: repetitions are no evidence
    return seeds, runs, False


def _left(
    runs: Sequence[Sequence[Summary]], keep: Callable[[LeftJob], bool] = lambda job: True
) -> list[list[list[LeftJob]]]:
    return [[[job for job in run.left if keep(job)] for run in part] for part in runs]


def _rows(
    metrics: Sequence[Metric[S]],
    sources: Sequence[Sequence[S | None]],
    left: Sequence[Sequence[Sequence[LeftJob]]],
    seeds: Sequence[int],
    alphas: Mapping[str, float] = MappingProxyType({}),
    each: str = SEED,
) -> tuple[SeedRow, ...]:
    rows = []
    for metric in metrics:
        values = tuple(tuple(None if s is None else metric.of(s) for s in part) for part in sources)
        if all(value is None for part in values for value in part):
            continue
        alpha = alphas.get(metric.key, ALPHA)
        known = [[value for value in part if value is not None] for part in values]
        effects: list[Effect | None] = [None]
        for at in range(1, len(values)):
            found = _effect(metric, (sources[0], sources[at]), (left[0], left[at]), seeds, alpha)
            effects.append(without_limits(found) if found is not None and each == BLOCKS else found)
        rows.append(
            SeedRow(
                key=metric.key,
                label=metric.label,
                unit=metric.unit,
                better=metric.better,
                values=tuple(_limited(mean_interval(part, alpha), each) if part else None for part in known),
                medians=tuple(_limited(median_interval(part), each) if part else None for part in known),
                at_least=tuple(any(s is not None and metric.at_least(s) for s in part) for part in sources),
                by_seed=values,
                effects=tuple(effects),
            )
        )
    return tuple(rows)


def _limited(found: Interval, each: str) -> Interval:
    return Interval(found.estimate) if each == BLOCKS else found


def _effect(
    metric: Metric[S],
    sources: tuple[Sequence[S | None], Sequence[S | None]],
    left: tuple[Sequence[Sequence[LeftJob]], Sequence[Sequence[LeftJob]]],
    seeds: Sequence[int],
    alpha: float,
) -> Effect | None:
    """The effect over the seeds that both have a value for; none is judged where they did not leave the same jobs."""
    first: list[float] = []
    second: list[float] = []
    against: list[str] = []
    for at, (before, after) in enumerate(zip(*sources, strict=True)):
        if before is None or after is None:
            continue
        a, b = metric.of(before), metric.of(after)
        if a is None or b is None:
            continue
        first.append(a)
        second.append(b)
        jobs = left_apart(left[0][at], left[1][at]) if metric.open else []
        if jobs:
            against.append(f"seed {seeds[at]}: {', '.join(jobs[:_NAMED])}{', …' if len(jobs) > _NAMED else ''}")
    if not first:
        return None
    scale: Scale = "ratio" if metric.as_ratio else "difference"
    return effect(first, second, scale=scale, lower_is_better=metric.better == "lower", against=against, alpha=alpha)


def _judged_together(rows: tuple[SeedRow, ...], primary: str) -> tuple[SeedRow, ...]:
    """The rows, with those exploratory verdicts marked that may well be chance among so many (Benjamini-Hochberg)."""
    listed = [
        (at, column, found)
        for at, row in enumerate(rows)
        for column, found in enumerate(row.effects)
        if found is not None and row.key != primary and found.differ and not found.against
    ]
    effects = [list(row.effects) for row in rows]
    for (at, column, found), p in zip(listed, adjusted([found.p_value for *_, found in listed]), strict=True):
        if found.verdict in SURE and p > ALPHA:
            effects[at][column] = msgspec.structs.replace(found, alone=True)
    return tuple(msgspec.structs.replace(row, effects=tuple(judged)) for row, judged in zip(rows, effects, strict=True))


def _table(
    name: str, runs: Sequence[Sequence[Summary]], kind: Literal["queue", "size"], seeds: Sequence[int], each: str
) -> SeedTable:
    def of(run: Summary) -> Figures | None:
        groups = run.by_queue if kind == "queue" else run.by_size
        return next((figures for figures in groups if figures.name == name), None)

    left = _left(runs, lambda job: getattr(job, kind) == name)
    return SeedTable(name, _rows(OF_GROUP, [[of(run) for run in part] for part in runs], left, seeds, each=each))


# -- where a difference comes from ----------------------------------------------------------------------------------
def _drivers(configuration: str, at: int, runs: Sequence[Sequence[Summary]], seeds: Sequence[int]) -> list[Driver]:
    """The queue, the size class and the seed that make up most of the difference in time waited, where one does."""
    base, other = runs[0], runs[at]
    by_seed = {str(seed): _waited(b.total) - _waited(a.total) for a, b, seed in zip(base, other, seeds, strict=True)}
    whole = sum(by_seed.values())
    if not whole:
        return []
    kinds: list[tuple[Literal["seed", "queue", "size"], dict[str, float]]] = [
        ("queue", _by_group(base, other, lambda run: run.by_queue)),
        ("size", _by_group(base, other, lambda run: run.by_size)),
    ]
    if len(seeds) > 2:
        kinds.append(("seed", by_seed))
    found = []
    for kind, parts in kinds:
        name = max(parts, key=lambda part: (parts[part] / whole, part), default=None)
        if name is not None and len(parts) > 1 and parts[name] / whole >= _DRIVES:
            found.append(Driver(configuration, kind, name, parts[name] / whole))
    return found


def _by_group(
    base: Sequence[Summary], other: Sequence[Summary], groups: Callable[[Summary], Sequence[Figures]]
) -> dict[str, float]:
    parts: dict[str, float] = {}
    for sign, part in ((-1, base), (1, other)):
        for run in part:
            for figures in groups(run):
                parts[figures.name] = parts.get(figures.name, 0.0) + sign * _waited(figures)
    return parts


def _waited(figures: Figures) -> float:
    return figures.wait.mean * figures.wait.count if figures.wait else 0.0


# -- what is good to know --------------------------------------------------------------------------------------------
def _warnings(names: Sequence[str], runs: Sequence[Sequence[Summary]]) -> tuple[str, ...]:
    """The warnings of all runs, each once; one that not all configurations have begins with the name of its own."""
    said = [dict.fromkeys(text for run in part for text in run.warnings) for part in runs]
    every = set.intersection(*(set(texts) for texts in said))
    listed: dict[str, None] = {}
    for name, texts in zip(names, said, strict=True):
        listed.update(dict.fromkeys(text if text in every else f"{name}: {text}" for text in texts))
    return tuple(listed)


def _notes(names: Sequence[str], runs: Sequence[Sequence[Summary]], alike: bool) -> tuple[str, ...]:
    notes = list(dict.fromkeys(text for part in runs for run in part for text in run.notes))
    left = []
    for name, part in zip(names, runs, strict=True):
        jobs = sum(len(run.left) for run in part)
        never = sum(not job.started for run in part for job in run.left)
        if jobs:
            began = f", {never:,} never started" if never else ""
            left.append(f"{jobs:,} of {sum(run.total.jobs for run in part):,} jobs of {name}{began}")
    if left:
        text = "; ".join(left)
        notes.append(f"not finished: {text}. They count until the end of the run, and such figures are marked ≥")
    if alike:
        notes.append("every seed gave the same run: nothing here is drawn, so nothing can be said about chance")
    return tuple(notes)
