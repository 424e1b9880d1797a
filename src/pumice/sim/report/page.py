"""``html``: the whole report as one page that needs nothing else, neither network nor files beside it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from pumice.errors import InvalidInput
from pumice.sim.report import charts, units
from pumice.sim.report.markup import Markup, tag
from pumice.sim.report.over_seeds import seed_sections
from pumice.sim.report.sections import anchors, remarks, run_sections
from pumice.sim.report.tables import comparison_sections
from pumice.sim.results.comparison import Comparison, compare, left_in_words
from pumice.sim.results.records import RunRecord
from pumice.sim.results.seeds import SeedComparison
from pumice.sim.results.summary import Summary, summarise

_DEFINITIONS = (
    (
        "Not finished",
        "jobs that did not complete: they wait, run or failed. What runs without an end of its own is not counted.",
    ),
    (
        "Wait",
        "from submission to the first start. A job that never started counts until the end of the run; figures that "
        "are lower bounds because of such jobs are marked ≥. A job that ran before the run began does not count.",
    ),
    (
        "Completion time",
        "from submission to the end. A job that is not done counts until the end of the run (≥); one that failed, or "
        "that runs without an end of its own, does not count.",
    ),
    (
        "Over seeds",
        "every configuration is played on the same seeds, which give the same jobs, faults and refused binds to all. "
        "Values are arithmetic means over the seeds, and the change of a time is the ratio of two means. The interval "
        "is the wider of typical values (what the sign-flip test does not reject) and a bootstrap-t on each side. "
        "Better or worse is said only where at least 6 pairs differ and the interval leaves no change out.",
    ),
    (
        "Not comparable",
        "one of both runs left jobs unfinished that the other one finished. Waits, completion times and makespans are "
        "then not those of the same work, so nothing is said about the difference.",
    ),
    (
        "Bounded slowdown",
        "completion time divided by the run time undisturbed, where run times below 10 s count as 10 s; at least 1.",
    ),
    ("Percentiles", "nearest rank: the smallest value that so many percent of the values do not exceed."),
    (
        "Makespan",
        "from the first submission to the last end, or to the end of the run where jobs are not finished (≥).",
    ),
    (
        "Utilisation",
        "what pods held divided by what nodes offered, from the first submission to the last end, or to the end of the "
        "run where jobs were left.",
    ),
    ("Fragmentation", "share of the free GPU capacity that the workload's typical pods cannot use; mean over time."),
    (
        "Fairness of service",
        "Jain's index over queues of the mean share of their time in the system that jobs ran. 1: the jobs of all "
        "queues were slowed down alike.",
    ),
    (
        "Fairness of shares",
        "Jain's index of dominant shares by weight, over the queues that had a job waiting, and only while at least "
        "two had and one of them had something. 1: queues that competed had equal shares.",
    ),
    ("Lost GPU-hours", "GPU-time of evicted pods, and of gangs that fell with them, whose work had to be done again."),
)


def html(runs: Sequence[RunRecord], comparison: Comparison | None = None, *, title: str = "") -> str:
    """Return the report of one run, or of several side by side. The same records give the same page.

    :param comparison: that of ``compare(runs)`` where the caller has it already.
    :param title: what was played, such as the scenario's name; else the runs stand in the heading.
    :raises InvalidInput: no run, two of one name, or a comparison of other runs.
    """
    comparison = compare(runs) if comparison is None else comparison
    if comparison.runs != tuple(run.name for run in runs):
        raise InvalidInput(f"comparison: must be of the same runs, got one of {', '.join(comparison.runs)}")
    queue_colours = charts.queue_colours(comparison.summaries)
    run_colours = charts.run_colours(runs)
    if len(runs) == 1:
        body = [
            _meta(comparison.summaries[0]),
            *run_sections(runs[0], comparison.summaries[0], queue_colours, ""),
        ]
        navigation = _links(anchors(""))
        heading = f"{title}, {runs[0].name}" if title and title != runs[0].name else runs[0].name
    else:
        tabs = [_tab("compare", comparison_sections(runs, comparison, run_colours))]
        for number, (run, summary) in enumerate(zip(runs, comparison.summaries, strict=True)):
            inner = [_meta(summary), *run_sections(run, summary, queue_colours, f"run{number}-")]
            tabs.append(_tab(f"run{number}", [tag("h2", run.name, class_="run-name"), *inner]))
        body = [tag("div", *tabs, class_="tabs")]
        navigation = _links(
            [("compare", "Compare"), *((f"run{number}", run.name) for number, run in enumerate(runs))], tabs=True
        )
        heading = title or f"{len(runs)} runs compared"
    return _page(heading, navigation, body)


def plain_page(title: str, parts: Sequence[Markup], *, kind: str = "simulation report") -> str:
    """Return a page of these parts, in the dress of a report; *kind*: what it is called."""
    return _page(title, _links([]), parts, kind)


def html_seeds(
    comparison: SeedComparison, runs: Sequence[RunRecord] = (), *, title: str = "", before: Sequence[Markup] = ()
) -> str:
    """Return the report of configurations over many seeds, and of the *runs* of one of them, each in full.

    Warnings that stand *before* the figures come first. The same figures and records give the same page.
    """
    summaries = [summarise(run) for run in runs]
    queue_colours = charts.queue_colours(summaries)
    tabs = [_tab("compare", [*before, *seed_sections(comparison, runs)])]
    links = [("compare", f"All {comparison.each.partition(' ')[0]}s")]
    for number, (run, summary) in enumerate(zip(runs, summaries, strict=True)):
        name = f"{run.name}, seed {run.seed}"
        inner = [_meta(summary), *run_sections(run, summary, queue_colours, f"run{number}-")]
        tabs.append(_tab(f"run{number}", [tag("h2", name, class_="run-name"), *inner]))
        links.append((f"run{number}", name))
    return _page(title or "A study", _links(links, tabs=True), [tag("div", *tabs, class_="tabs")])


def _page(title: str, navigation: Markup, body: Sequence[Markup], kind: str = "simulation report") -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · Pumice {kind}"),
        tag("style", _asset("report.css")),
    )
    button = tag("button", "Theme", type="button", id="theme", title="Light or dark")
    brand = tag("span", tag("i", class_="logo"), "Pumice", tag("small", kind), class_="brand")
    content = tag(
        "body",
        tag("header", brand, navigation, button),
        tag("main", tag("h1", title), *body, *([_definitions()] if kind == "simulation report" else [])),
        tag("div", id="tip", role="status"),
        tag("script", _asset("report.js")),
    )
    return f"<!doctype html>\n{tag('html', head, content, lang='en')}\n"


def _asset(name: str) -> Markup:
    return Markup(resources.files("pumice.sim.report").joinpath("assets", name).read_text(encoding="utf-8"))


def _links(targets: Sequence[tuple[str, str]], *, tabs: bool = False) -> Markup:
    return tag(
        "nav", *(tag("a", name, href=f"#{anchor}") for anchor, name in targets), class_="switch" if tabs else None
    )


def _tab(name: str, content: Sequence[Markup]) -> Markup:
    return tag("div", *content, class_="tab", id=name)


def _meta(summary: Summary) -> Markup:
    facts = [
        ("played", summary.trace),
        ("nodes", units.number(summary.nodes)),
        ("GPUs", units.number(summary.gpus) if summary.gpus else ""),
        ("CPUs", units.number(summary.cpus) if summary.cpus else ""),
        ("simulated", units.duration(summary.span_s)),
        ("seed", str(summary.seed)),
        ("conf", summary.conf_digest.removeprefix("sha256:")[:12]),
        ("version", summary.version),
        ("scenario", summary.origin.scenario_digest[:12]),
        *((name, digest[:12]) for name, digest in summary.origin.inputs.items()),
    ]
    chips = [tag("li", tag("small", name), " ", value) for name, value in facts if value]
    if summary.partial:
        chips.insert(0, tag("li", "stopped before its end", class_="partial"))
    return tag(
        "div",
        tag("ul", *chips, class_="facts"),
        *remarks(summary.warnings, [*summary.notes, *filter(None, [left_in_words([summary])])]),
    )


def _definitions() -> Markup:
    entries = [part for name, text in _DEFINITIONS for part in (tag("dt", name), tag("dd", text))]
    return tag("details", tag("summary", "What the figures mean"), tag("dl", *entries), class_="card definitions")
