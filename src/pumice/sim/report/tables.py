"""Tables of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pumice.sim.report import charts, tables, units
from pumice.sim.report.charts import OTHER_CLASS, legend, percent
from pumice.sim.report.markup import Markup, tag
from pumice.sim.report.sections import card, folded, over_time, remarks
from pumice.sim.report.terminal import NO_VERDICT
from pumice.sim.results.comparison import Comparison, MetricRow, MetricTable, Mover, Movers
from pumice.sim.results.records import EvictionRecord, JobRecord, RunRecord
from pumice.sim.results.statistics import Distribution
from pumice.sim.results.summary import Figures, ReasonCount
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
            charts.started(
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


PENDING_SHOWN = 40
EVICTIONS_SHOWN = 40
_REASONS_SHOWN = 12


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, text: int = 1, class_: str = "", tall: bool = False
) -> Markup:
    """Return a table; the first *text* columns are text, the others numbers. A *tall* one scrolls within the page."""
    cells = [
        tag("tr", *(tag("td", cell, class_="text" if column < text else None) for column, cell in enumerate(row)))
        for row in rows
    ]
    names = (tag("th", name, scope="col", class_="text" if column < text else None) for column, name in enumerate(head))
    inner = tag("table", tag("thead", tag("tr", *names)), tag("tbody", *cells), class_=class_ or None)
    return tag("div", inner, class_="scroll tall" if tall else "scroll", tabindex="0")


def groups(kind: str, figures: Sequence[Figures], colours: Mapping[str, str] | None = None) -> Markup:
    """Return the figures of queues or size classes, a row for each; GPU columns only where GPUs were used."""
    longest = max((row.wait.mean for row in figures if row.wait), default=0.0) or 1.0
    gpus = any(row.gpu_hours for row in figures)
    rows = []
    for row in figures:
        cells = [
            swatch(row.name, colours) if colours else row.name,
            units.number(row.jobs),
            units.number(row.completed),
            units.number(row.unfinished),
            _with_bar(row.wait, longest),
            units.of_spread(row.wait, "p50"),
            units.of_spread(row.wait, "p95"),
            units.of_spread(row.wait, "p99"),
            units.of_spread(row.jct, "mean"),
            units.of_spread(row.slowdown, "mean", "ratio"),
            units.number(row.gpu_hours if gpus else row.cpu_hours),
            units.number(row.evictions),
        ]
        rows.append([*cells, units.number(row.lost_gpu_hours)] if gpus else cells)
    head = [kind, "Jobs", "Done", "Not finished", "Wait, mean", "median", "95 %", "99 %", "Completion", "Slowdown"]
    head += ["GPU-hours", "Evictions", "Lost GPU-h"] if gpus else ["CPU-hours", "Evictions"]
    return table(head, rows)


def swatch(name: str, colours: Mapping[str, str]) -> Markup:
    """Return a queue's name behind its colour."""
    return tag("span", tag("i", class_=f"swatch {colours.get(name, OTHER_CLASS)}"), name, class_="named")


def _with_bar(wait: Distribution | None, longest: float) -> Markup:
    if wait is None:
        return Markup(units.NOTHING)
    bar = tag("i", class_="meter", style=f"width:{percent(wait.mean / longest)}")
    return tag("span", bar, tag("span", units.of_spread(wait, "mean")), class_="metered")


def reasons(counts: Sequence[ReasonCount]) -> Markup:
    """Return why jobs wait, the most frequent reasons first."""
    most = max((reason.jobs for reason in counts), default=1)
    return tag(
        "ol",
        *(
            tag(
                "li",
                tag("span", reason.text, tag("small", f" {reason.plugin}") if reason.plugin else "", class_="name"),
                tag("span", tag("i", class_="fill warn", style=f"width:{percent(reason.jobs / most)}"), class_="track"),
                tag(
                    "span",
                    units.number(reason.jobs),
                    tag("small", " job" if reason.jobs == 1 else " jobs"),
                    class_="value",
                ),
            )
            for reason in counts[:_REASONS_SHOWN]
        ),
        class_="bars reasons",
    )


def pending(run: RunRecord, jobs: Sequence[JobRecord], colours: Mapping[str, str]) -> Markup:
    """Return the jobs that wait, the longest waiting first."""
    ranked = sorted(jobs, key=lambda job: (job.submit, job.key))[:PENDING_SHOWN]
    rows = [
        [
            _job(job.key),
            swatch(job.queue, colours),
            _why(job),
            units.duration(run.horizon - job.submit),
            units.number(job.gpus or None),
            units.number(job.cpus or None),
            units.number(job.pods),
            units.number(job.priority),
        ]
        for job in ranked
    ]
    return table(
        ["Job", "Queue", "Why", "Waits for", "GPUs", "CPUs", "Pods", "Priority"],
        rows,
        text=3,
        class_="wordy",
        tall=True,
    )


def _why(job: JobRecord) -> Markup:
    if not job.reasons:
        return tag("span", "no reason was recorded", class_="muted")
    parts = []
    for reason in job.reasons:
        where = f" on {reason.nodes:,} node{'' if reason.nodes == 1 else 's'}" if reason.nodes else ""
        plugin = tag("small", f" {reason.plugin}") if reason.plugin else ""
        parts.append(tag("span", reason.text, where, plugin, class_="reason"))
    return tag("span", *parts)


def flows(evictions: Sequence[EvictionRecord], colours: Mapping[str, str]) -> Markup:
    """Return the number of evicted pods for each pair of queues: the evicted one and the served one."""
    counts: Counter[tuple[str, str]] = Counter((item.queue, item.beneficiary_queue) for item in evictions)
    losers = sorted({queue for queue, _ in counts})
    winners = sorted({queue for _, queue in counts})
    most = max(counts.values(), default=1)
    rows: list[list[str]] = []
    for loser in losers:
        cells: list[str] = [swatch(loser, colours)]
        for winner in winners:
            count = counts[loser, winner]
            shade = f"--tint:{percent(0.75 * count / most)}" if count else None
            cells.append(tag("span", units.number(count) if count else "·", class_="flow", style=shade))
        cells.append(units.number(sum(counts[loser, winner] for winner in winners)))
        rows.append(cells)
    head = ["Evicted from ↓ in favour of →", *(winner or "nobody" for winner in winners), "all"]
    return table(head, rows, class_="flows")


def evictions(run: RunRecord, colours: Mapping[str, str]) -> Markup:
    """Return the evictions that cost most, by GPU-time of the stay that was ended."""
    first = min((job.submit for job in run.jobs), default=0.0)
    ranked = sorted(run.evictions, key=lambda item: (-item.gpu_milli * item.ran_s, item.time, item.pod))[
        :EVICTIONS_SHOWN
    ]
    rows = [
        [
            _job(item.pod),
            swatch(item.queue, colours),
            item.action,
            _job(item.beneficiary) if item.beneficiary else units.NOTHING,
            swatch(item.beneficiary_queue, colours) if item.beneficiary_queue else units.NOTHING,
            units.duration(item.time - first),
            units.duration(item.ran_s),
            units.number(item.gpu_milli / 1000),
            units.number(item.gpu_milli / 1000 * item.ran_s / 3600),
        ]
        for item in ranked
    ]
    head = ["Pod", "Queue", "Action", "Beneficiary", "Its queue", "When", "Had run", "GPUs", "GPU-hours"]
    return table(head, rows, text=5, tall=True)


def _job(name: str) -> Markup:
    return tag("span", name, class_="mono")
