"""The runs and jobs of a study as tables: dicts of NumPy columns, for pandas, CSV and Parquet."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pumice.errors import InvalidInput, MissingExtra
from pumice.notebook import html_table
from pumice.sim.results import sizes
from pumice.sim.results.metrics import METRICS
from pumice.sim.results.records import RunRecord
from pumice.sim.results.seeds import SeedComparison
from pumice.sim.results.summary import Summary

Column = npt.NDArray[Any]
SHOWN = 20
"""Rows of a table that are printed."""


class ColumnTable(dict[str, Column]):
    """Columns of equal length, by name. Numbers that are missing are NaN.

    ``polars.DataFrame(table)`` and ``pyarrow.table(table)`` take it as it is.
    """

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.values()), ()))

    def where(self, **equal: object) -> ColumnTable:
        """Return the rows in which every named column has that value.

        :raises InvalidInput: there is no such column.
        """
        chosen = np.ones(self.rows, bool)
        for name, value in equal.items():
            if name not in self:
                raise InvalidInput(f"column {name!r}: there are {', '.join(self)}")
            chosen &= self[name] == value
        return ColumnTable({name: column[chosen] for name, column in self.items()})

    def to_csv(self, path: Path | str) -> None:
        """Write the table as CSV with a header; what is missing is left empty."""
        with Path(path).open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(self)
            for row in zip(*(column.tolist() for column in self.values()), strict=True):
                writer.writerow(["" if isinstance(cell, float) and math.isnan(cell) else cell for cell in row])

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` (the extra ``tables``)."""
        return _module("pandas").DataFrame(dict(self))

    def to_parquet(self, path: Path | str) -> None:
        """Write the table as Parquet, with pyarrow (the extra ``tables``)."""
        arrow = _module("pyarrow")
        _module("pyarrow.parquet").write_table(arrow.table(dict(self)), str(path))

    def _lines(self) -> list[list[str]]:
        return [[_cell(column[at]) for column in self.values()] for at in range(min(self.rows, SHOWN))]

    def _repr_html_(self) -> str:
        more = [f"{self.rows:,} rows"] if self.rows > SHOWN else []
        return html_table(list(self), self._lines(), notes=more)

    def __str__(self) -> str:
        lines = [list(self), *self._lines()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)
        return text if self.rows <= SHOWN else f"{text}\n… {self.rows:,} rows"


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtra("a DataFrame or Parquet file", name.partition(".")[0], "tables") from None


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def table(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> ColumnTable:
    """Return the table of these rows; a number that is None becomes NaN."""
    listed = list(rows)
    made = ColumnTable()
    for name in names:
        values = [row[name] for row in listed]
        if any(value is None for value in values):
            values = [math.nan if value is None else value for value in values]
        made[name] = np.array(values) if values else np.empty(0)
    return made


def runs_table(summaries: Iterable[Summary]) -> ColumnTable:
    """Return one row for each run: configuration, seed, every figure by its name, and whether it is a lower bound."""
    open_ = [key for key, metric in METRICS.items() if metric.open and metric.as_ratio]
    fixed = ("configuration", "seed", "conf_digest", "version", "jobs", "span")
    names = [*fixed, *METRICS, *(f"{key}.at_least" for key in open_)]
    rows = [
        {
            "configuration": run.run,
            "seed": run.seed,
            "conf_digest": run.conf_digest,
            "version": run.version,
            "jobs": run.total.jobs,
            "span": run.span_s,
            **{key: metric.of(run) for key, metric in METRICS.items()},
            **{f"{key}.at_least": METRICS[key].at_least(run) for key in open_},
        }
        for run in summaries
    ]
    return table(rows, names)


_JOB_COLUMNS = (
    *("configuration", "seed", "job", "queue", "user", "size", "priority", "submit", "start", "end", "duration"),
    *("wait", "wait.at_least", "gpus", "cpus", "memory", "pods", "outcome", "measured"),
)


def jobs_table(records: Iterable[RunRecord]) -> ColumnTable:
    """Return one row for each job of each run. Times are seconds; a wait that never ended is its lower bound."""
    rows: list[dict[str, Any]] = []
    for run in records:
        size_of = sizes.classes(run.jobs)
        for job in run.jobs:
            over = run.horizon if job.end is None else job.end
            rows.append(
                {
                    "configuration": run.name,
                    "seed": run.seed,
                    "job": job.key,
                    "queue": job.queue,
                    "user": job.user,
                    "size": size_of[job.key],
                    "priority": job.priority,
                    "submit": job.submit,
                    "start": job.start,
                    "end": job.end,
                    "duration": job.duration,
                    "wait": None if job.stood else (over if job.start is None else job.start) - job.submit,
                    "wait.at_least": job.start is None,
                    "gpus": job.gpus,
                    "cpus": job.cpus,
                    "memory": job.memory_bytes,
                    "pods": job.pods,
                    "outcome": job.outcome,
                    "measured": run.measures(job),
                }
            )
    return table(rows, _JOB_COLUMNS)


def effects_table(comparison: SeedComparison, keys: Iterable[str]) -> ColumnTable:
    """Return what each configuration changes about figures: the change, its interval, seeds won, the verdict."""
    rows: list[dict[str, Any]] = []
    for key in keys:
        row = comparison.row(key)
        for name, value, effect in zip(comparison.configurations, row.values, row.effects, strict=True):
            rows.append(
                {
                    "figure": key,
                    "configuration": name,
                    "value": None if value is None else value.estimate,
                    "scale": "" if effect is None else effect.scale,
                    "change": None if effect is None else effect.change.estimate,
                    "low": None if effect is None else effect.change.low,
                    "high": None if effect is None else effect.change.high,
                    "better_on": 0 if effect is None else effect.better,
                    "pairs": 0 if effect is None else effect.pairs,
                    "verdict": "" if effect is None else effect.verdict,
                }
            )
    names = ("figure", "configuration", "value", "scale", "change", "low", "high", "better_on", "pairs", "verdict")
    return table(rows, names)
