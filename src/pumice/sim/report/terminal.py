"""The terminal view of runs, as Rich renderables; the caller prints them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from pumice.sim.report import effects, units
from pumice.sim.results.comparison import Comparison, MetricRow, left_in_words
from pumice.sim.results.metrics import METRICS
from pumice.sim.results.seeds import SeedComparison, SeedRow
from pumice.sim.results.summary import Figures, Summary
from pumice.words import counted

_STYLES = {"better": "green", "worse": "red", "no difference seen": "dim"}
_FIRST_OVER_SEEDS = frozenset({"completed", "makespan"})
_OVERVIEW = ("unfinished", "wait.mean", "wait.p95", "jct.mean", "evictions", "utilisation.gpu", "utilisation.cpu")
"""Figures that many configurations are shown by; the report and the JSON output have all."""
SHORT = 6
"""Rows of a table that a first look takes in."""
_SHORT = frozenset({"unfinished", "wait.mean", "wait.p95", "jct.mean", "utilisation.gpu", "fragmentation"})
WIDE = 130
"""Columns that the whole table needs. Below that the first configuration's values, which the change tells, give way."""


def render_seeds(comparison: SeedComparison, *, whole: bool = False) -> RenderableType:
    """Return each configuration against the first over all seeds; a single one with its own intervals.

    A comparison of two configurations shows six figures, or the *whole*.
    """
    return _Seeds(comparison, whole)


class _Seeds:
    """The tables of a comparison, laid out for the terminal that they are printed to."""

    def __init__(self, comparison: SeedComparison, whole: bool) -> None:
        self._comparison, self._whole = comparison, whole

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        comparison, wide = self._comparison, options.max_width >= WIDE
        rows = [(row.label, row) for row in comparison.overall if effects.says_something(row)]
        names = comparison.configurations
        if len(names) > 1:
            yield Text(effects.sentence(comparison), style="bold")
            yield Text()
        if len(names) == 1:
            yield _alone(names[0], rows)
        if len(names) > 2:
            keys = [comparison.primary, *(key for key in _OVERVIEW if key != comparison.primary)]
            many = _means_of(comparison)
            yield from (_by_configuration(row, names, many, wide) for key in keys for _, row in rows if row.key == key)
        else:
            yield from self._of_two(rows, wide)
        yield Text()
        if len(names) > 1:
            signs = "" if wide else f"{', '.join(f'{sign} {word}' for word, sign in effects.SIGNS.items())}. "
            yield Text(signs + effects.how_to_read(comparison), style="dim")
        for text in [*effects.remarks(comparison), *comparison.notes]:
            yield Text(f"note: {text}", style="yellow")

    def _of_two(self, rows: Sequence[tuple[str, SeedRow]], wide: bool) -> RenderResult:
        """All figures of two configurations, and their waits by queue and by size."""
        comparison, names = self._comparison, self._comparison.configurations
        if len(names) < 2:
            return
        if not wide:
            yield Text(f"{names[1]} against {names[0]}", style="dim")
        table = _seed_table("", _means_of(comparison), names, wide)
        primary = [one for one in rows if one[1].key == comparison.primary]
        others = [one for one in rows if one[1].key != comparison.primary]
        left = 0 if self._whole else len(others)
        if not self._whole:
            others = [one for one in others if one[1].key in _SHORT][: SHORT - len(primary)]
            left -= len(others)
        for title, part in (("Primary figure", primary), ("Also seen (exploratory)", others)):
            if not part:
                continue
            table.add_row(Text(title, style="bold"))
            for label, row in part:
                if self._whole and row.key in _FIRST_OVER_SEEDS:
                    table.add_row()
                table.add_row(Text(label), *(_value(row, at) for at in _places(wide)), *_judged(row, 1, wide))
                if row.key == comparison.primary:
                    table.add_row(Text("typical seed (median)"), *(_median(row, at) for at in _places(wide)))
            table.add_row()
        yield table
        if not self._whole:
            said = f"{counted(left, 'more figure')}, and waits by queue and by size: -o wide, or the report"
            yield Text(said, style="dim")
            return
        for title, groups in (("Mean wait by queue", comparison.by_queue), ("Mean wait by size", comparison.by_size)):
            waits = [(group.name, row) for group in groups for row in group.rows if row.key == "wait.mean"]
            if len(waits) > 1:
                table = _seed_table(title, "", names, wide)
                for label, row in waits:
                    table.add_row(Text(label), *(_value(row, at) for at in _places(wide)), *_judged(row, 1, wide)[:-1])
                yield table


def _means_of(comparison: SeedComparison) -> str:
    return f"mean of {counted(len(comparison.seeds), comparison.each.partition(' ')[0])}"


def _places(wide: bool) -> tuple[int, ...]:
    return (0, 1) if wide else (1,)


def _titled(title: str) -> Table:
    heading = Text(f"\n{title}" if title.strip() else "", style="bold") if title else None
    return Table(title=heading, title_justify="left", title_style="", header_style="dim", box=None, pad_edge=False)


def _seed_table(title: str, first: str, names: Sequence[str], wide: bool) -> Table:
    table = _titled(title)
    table.add_column(first, min_width=20)
    for name in [*(names[at] for at in _places(wide)), "change", "95 % interval", *(["better on"] if wide else [])]:
        table.add_column(Text(name), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    return table


def _by_configuration(row: SeedRow, names: Sequence[str], means: str, wide: bool) -> Table:
    """One figure, a line for each configuration."""
    table = _titled(row.label)
    table.add_column("", min_width=20)
    for name in (means, "change", "95 % interval", *(["better on"] if wide else [])):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for at, name in enumerate(names):
        table.add_row(Text(name), _value(row, at), *_judged(row, at, wide))
    return table


def _judged(row: SeedRow, at: int, wide: bool) -> list[Text]:
    """The change, its interval, the seeds won where there is room, and the verdict."""
    effect = row.effects[at]
    if effect is None:
        return []
    told = effect.verdict not in effects.UNJUDGED
    words = [effects.change(effect, row.unit), effects.limits(effect, row.unit)]
    words += [effects.won(effect)] if wide else []
    verdict = effects.verdict(effect) if wide else effects.sign(effect)
    return [*(Text(text if told else "") for text in words), Text(verdict, style=_STYLES.get(effect.verdict, "yellow"))]


def _value(row: SeedRow, at: int) -> Text:
    value = row.values[at]
    return Text(units.amount(None if value is None else value.estimate, row.unit, at_least=row.at_least[at]))


def _median(row: SeedRow, at: int) -> Text:
    value = row.medians[at]
    return Text(units.amount(None if value is None else value.estimate, row.unit, at_least=row.at_least[at]))


def _alone(name: str, rows: Sequence[tuple[str, SeedRow]]) -> Table:
    table = _titled("")
    table.add_column("", min_width=20)
    for head in (name, "95 % interval", "lowest", "highest"):
        table.add_column(Text(head), justify="right", no_wrap=True)
    for label, row in rows:
        if row.key in _FIRST_OVER_SEEDS:
            table.add_row()
        value = row.values[0]
        known = [one for one in row.by_seed[0] if one is not None]
        if value is not None:
            ends = (units.amount(end, row.unit) for end in (min(known), max(known)))
            table.add_row(Text(label), _value(row, 0), Text(effects.value_limits(value, row.unit)), *map(Text, ends))
    return table


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
