"""The report of a shadow as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pumice.shadow.report import ComparedPlacement, Day, Report, ShadowTally
from pumice.sim.report import units
from pumice.sim.report.markup import Markup, tag
from pumice.sim.report.page import plain_page
from pumice.sim.report.sections import card
from pumice.words import counted

When = Callable[[float], str]
SHOWN = 200
"""Rows of a table, at most."""


def shadow_page(report: Report, when: When, *, title: str = "") -> str:
    """Return the page; *when* words an instant."""
    parts = [_facts(report, when), _tiles(report)]
    parts += _waiting(report, when)
    for day in reversed(report.days):
        parts += _day(day, when, alone=len(report.days) == 1)
    rows = [_placed(placed, when) for placed in report.recent[:SHOWN]]
    note = "What the running scheduler did, and the candidate would not have done so: the last first."
    parts.append(card("Differences", note, _table(("When", "Job", "Queue", "Pods", "Candidate", "Why"), rows)))
    return plain_page(title or f"Beside {report.beside}", parts, kind="shadow report")


def _facts(report: Report, when: When) -> Markup:
    facts = (
        ("candidate", report.candidate.removeprefix("sha256:")[:12]),
        ("beside", report.beside),
        ("from", when(report.began)),
        ("to", when(report.ended)),
        ("cycles", units.number(report.cycles)),
        ("deciding took", f"{100 * report.share_of_core:.2f} % of a core"),
    )
    return tag("ul", *(tag("li", tag("small", name), " ", value) for name, value in facts), class_="facts")


def _tiles(report: Report) -> Markup:
    total, agreement = report.total, report.agreement
    jobs = sum(total.jobs.values())
    waited = units.duration(total.sooner_seconds)
    tiles = [
        ("Agreement", units.percent(agreement) if agreement is not None else "–", f"of {counted(jobs, 'placement')}"),
        ("Other nodes", units.number(total.jobs["elsewhere"]), "at the same time"),
        ("Sooner", units.number(total.jobs["sooner"]), f"{waited} less waiting, all told"),
        ("Later", units.number(total.jobs["later"]), "the candidate would not have started them yet"),
        ("Still waiting", units.number(len(report.waiting)), "jobs that the candidate would have started"),
        ("Evictions", f"{units.number(total.evicted)} / {units.number(_by_candidate(total))}", "pods: done / wished"),
    ]
    made = [
        tag("div", tag("h3", n), tag("p", f, class_="figure"), tag("p", s), class_="tile", style="flex-basis: 150px")
        for n, f, s in tiles
    ]
    return tag("div", *made, class_="tiles")


def _by_candidate(total: ShadowTally) -> int:
    return total.evicted_by_both + total.would_evict


def _waiting(report: Report, when: When) -> list[Markup]:
    if not report.waiting:
        return []
    rows = [
        (w.job, w.queue, str(w.pods), units.duration(w.seconds), nodes_in_words(w.wished), w.running_says)
        for w in report.waiting[:SHOWN]
    ]
    note = "Jobs that wait now, when and where the candidate would have started them, and what their objects say."
    columns = ("Job", "Queue", "Pods", "Sooner by", "On", "Why it waits")
    return [card("Still waiting", note, _table(columns, rows))]


def _day(day: Day, when: When, *, alone: bool) -> list[Markup]:
    name = "Most affected" if alone else f"{when(day.began)} to {when(day.ended)}"
    rows = [_placed(p, when) for p in (*day.sooner, *day.later)]
    counts = ", ".join(f"{units.number(n)} {verdict}" for verdict, n in day.tally.jobs.items() if n) or "nothing placed"
    parts = [_table(("When", "Job", "Queue", "Pods", "Candidate", "Why"), rows)] if rows else []
    if day.evictions:
        cells = [
            (when(e.at), e.by, ", ".join(e.pods[:6]) + (" …" if len(e.pods) > 6 else ""), e.beneficiary, e.action)
            for e in day.evictions[:SHOWN]
        ]
        parts += [tag("h3", "Evictions by one of the two"), _table(("When", "By", "Pods", "For", "Action"), cells)]
    return [card(name, f"Placements: {counts}.", *parts)]


def _placed(placed: ComparedPlacement, when: When) -> tuple[str, ...]:
    why = placed.candidate_says or placed.running_says
    return (when(placed.at), placed.job, placed.queue, str(placed.pods), in_words(placed), why)


def in_words(placed: ComparedPlacement) -> str:
    """Return what the candidate would have done with pods that were placed."""
    wished = nodes_in_words(placed.wished)
    match placed.verdict:
        case "sooner":
            return f"{units.duration(placed.seconds)} sooner, on {wished}"
        case "later":
            return "would not place it"
        case "elsewhere":
            return f"{placed.elsewhere} of {counted(placed.pods, 'pod')} elsewhere: {wished}"
    return "the same"


def nodes_in_words(nodes: Mapping[str, int], most: int = 4) -> str:
    """Return nodes with how many pods each has."""
    named = [f"{node} ×{n}" if n > 1 else node for node, n in sorted(nodes.items())]
    more = len(named) - most
    return ", ".join(named[:most]) + (f" and {more} more" if more > 0 else "")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    if not rows:
        return tag("p", "None.", class_="muted")
    head = tag("tr", *(tag("th", name, class_="text") for name in columns))
    body = [tag("tr", *(tag("td", cell, class_="text") for cell in row)) for row in rows]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body)), class_="scroll", tabindex="0")
