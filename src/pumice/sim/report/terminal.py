"""The terminal view of runs, as Rich renderables; the caller prints them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pumice.sim.report import units
from pumice.sim.results.comparison import Comparison, MetricRow, left_in_words
from pumice.sim.results.metrics import METRICS
from pumice.sim.results.summary import Figures, Summary

_REASONS = 5
NO_VERDICT = "One run of each cannot tell a change from chance; --seeds 1..30 can."
_LABELS = max(len(metric.label) for metric in METRICS.values())
_VALUES = len("59 min 59 s")
"""Widths that let the columns of tables which follow each other stand below each other."""
_FIRST_OF_PART = frozenset({"wait.mean", "completed", "makespan"})
"""Figures before which a line is left free: those of waiting, of jobs and of the cluster stand apart."""


def render_summary(summary: Summary) -> RenderableType:
    """Return the figures of one run: all jobs, by queue, by size, and why jobs wait."""
    parts: list[RenderableType] = [_title(summary), _figures(summary)]
    if len(summary.by_queue) > 1:
        parts.append(_groups("By queue", summary.by_queue))
    if len(summary.by_size) > 1:
        parts.append(_groups("By size", summary.by_size))
    if summary.reasons:
        parts.append(_reasons(summary))
    return Group(*parts, *_notes([*summary.notes, *filter(None, [left_in_words([summary])])]))


def render_comparison(comparison: Comparison) -> RenderableType:
    """Return the runs side by side, each against the first, and the mean waits by queue and size."""
    parts: list[RenderableType] = [_table("", comparison.runs, [(row.label, row) for row in comparison.overall])]
    for title, groups in (("Mean wait by queue", comparison.by_queue), ("Mean wait by size", comparison.by_size)):
        rows = [(group.name, row) for group in groups for row in group.rows if row.key == "wait.mean"]
        if len(rows) > 1:
            parts.append(_table(title, comparison.runs, rows))
    parts += [Text(), Text(NO_VERDICT, style="dim")] if len(comparison.runs) > 1 else []
    return Group(*parts, *_notes(comparison.notes))


def _notes(notes: Sequence[str]) -> list[RenderableType]:
    return [Text(), *(Text(f"note: {note}", style="yellow") for note in notes)] if notes else []


def _title(summary: Summary) -> Text:
    total = summary.total
    text = Text.assemble((summary.run, "bold"))
    parts = [
        f"{units.number(total.completed)} of {units.number(total.jobs)} jobs done",
        *([f"{units.number(total.endless)} run without an end"] if total.endless else []),
        units.machines(summary),
        f"{units.duration(summary.span_s)} simulated",
    ]
    text.append("  " + ", ".join(parts), style="dim")
    if summary.partial:
        text.append("  partial", style="bold yellow")
    return text


def _figures(summary: Summary) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    for metric in METRICS.values():
        value = metric.of(summary)
        if metric.key in _FIRST_OF_PART:
            table.add_row()
        if value is not None:
            table.add_row(metric.label, units.amount(value, metric.unit, at_least=metric.at_least(summary)))
        if metric.key == "unfinished" and summary.total.endless:
            table.add_row("Jobs without an end", units.number(summary.total.endless))
    return table


_COLUMNS: tuple[tuple[str, Callable[[Figures], float | None], Callable[[Figures], str]], ...] = (
    ("Jobs", lambda figures: figures.jobs, lambda figures: units.number(figures.jobs)),
    ("Unfinished", lambda figures: figures.unfinished, lambda figures: units.number(figures.unfinished)),
    ("Wait, mean", lambda figures: 1, lambda figures: units.of_spread(figures.wait, "mean")),
    ("95 %", lambda figures: 1, lambda figures: units.of_spread(figures.wait, "p95")),
    ("Slowdown", lambda figures: 1, lambda figures: units.of_spread(figures.slowdown, "mean", "ratio")),
    ("GPU-h", lambda figures: figures.gpu_hours, lambda figures: units.number(figures.gpu_hours)),
    ("Lost", lambda figures: figures.lost_gpu_hours, lambda figures: units.number(figures.lost_gpu_hours)),
    ("Evicted", lambda figures: figures.evictions, lambda figures: units.number(figures.evictions)),
)
"""Name, the amount that decides whether the column is worth its place, and the words."""

_RARE = frozenset({"Unfinished", "GPU-h", "Lost", "Evicted"})
"""Columns that are left out where nothing stands in them but zeros, so that eighty columns are enough."""


def _groups(title: str, groups: Sequence[Figures]) -> Table:
    """One line per group."""
    table = _titled(title)
    table.add_column("", no_wrap=True)
    shown = [column for column in _COLUMNS if column[0] not in _RARE or any(column[1](one) for one in groups)]
    if len(shown) == len(_COLUMNS):
        shown = [column for column in shown if column[0] != "Slowdown"]
    for name, _, _ in shown:
        table.add_column(name, justify="right", no_wrap=True)
    for figures in groups:
        table.add_row(Text(figures.name), *(worded(figures) for _, _, worded in shown))
    return table


def _titled(title: str) -> Table:
    heading = Text(f"\n{title}", style="bold") if title else None
    return Table(title=heading, title_justify="left", title_style="", header_style="dim", box=None, pad_edge=False)


def _reasons(summary: Summary) -> Table:
    table = _titled("Why jobs wait")
    table.add_column("Jobs", justify="right")
    table.add_column("Reason")
    table.add_column("From", style="dim")
    for reason in summary.reasons[:_REASONS]:
        table.add_row(units.number(reason.jobs), Text(reason.text), Text(reason.plugin))
    return table


def _table(title: str, runs: Sequence[str], rows: Sequence[tuple[str, MetricRow]]) -> Table:
    """One line per figure: the value of each run and, from the second run on, the step from the first."""
    table = _titled(title)
    table.add_column("", min_width=_LABELS)
    for number, name in enumerate(runs):
        table.add_column(Text(name), justify="right", min_width=_VALUES)
        if number:
            table.add_column("")
    for label, row in rows:
        if not title and row.key in _FIRST_OF_PART:
            table.add_row()
        cells = [Text(label)]
        shown = zip(row.values, row.at_least, units.steps(row.changes, row.unit), strict=True)
        for number, (value, bound, step) in enumerate(shown):
            cells.append(Text(units.amount(value, row.unit, at_least=bound)))
            if number:
                cells.append(Text(step, style="dim"))
        table.add_row(*cells)
    return table
