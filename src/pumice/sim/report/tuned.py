"""The page of a tuning: the verdict, what was changed, who else came far; then the figures of what was held out."""

from __future__ import annotations

from pumice.sim.report import tables
from pumice.sim.report.markup import Markup, tag
from pumice.sim.report.page import html_seeds, plain_page
from pumice.sim.report.sections import card
from pumice.sim.tuning.told import TuningAccount


def html_tuning(told: TuningAccount, *, title: str = "") -> str:
    """Return the report of a tuning. The same tuning gives the same page."""
    parts = [
        tag("p", told.verdict(), class_="lead"),
        tag("p", told.searched(), class_="lead"),
        card("What was tuned", "A value for each of them.", _changes(told), anchor="knobs"),
    ]
    if told.tuning.finalists:
        note = "Those that came through the search, and what they did on occasions that were new to them."
        parts.append(card("Finalists", note, _finalists(told), anchor="finalists"))
    if diff := told.diff():
        note = "As it is, and as tuned." if told.tuning.recommended else "What was tried; it is not recommended."
        parts.append(card("The conf", note, tag("pre", "\n".join(diff)), anchor="diff"))
    heading = title or "A tuning"
    if told.tuning.comparison is None:
        return plain_page(heading, parts)
    return html_seeds(told.tuning.comparison, title=heading, before=parts)


def _changes(told: TuningAccount) -> Markup:
    return tables.table(["Knob", "As it is", "Tuned", "Searched"], [list(row) for row in told.changes()])


def _finalists(told: TuningAccount) -> Markup:
    figures = [figure.label for figure in told.wanted.figures]
    head = ["Sets", *(f"{name}, search" for name in figures), *(f"{name}, choosing" for name in figures)]
    return tables.table(head, [[sets, *search, *choose] for sets, search, choose in told.finalists()])
