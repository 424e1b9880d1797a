"""``compare``: several runs side by side, each measured against the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from pumice.errors import InvalidInput
from pumice.sim.results import sizes
from pumice.sim.results.metrics import OF_GROUP, OF_RUN, Better, Metric, S, Unit
from pumice.sim.results.records import RunRecord
from pumice.sim.results.summary import Figures, Summary, summarise

Verdict = Literal["better", "worse", "same"]
SAME = 0.001
"""A change of at most this part of the first run's value is no change."""
_MOVERS = 10


class Change(msgspec.Struct, frozen=True):
    """The difference between a run and the first one."""

    absolute: float
    relative: float | None
    """As a part of the first run's value; ``None`` where that is 0."""
    verdict: Verdict


class MetricRow(msgspec.Struct, frozen=True, kw_only=True):
    """One figure in all runs."""

    key: str
    label: str
    unit: Unit
    better: Better
    values: tuple[float | None, ...]
    changes: tuple[Change | None, ...]
    """Against the first run; ``None`` for itself, and where one of both has no value."""


class MetricTable(msgspec.Struct, frozen=True):
    """The figures of one queue or one size class in all runs."""

    name: str
    rows: tuple[MetricRow, ...]


class Mover(msgspec.Struct, frozen=True):
    """A job that waited longer or shorter than in the first run; without a start, it waited to the end of the run."""

    job: str
    queue: str
    gpus: float
    before_s: float
    after_s: float


class Movers(msgspec.Struct, frozen=True, kw_only=True):
    """How the waits of the jobs that both runs have differ from the first run."""

    run: str
    shorter: int
    longer: int
    same: int
    most_shortened: tuple[Mover, ...]
    most_lengthened: tuple[Mover, ...]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Runs side by side, in the order given."""

    runs: tuple[str, ...]
    summaries: tuple[Summary, ...]
    overall: tuple[MetricRow, ...]
    by_queue: tuple[MetricTable, ...]
    by_size: tuple[MetricTable, ...]
    movers: tuple[Movers, ...]
    """One for each run but the first."""
    notes: tuple[str, ...]
    """What makes the runs hard to compare."""


def compare(runs: Sequence[RunRecord]) -> Comparison:
    """Return what differs between *runs*, measured against the first.

    :raises InvalidInput: no run, or two of one name.
    """
    names = tuple(run.name for run in runs)
    if not runs:
        raise InvalidInput("runs: at least one is needed to compare")
    if len(set(names)) != len(names):
        raise InvalidInput(f"runs: every run must have a name of its own, got {', '.join(names)}")
    summaries = tuple(summarise(run) for run in runs)
    queues = sorted({figures.name for summary in summaries for figures in summary.by_queue})
    used = {figures.name for summary in summaries for figures in summary.by_size}
    return Comparison(
        runs=names,
        summaries=summaries,
        overall=(
            *_rows(OF_GROUP, [summary.total for summary in summaries]),
            *_rows(OF_RUN, summaries),
        ),
        by_queue=tuple(_table(name, [summary.by_queue for summary in summaries]) for name in queues),
        by_size=tuple(_table(name, [summary.by_size for summary in summaries]) for name in sizes.SIZES if name in used),
        movers=tuple(_movers(runs[0], run) for run in runs[1:]),
        notes=_notes(runs),
    )


def change(before: float | None, after: float | None, better: Better) -> Change | None:
    """Return the step from *before* to *after* and whether it is for the better; ``None`` without both."""
    if before is None or after is None:
        return None
    absolute = after - before
    relative = absolute / abs(before) if before else None
    if absolute == 0 or abs(absolute) <= SAME * abs(before):
        return Change(absolute, relative, "same")
    return Change(absolute, relative, "better" if (absolute < 0) == (better == "lower") else "worse")


def _rows(metrics: Sequence[Metric[S]], sources: Sequence[S | None]) -> tuple[MetricRow, ...]:
    """One row per figure that at least one source has."""
    rows = []
    for metric in metrics:
        values = tuple(None if source is None else metric.of(source) for source in sources)
        if all(value is None for value in values):
            continue
        changes = (None, *(change(values[0], value, metric.better) for value in values[1:]))
        rows.append(
            MetricRow(
                key=metric.key,
                label=metric.label,
                unit=metric.unit,
                better=metric.better,
                values=values,
                changes=changes,
            )
        )
    return tuple(rows)


def _table(name: str, groups: Sequence[tuple[Figures, ...]]) -> MetricTable:
    found = [next((figures for figures in group if figures.name == name), None) for group in groups]
    return MetricTable(name, _rows(OF_GROUP, found))


def _movers(base: RunRecord, run: RunRecord) -> Movers:
    before = {job.key: (base.horizon if job.start is None else job.start) - job.submit for job in base.jobs}
    moved: list[Mover] = []
    same = 0
    for job in run.jobs:
        if job.key in before:
            wait = (run.horizon if job.start is None else job.start) - job.submit
            if wait == before[job.key]:
                same += 1
            else:
                moved.append(Mover(job.key, job.queue, job.gpus, before[job.key], wait))
    ranked = sorted(moved, key=lambda mover: (mover.after_s - mover.before_s, mover.job))
    shorter = [mover for mover in ranked if mover.after_s < mover.before_s]
    longer = [mover for mover in reversed(ranked) if mover.after_s > mover.before_s]
    return Movers(
        run=run.name,
        shorter=len(shorter),
        longer=len(longer),
        same=same,
        most_shortened=tuple(shorter[:_MOVERS]),
        most_lengthened=tuple(longer[:_MOVERS]),
    )


def _notes(runs: Sequence[RunRecord]) -> tuple[str, ...]:
    base, notes = runs[0], []
    keys = {(job.key, job.submit) for job in base.jobs}
    for run in runs[1:]:
        if {(job.key, job.submit) for job in run.jobs} != keys:
            notes.append(f"{run.name} played other jobs than {base.name}")
        if run.nodes != base.nodes:
            notes.append(f"{run.name} ran on other nodes than {base.name}")
        if run.seed != base.seed:
            notes.append(f"{run.name} used seed {run.seed}, {base.name} seed {base.seed}")
        if run.version != base.version:
            notes.append(f"{run.name} was made by version {run.version}, {base.name} by {base.version}")
    for run in runs:
        if run.partial:
            notes.append(f"{run.name} was stopped before its end")
        never = sum(job.start is None for job in run.jobs)
        undone = sum(job.end is None for job in run.jobs)
        if undone:
            started = f", {never:,} of them never began" if never else ""
            notes.append(
                f"{undone:,} of {len(run.jobs):,} jobs of {run.name} were not done at its end{started}; its waits, "
                "completion times and makespan are those of the others"
            )
    return tuple(notes)
