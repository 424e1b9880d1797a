"""The parts of the page that set runs side by side."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.sim.report import tables, units
from pumice.sim.report.charts import waits
from pumice.sim.report.charts.plot import legend, percent
from pumice.sim.report.markup import Markup, tag
from pumice.sim.report.sections import card, folded, over_time, remarks
from pumice.sim.report.terminal import NO_VERDICT
from pumice.sim.results.comparison import Comparison, MetricRow, MetricTable, Mover, Movers
from pumice.sim.results.records import RunRecord
from pumice.words import counted

_GROUP_COLUMNS = {
    "wait.mean": "Wait, mean",
    "wait.p95": "Wait, 95 %",
    "jct.mean": "Completion",
    "slowdown.mean": "Slowdown",
    "completed": "Done",
    "unfinished": "Not finished",
    "evictions": "Evictions",
    "lost_gpu_hours": "Lost GPU-h",
}
"""Figures of a queue or size class that are shown, with names short enough for a column."""


def comparison_sections(runs: Sequence[RunRecord], comparison: Comparison, colours: Sequence[str]) -> list[Markup]:
    """Return what differs between the runs, the verdict first."""
    key = legend([(colour, run.name, "") for run, colour in zip(runs, colours, strict=True)])
    return [
        tag("p", _verdict(comparison), class_="verdict"),
        tag("p", _in_words(comparison), class_="lead"),
        over_time(runs, colours, "Time counts from the first submission of each run."),
        tag("div", *_headlines(comparison, colours), class_="tiles"),
        *remarks(comparison.warnings, comparison.notes),
        card(
            "Side by side",
            f"Every run, and its step from {comparison.runs[0]}, the first. One run of each cannot tell a change from "
            "chance: play several seeds for a verdict.",
            _overall(comparison, colours),
            anchor="compare-overall",
        ),
        card(
            "Wait from submission to first start",
            "Share of all jobs that had started after so long. Jobs that never ran count as not started.",
            key,
            waits.started(
                [(run.name, colour, run.jobs) for run, colour in zip(runs, colours, strict=True)],
                [job for run in runs for job in run.jobs],
            ),
            anchor="compare-waits",
        ),
        folded(
            "By queue",
            f"Under each figure, the step from {comparison.runs[0]}.",
            _groups("Queue", comparison.by_queue, comparison, colours),
            anchor="compare-queues",
        ),
        folded(
            "By size",
            f"Under each figure, the step from {comparison.runs[0]}.",
            _groups("Size of the job", comparison.by_size, comparison, colours),
            anchor="compare-sizes",
        ),
        *(_movers(movers, comparison.runs[0]) for movers in comparison.movers),
    ]


def _verdict(comparison: Comparison) -> str:
    """Return what one run of each shows of the mean wait, and that it proves nothing."""
    row = next((row for row in comparison.overall if row.key == "wait.mean"), None)
    if row is None:
        return NO_VERDICT
    steps = units.steps(row.changes, row.unit)
    values = [
        f"{name} {units.amount(value, row.unit, at_least=bound)}{f' ({step})' if step else ''}"
        for name, value, bound, step in zip(comparison.runs, row.values, row.at_least, steps, strict=True)
    ]
    return f"{row.label}: {', '.join(values)}. {NO_VERDICT}"


def _in_words(comparison: Comparison) -> str:
    """The compared configurations and their workload."""
    first = comparison.summaries[0]
    *others, last = comparison.runs
    jobs, span = counted(first.total.jobs, "job"), units.duration(first.span_s)
    return f"{', '.join(others)} and {last}, side by side: {units.machines(first)}, {jobs}, {span} simulated."


def _headlines(comparison: Comparison, colours: Sequence[str]) -> list[Markup]:
    """The figures that come first, each with all runs."""
    rows = {row.key: row for row in comparison.overall}
    keys = ["wait.mean", "unfinished"]
    keys.append("utilisation.gpu" if "utilisation.gpu" in rows else "utilisation.cpu")
    keys.append("evictions" if any(rows["evictions"].values) else "fragmentation")
    return [_headline(rows[key], comparison.runs, colours) for key in keys if key in rows]


def _headline(row: MetricRow, runs: Sequence[str], colours: Sequence[str]) -> Markup:
    most = max((abs(value) for value in row.values if value is not None), default=0.0) or 1.0
    lines = []
    steps = units.steps(row.changes, row.unit)
    for run, colour, value, bound, step in zip(runs, colours, row.values, row.at_least, steps, strict=True):
        bar = tag("i", style=f"width:{percent(abs(value or 0.0) / most)}", class_=colour)
        shown = tag("b", units.amount(value, row.unit, at_least=bound))
        said = tag("span", tag("small", run), shown, _step(step), class_="said")
        lines.append(tag("li", said, tag("span", bar, class_="gauge")))
    return tag("div", tag("h3", row.label), tag("ul", *lines, class_="headline"), class_="tile")


def _overall(comparison: Comparison, colours: Sequence[str]) -> Markup:
    head = [Markup("Figure"), *(_run(name, colour) for name, colour in zip(comparison.runs, colours, strict=True))]
    rows = [[row.label, *_cells(row)] for row in comparison.overall]
    return tables.table(head, rows, class_="overall")


def _cells(row: MetricRow) -> list[Markup]:
    most = max((abs(value) for value in row.values if value is not None), default=0.0) or 1.0
    cells = []
    shown = zip(row.values, row.at_least, units.steps(row.changes, row.unit), strict=True)
    for value, bound, step in shown:
        bar = "" if value is None else tag("i", class_="meter", style=f"width:{percent(abs(value) / most)}")
        figure = tag("span", units.amount(value, row.unit, at_least=bound))
        cells.append(tag("span", bar, figure, _step(step), class_="compared"))
    return cells


def _step(said: str) -> Markup:
    return tag("small", said, class_="step") if said else Markup()


def _groups(kind: str, groups: Sequence[MetricTable], comparison: Comparison, colours: Sequence[str]) -> Markup:
    used = {row.key for group in groups for row in group.rows}
    shown = [key for key in _GROUP_COLUMNS if key in used]
    rows: list[list[str]] = []
    for group in groups:
        by_key = {row.key: row for row in group.rows}
        for index, (run, colour) in enumerate(zip(comparison.runs, colours, strict=True)):
            cells: list[str] = [group.name if index == 0 else "", _run(run, colour)]
            cells += [_stacked(by_key.get(key), index) for key in shown]
            rows.append(cells)
    return tables.table([kind, "Run", *(_GROUP_COLUMNS[key] for key in shown)], rows, text=2, class_="grouped")


def _stacked(row: MetricRow | None, index: int) -> Markup:
    if row is None:
        return Markup(units.NOTHING)
    step = units.steps(row.changes, row.unit)[index]
    figure = tag("span", units.amount(row.values[index], row.unit, at_least=row.at_least[index]))
    return tag("span", figure, _step("" if step == units.NO_CHANGE else step), class_="stacked")


def _run(name: str, colour: str) -> Markup:
    return tag("span", tag("i", class_=f"swatch {colour}"), name, class_="named")


def _movers(movers: Movers, base: str) -> Markup:
    note = (
        f"Against {base}, {movers.shorter:,} jobs waited shorter, {movers.longer:,} longer and {movers.same:,} as "
        "long. A job that never ran counts as waiting to the end of its run."
    )
    left = tag("div", tag("h3", "Waited much shorter"), _moved(movers.most_shortened))
    right = tag("div", tag("h3", "Waited much longer"), _moved(movers.most_lengthened))
    return card(f"Jobs that moved: {movers.run}", note, tag("div", left, right, class_="pair"))


def _moved(movers: Sequence[Mover]) -> Markup:
    if not movers:
        return tag("p", "None.", class_="note")
    rows = [
        [
            tag("span", mover.job, class_="mono"),
            mover.queue,
            units.number(mover.gpus or None),
            units.duration(mover.before_s),
            units.duration(mover.after_s),
        ]
        for mover in movers
    ]
    return tables.table(["Job", "Queue", "GPUs", "Before", "Now"], rows, text=2)
