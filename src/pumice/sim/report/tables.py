"""Tables of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pumice.sim.report import units
from pumice.sim.report.charts.plot import percent
from pumice.sim.report.markup import Markup, tag
from pumice.sim.report.palette import OTHER_CLASS
from pumice.sim.results.records import EvictionRecord, JobRecord, RunRecord
from pumice.sim.results.statistics import Distribution
from pumice.sim.results.summary import Figures, ReasonCount

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
