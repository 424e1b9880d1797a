"""``compare``: several runs side by side, each measured against the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from pumice.errors import InvalidInput
from pumice.sim.results import sizes
from pumice.sim.results.metrics import OF_GROUP, OF_RUN, Better, Metric, S, Unit
from pumice.sim.results.records import RunRecord
from pumice.sim.results.summary import LeftJob, Summary, summarise

SAME = 1e-9
"""A change of at most this part of the first run's value is rounding."""
_MOVERS = 10
_NAMED = 3


class Change(msgspec.Struct, frozen=True):
    """The difference between a run and the first one. Whether it is more than chance, one run each cannot tell."""

    absolute: float
    relative: float | None
    """As a part of the first run's value; ``None`` where that is 0."""
    comparable: bool = True
    """False where one of both runs left jobs that the other one finished: see ``left_apart``."""


class MetricRow(msgspec.Struct, frozen=True, kw_only=True):
    """One figure in all runs."""

    key: str
    label: str
    unit: Unit
    better: Better
    values: tuple[float | None, ...]
    at_least: tuple[bool, ...]
    """Values that are lower bounds, because jobs were not finished."""
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
    """The reasons why the runs are hard to compare."""
    warnings: tuple[str, ...]
    """Those of the runs, each once; one that not all runs have begins with the name of its run."""


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
            *_rows(OF_GROUP, [summary.total for summary in summaries], [summary.left for summary in summaries]),
            *_rows(OF_RUN, summaries, [summary.left for summary in summaries]),
        ),
        by_queue=tuple(_table(name, summaries, "queue") for name in queues),
        by_size=tuple(_table(name, summaries, "size") for name in sizes.SIZES if name in used),
        movers=tuple(_movers(runs[0], run) for run in runs[1:]),
        notes=tuple(note for note in (*_notes(runs), left_in_words(summaries)) if note),
        warnings=_shared(runs),
    )


def change(before: float | None, after: float | None, against: Sequence[str] = ()) -> Change | None:
    """Return the step from *before* to *after*; ``None`` without both. Jobs *against* it make it incomparable."""
    if before is None or after is None:
        return None
    absolute = after - before
    if abs(absolute) <= SAME * abs(before):
        absolute = 0.0
    return Change(absolute, absolute / abs(before) if before else None, not against)


def left_apart(before: Sequence[LeftJob], after: Sequence[LeftJob]) -> list[str]:
    """Return the jobs that only one of two runs left unfinished. Waits and makespans of such runs are not compared.

    A run that leaves a job spares other jobs the wait for it, so all its figures describe other work.
    """
    return sorted({job.job for job in before} ^ {job.job for job in after})


def _rows(
    metrics: Sequence[Metric[S]], sources: Sequence[S | None], left: Sequence[Sequence[LeftJob]]
) -> tuple[MetricRow, ...]:
    """One row per figure that at least one source has."""
    rows = []
    for metric in metrics:
        values = tuple(None if source is None else metric.of(source) for source in sources)
        if all(value is None for value in values):
            continue
        bounds = tuple(source is not None and metric.at_least(source) for source in sources)
        first = values[0]
        changes: list[Change | None] = [None]
        for value, jobs in zip(values[1:], left[1:], strict=True):
            changes.append(change(first, value, left_apart(left[0], jobs) if metric.open else ()))
        rows.append(
            MetricRow(
                key=metric.key,
                label=metric.label,
                unit=metric.unit,
                better=metric.better,
                values=values,
                at_least=bounds,
                changes=tuple(changes),
            )
        )
    return tuple(rows)


def _table(name: str, summaries: Sequence[Summary], kind: Literal["queue", "size"]) -> MetricTable:
    groups = [summary.by_queue if kind == "queue" else summary.by_size for summary in summaries]
    found = [next((figures for figures in group if figures.name == name), None) for group in groups]
    left = [[job for job in summary.left if getattr(job, kind) == name] for summary in summaries]
    return MetricTable(name, _rows(OF_GROUP, found, left))


def _shared(runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """The warnings of all runs, each once."""
    every = set.intersection(*(set(run.warnings) for run in runs))
    said: dict[str, None] = {}
    for run in runs:
        said.update(dict.fromkeys(text if text in every else f"{run.name}: {text}" for text in run.warnings))
    return tuple(said)


def _movers(base: RunRecord, run: RunRecord) -> Movers:
    before = {
        job.key: (base.horizon if job.start is None else job.start) - job.submit
        for job in base.jobs
        if base.measures(job)
    }
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
    keys = {(job.key, job.submit) for job in base.jobs if base.measures(job)}
    for run in runs[1:]:
        if {(job.key, job.submit) for job in run.jobs if run.measures(job)} != keys:
            notes.append(f"{run.name} played other jobs than {base.name}")
        if run.nodes != base.nodes:
            notes.append(f"{run.name} ran on other nodes than {base.name}")
        if run.seed != base.seed:
            notes.append(f"{run.name} used seed {run.seed}, {base.name} seed {base.seed}")
        if run.version != base.version:
            notes.append(f"{run.name} was made by version {run.version}, {base.name} by {base.version}")
    notes += [f"{run.name} was stopped before its end" for run in runs if run.partial]
    return tuple(notes)


def left_in_words(summaries: Sequence[Summary]) -> str:
    """Return the unfinished jobs by run, in one sentence; empty if all jobs finished."""
    said = []
    for summary in summaries:
        if not summary.left:
            continue
        never = [job.job for job in summary.left if not job.started]
        names = f": {', '.join(never[:_NAMED])}{', …' if len(never) > _NAMED else ''}" if never else ""
        began = f" ({len(never):,} never started{names})" if never else ""
        said.append(f"{len(summary.left):,} of {summary.total.jobs:,} jobs of {summary.run}{began}")
    if not said:
        return ""
    return f"not finished: {'; '.join(said)}. They count until the end of the run, and such figures are marked ≥"
