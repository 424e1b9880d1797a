"""What the terminal shows of runs, as Rich renderables; printing them is the caller's."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pumice.sim.report import units
from pumice.sim.results.comparison import Comparison, MetricRow
from pumice.sim.results.metrics import OF_GROUP, OF_RUN
from pumice.sim.results.summary import Figures, Summary

_STYLES = {"better": "green", "worse": "red", "same": "dim"}
_SIGNS = {"better": "✓", "worse": "✗", "same": "="}
_REASONS = 5


def render_summary(summary: Summary) -> RenderableType:
    """Return the figures of one run: all jobs, by queue, by size, and why jobs wait."""
    parts: list[RenderableType] = [_title(summary), _figures(summary)]
    if len(summary.by_queue) > 1:
        parts.append(_groups("Queue", summary.by_queue))
    if len(summary.by_size) > 1:
        parts.append(_groups("Size", summary.by_size))
    if summary.reasons:
        parts.append(_reasons(summary))
    parts.extend(Text(f"note: {note}", style="yellow") for note in summary.notes)
    return Group(*parts)


def render_comparison(comparison: Comparison) -> RenderableType:
    """Return the runs side by side, each against the first, and the mean waits by queue and size."""
    parts: list[RenderableType] = [_table("", comparison.runs, [(row.label, row) for row in comparison.overall])]
    for title, groups in (("Mean wait by queue", comparison.by_queue), ("Mean wait by size", comparison.by_size)):
        rows = [(group.name, row) for group in groups for row in group.rows if row.key == "wait_mean"]
        if len(rows) > 1:
            parts.append(_table(title, comparison.runs, rows))
    parts.extend(Text(f"note: {note}", style="yellow") for note in comparison.notes)
    return Group(*parts)


def _title(summary: Summary) -> Text:
    total = summary.total
    text = Text(summary.run, style="bold")
    parts = [
        f"{units.number(total.completed)} of {units.number(total.jobs)} jobs done",
        f"{units.number(summary.nodes)} nodes",
    ]
    if summary.gpus:
        parts.append(f"{units.number(summary.gpus)} GPUs")
    parts.append(f"{units.duration(summary.span_s)} simulated")
    text.append("  " + ", ".join(parts), style="dim")
    if summary.partial:
        text.append("  stopped before its end", style="bold yellow")
    return text


def _figures(summary: Summary) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    for metric in OF_GROUP:
        value = metric.of(summary.total)
        if value is not None:
            table.add_row(metric.label, units.amount(value, metric.unit))
    for of_run in OF_RUN:
        value = of_run.of(summary)
        if value is not None:
            table.add_row(of_run.label, units.amount(value, of_run.unit))
    return table


def _groups(kind: str, groups: Sequence[Figures]) -> Table:
    table = Table(title_justify="left", header_style="dim", box=None, pad_edge=False)
    table.add_column(kind)
    for name in ("Jobs", "Pending", "Wait, mean", "95 %", "Slowdown", "GPU-hours", "Evictions", "Lost GPU-h"):
        table.add_column(name, justify="right")
    for figures in groups:
        table.add_row(
            Text(figures.name),
            units.number(figures.jobs),
            units.number(figures.pending),
            units.duration(figures.wait.mean if figures.wait else None),
            units.duration(figures.wait.p95 if figures.wait else None),
            units.number(figures.slowdown.mean if figures.slowdown else None),
            units.number(figures.gpu_hours),
            units.number(figures.evictions),
            units.number(figures.lost_gpu_hours),
        )
    return table


def _reasons(summary: Summary) -> Table:
    table = Table(header_style="dim", box=None, pad_edge=False)
    table.add_column("Pending", justify="right")
    table.add_column("Why")
    table.add_column("Plugin", style="dim")
    for reason in summary.reasons[:_REASONS]:
        table.add_row(units.number(reason.jobs), Text(reason.text), Text(reason.plugin))
    return table


def _table(title: str, runs: Sequence[str], rows: Sequence[tuple[str, MetricRow]]) -> Table:
    """One line per figure: the value of each run and, from the second run on, the step from the first."""
    heading = f"\n{title}" if title else None
    table = Table(title=heading, title_justify="left", header_style="dim", box=None, pad_edge=False)
    table.add_column("")
    for number, name in enumerate(runs):
        table.add_column(Text(name), justify="right")
        if number:
            table.add_column("")
    for label, row in rows:
        cells = [Text(label)]
        for number, (value, change) in enumerate(zip(row.values, row.changes, strict=True)):
            cells.append(Text(units.amount(value, row.unit)))
            if number:
                said = f"{_SIGNS[change.verdict]} {units.step(change, row.unit)}" if change is not None else ""
                cells.append(Text(said, style=_STYLES[change.verdict] if change is not None else ""))
        table.add_row(*cells)
    return table
