"""Which actions ask each extension point and which plugins answer there, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pumice.framework.points import POINTS


@dataclass(frozen=True, slots=True)
class Who:
    """The askers of each point, and the shipped plugins that answer there. Both are found out, not written down."""

    asks: Mapping[str, Sequence[str]]
    answers: Mapping[str, Sequence[str]]

    def asked(self, point: str) -> str:
        """The actions that ask a point, in words."""
        return ", ".join(self.asks.get(point, ())) or "no action"

    def answered(self, point: str) -> str:
        """The plugins that answer at a point, in words."""
        return ", ".join(self.answers.get(point, ())) or "none that ships"


def points_table(who: Who) -> str:
    """The short table of the developer guide, as Markdown."""
    rows = (
        f"| `{p.name}` | `{_escaped(p.signature)}` | {who.asked(p.name)} | {who.answered(p.name)} |"
        for p in POINTS.values()
        if who.asks.get(p.name)
    )
    return "\n".join(["| point | signature | asked by | answered by |", "|---|---|---|---|", *rows])


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
