"""The parts of the page that tell of one run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from pumice.sim.report import charts, tables, units
from pumice.sim.report.charts import legend
from pumice.sim.report.markup import Markup, tag
from pumice.sim.results import timeline
from pumice.sim.results.records import RunRecord
from pumice.sim.results.statistics import Distribution
from pumice.sim.results.summary import Figures, Summary


def run_sections(run: RunRecord, summary: Summary, colours: Mapping[str, str], prefix: str) -> list[Markup]:
    """Return all sections of a run, in the order of reading. *prefix* makes their anchors unique on the page."""
    first = tag("div", *tiles(summary), class_="tiles")
    if not run.jobs:
        return [first, card("No jobs", "Nothing was submitted, so there is nothing more to show.")]
    return [
        first,
        _usage(run, summary, colours, prefix),
        _waits(run, colours, prefix),
        _groups(summary, colours, prefix),
        _jobs(run, colours, prefix),
        _nodes(run, prefix),
        _pending(run, summary, colours, prefix),
        _evictions(run, summary, colours, prefix),
    ]


def anchors(prefix: str) -> list[tuple[str, str]]:
    """Return (anchor, name) of the sections, for the navigation."""
    names = ("Utilisation", "Waits", "Queues and sizes", "Jobs", "Nodes", "Pending", "Evictions")
    return [(f"{prefix}{name.split()[0].lower()}", name) for name in names]


def card(title: str, note: str, *content: str, anchor: str | None = None) -> Markup:
    """Return a section with a title, a sentence on how to read it, and its content."""
    return tag("section", tag("h2", title), tag("p", note, class_="note"), *content, class_="card", id=anchor)


def folded(title: str, note: str, *content: str, anchor: str | None = None) -> Markup:
    """Return such a section that shows its title until it is opened."""
    return tag("details", tag("summary", title), tag("p", note, class_="note"), *content, class_="card", id=anchor)


def over_time(runs: Sequence[RunRecord], colours: Sequence[str], note: str) -> Markup:
    """Return what was in use, and how many jobs waited, over time: a line for each run."""
    key = legend([(colour, run.name, "") for run, colour in zip(runs, colours, strict=True)])
    resource = "GPUs" if timeline.main_resource(runs[0]) == "gpu" else "CPUs"
    return card(
        "Over time",
        note,
        key,
        tag("h3", f"{resource} in use"),
        charts.use_by_run(runs, colours),
        tag("h3", "Jobs waiting for their first start"),
        charts.waiting_by_run(runs, colours),
        anchor="compare-time",
    )


def remarks(warnings: Sequence[str], notes: Sequence[str]) -> list[Markup]:
    """Return doubts, set off, and notes."""
    lists = (("warnings", warnings), ("remarks", notes))
    return [tag("ul", *(tag("li", text) for text in texts), class_=kind) for kind, texts in lists if texts]


def tiles(summary: Summary) -> list[Markup]:
    """Return the figures that come first."""
    total = summary.total
    wait, jct, slowdown = total.wait, total.jct, total.slowdown
    rest = [f"{units.number(count)} {what}" for what, count in _states(total) if count]
    made = [
        _tile(
            "Jobs not finished",
            f"{units.number(total.unfinished)} / {units.number(total.jobs)}",
            ", ".join(rest) or "all are done",
        ),
        _tile("Mean wait", units.of_spread(wait, "mean"), _spread(wait, "no job was submitted")),
        _tile("Mean completion time", units.of_spread(jct, "mean"), _spread(jct, "no job ends")),
        _tile(
            "Bounded slowdown",
            units.of_spread(slowdown, "mean", "ratio"),
            f"median {units.of_spread(slowdown, 'p50', 'ratio')}" if slowdown else "no job ends",
        ),
    ]
    use = summary.utilisation
    others = [f"CPU {units.percent(use.cpu)}"] if use.gpu is not None and use.cpu is not None else []
    others += [f"memory {units.percent(use.memory)}"] if use.memory is not None else []
    kind, part = ("GPU", use.gpu) if use.gpu is not None else ("CPU", use.cpu)
    made.append(_tile(f"{kind} utilisation", units.percent(part), ", ".join(others), part))
    if summary.fragmentation is not None:
        made.append(
            _tile("Fragmentation", units.percent(summary.fragmentation), "of free GPUs, mean", summary.fragmentation)
        )
    length = units.amount(summary.makespan_s, "seconds", at_least=summary.makespan_at_least)
    made.append(_tile("Makespan", length, "first submission to last end"))
    made.append(
        _tile(
            "Fairness of service",
            units.index(summary.fairness_service),
            f"of shares {units.index(summary.fairness_share)}",
            summary.fairness_service,
        )
    )
    lost = "of pods by the scheduler"
    if total.gpu_hours:
        part = total.lost_gpu_hours / total.gpu_hours
        lost = f"{units.number(total.lost_gpu_hours)} GPU-hours lost, {units.percent(part)}"
    made.append(_tile("Evictions", units.number(total.evictions), lost))
    return made


def _states(total: Figures) -> list[tuple[str, int]]:
    endless = total.endless
    return [
        ("never started", total.unstarted),
        ("running", total.running - endless),
        ("waiting again", total.unfinished - total.unstarted - (total.running - endless) - total.failed),
        ("failed", total.failed),
        ("run without an end", endless),
    ]


def _spread(spread: Distribution | None, nothing: str) -> str:
    if spread is None:
        return nothing
    return f"median {units.of_spread(spread, 'p50')}\n95 % within {units.of_spread(spread, 'p95')}"


def _tile(label: str, value: str, note: str, part: float | None = None) -> Markup:
    meter = tag("span", tag("i", style=f"width:{100 * part:.1f}%"), class_="gauge") if part is not None else ""
    return tag(
        "div", tag("h3", label), tag("p", *_value(value), class_="figure"), meter, tag("p", _keep(note)), class_="tile"
    )


def _keep(text: str) -> str:
    """The text with every number held to its unit by a space that does not break."""
    return re.sub(r"(?<=[\d%]) (?=[a-zA-Z%×]{1,3}\b|%|×)", "\u00a0", text)


def _value(text: str) -> list[str]:
    """The parts of a value, units smaller than digits."""
    return [
        part if part[:1].isdigit() or part[:1] in "−–+≥" else tag("small", part)
        for part in (piece for word in text.split(" ") for piece in (word, " "))
    ][:-1]


def _usage(run: RunRecord, summary: Summary, colours: Mapping[str, str], prefix: str) -> Markup:
    resource = timeline.main_resource(run)
    name = "GPU" if resource == "gpu" else "CPU"
    others: list[Markup] = []
    kinds: list[tuple[timeline.Resource, str, float | None]] = [
        ("cpu", "CPU", summary.utilisation.cpu),
        ("memory", "Memory", summary.utilisation.memory),
    ]
    for kind, label, part in kinds:
        if kind != resource and part:
            inner = (tag("summary", f"{label} by queue, ", tag("b", units.percent(part)), " in use"),
                     charts.use_by_queue(run, kind, colours))  # fmt: skip
            others.append(tag("details", *inner))
    small = [tag("div", tag("h3", "Jobs waiting for their first start"), charts.waiting(run))]
    fragments = charts.fragmentation(run)
    if fragments is not None:
        small.append(tag("div", tag("h3", "Fragmentation of free GPUs"), fragments))
    return card(
        f"{name} utilisation over time, by queue",
        "What the pods of each queue held, against what the nodes offered. Time counts from the first submission.",
        charts.use_by_queue(run, resource, colours),
        tag("div", *small, class_="pair"),
        *others,
        anchor=f"{prefix}utilisation",
    )


def _waits(run: RunRecord, colours: Mapping[str, str], prefix: str) -> Markup:
    left = tag("div", tag("h3", "Jobs by wait"), charts.histogram(run.jobs))
    right = tag("div", tag("h3", "Share of each queue's jobs that had started"), charts.started_by_queue(run, colours))
    return card(
        "Wait from submission to first start",
        "Jobs that never ran count as not started: a line that ends below 100 % shows them.",
        tag("div", left, right, class_="pair uneven"),
        anchor=f"{prefix}waits",
    )


def _groups(summary: Summary, colours: Mapping[str, str], prefix: str) -> Markup:
    return card(
        "By queue and by size",
        "Jobs that did not start or finish count until the end of the run; lower bounds because of them are marked ≥.",
        tables.groups("Queue", summary.by_queue, colours),
        tables.groups("Size of the job", summary.by_size),
        anchor=f"{prefix}queues",
    )


def _jobs(run: RunRecord, colours: Mapping[str, str], prefix: str) -> Markup:
    drawn = charts.chosen(run)
    left = len(run.jobs) - len(drawn)
    what = "GPU-hours" if timeline.main_resource(run) == "gpu" else "CPU-hours"
    if left:
        note = (
            f"The {min(charts.HEAVIEST, len(drawn))} jobs with the most {what} and the {len(drawn) - charts.HEAVIEST} "
            f"of the others that waited longest, in the order of submission. {left:,} jobs are not drawn."
        )
    else:
        note = "All jobs, in the order of submission."
    keys = tag(
        "ul",
        tag("li", tag("i", class_="key wait"), "waits"),
        tag("li", tag("i", class_="key run c0"), "runs, in the colour of its queue"),
        tag("li", tag("i", class_="key mark"), "is evicted"),
        class_="legend",
    )
    return card("Jobs over time", note, keys, charts.gantt(run, drawn, colours), anchor=f"{prefix}jobs")


def _nodes(run: RunRecord, prefix: str) -> Markup:
    kind = "GPUs" if timeline.main_resource(run) == "gpu" else "CPUs"
    return card(
        "Nodes over time",
        f"Share of each node's {kind} that pods held. Many nodes share rows, in the order of model and name.",
        charts.scale(),
        charts.heatmap(run),
        anchor=f"{prefix}nodes",
    )


def _pending(run: RunRecord, summary: Summary, colours: Mapping[str, str], prefix: str) -> Markup:
    jobs = [job for job in run.jobs if job.outcome == "pending"]
    anchor = f"{prefix}pending"
    if not jobs:
        return card("Pending jobs", "No job was waiting when the run ended.", anchor=anchor)
    left = len(jobs) - tables.PENDING_SHOWN
    note = f"{len(jobs):,} job{'' if len(jobs) == 1 else 's'} waited when the run ended, and why."
    if left > 0:
        note += f" The {tables.PENDING_SHOWN} that waited longest are listed, {left:,} are not."
    return card(
        "Pending jobs", note, tables.reasons(summary.reasons), tables.pending(run, jobs, colours), anchor=anchor
    )


def _evictions(run: RunRecord, summary: Summary, colours: Mapping[str, str], prefix: str) -> Markup:
    anchor = f"{prefix}evictions"
    if not run.evictions:
        return card("Evictions", "No pod was evicted.", anchor=anchor)
    left = len(run.evictions) - tables.EVICTIONS_SHOWN
    actions = Counter(eviction.action for eviction in run.evictions)
    by_action = ", ".join(f"{count:,} by {action}" for action, count in sorted(actions.items()))
    note = (
        f"{len(run.evictions):,} pods were evicted ({by_action}); {units.number(summary.total.lost_gpu_hours)} "
        "GPU-hours of work had to be done again."
    )
    if left > 0:
        note += f" The {tables.EVICTIONS_SHOWN} that ended the most GPU-time are listed, {left:,} are not."
    return card(
        "Evictions and who gained",
        note,
        tables.flows(run.evictions, colours),
        tables.evictions(run, colours),
        anchor=anchor,
    )
