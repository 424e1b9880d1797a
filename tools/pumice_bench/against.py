"""What became slower or faster since a commit: shapes measured in turn on both states of the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from pumice.errors import InvalidInput
from pumice_bench.pairs import compare
from pumice_bench.shapes import SHAPES
from pumice_bench.trees import LacksShape, SourceTree, checkout_of_pumice, trees

SHORT: Final = 0.1
"""CPU seconds below which one run says little: whatever else the machine does weighs more."""
TRIES: Final = 3
"""Runs of such a shape per side and pair."""


@dataclass(slots=True)
class Sides:
    """What was measured of one shape: one run of each side per pair."""

    then: list[dict[str, Any]] = field(default_factory=list)
    now: list[dict[str, Any]] = field(default_factory=list)
    lacking: str = ""
    """Why it cannot be compared; empty if it can."""

    def data(self) -> dict[str, Any]:
        """The comparison as plain data: CPU seconds, the ratio of times, the share of the speed by the best runs."""
        if self.lacking:
            return {"verdict": "lacking", "reason": self.lacking, "wrong": []}
        before, after = ([run["cpu"] for run in side] for side in (self.then, self.now))
        ratio = compare(before, after)
        return {
            "verdict": ratio.verdict,
            "ratio": ratio.median,
            "low": ratio.low,
            "high": ratio.high,
            "speed": min(before) / min(after),
            "cpu": {"then": median(before), "now": median(after)},
            "peak_mib": {
                "then": median(run["peak_mib"] for run in self.then),
                "now": median(run["peak_mib"] for run in self.now),
            },
            "pairs": [{"then": a, "now": b} for a, b in zip(before, after, strict=True)],
            "wrong": sorted({text for run in self.now for text in run["wrong"]}),
        }


def against(
    commit: str, shapes: Sequence[str], pairs: int, say: Callable[[str], None]
) -> tuple[str, dict[str, dict[str, Any]]]:
    """The commit's short name, and for each shape how the working tree compares with it.

    Pairs go round over the shapes, and the sides take turns at being first, so that a busy minute of the machine
    falls on all of them alike.

    :raises InvalidInput: a shape or the commit does not exist.
    """
    for name in shapes:
        if name not in SHAPES:
            raise InvalidInput(f"shape {name!r}: not one of {', '.join(SHAPES)}")
    found = {name: Sides() for name in shapes}
    with trees(checkout_of_pumice(), commit) as (then, now):
        for pair in range(pairs):
            say(f"pair {pair + 1} of {pairs} …")
            for name, sides in found.items():
                if not sides.lacking:
                    _measure(name, sides, then, now, pair)
        return then.name, {name: sides.data() for name, sides in found.items()}


def _measure(name: str, sides: Sides, then: SourceTree, now: SourceTree, pair: int) -> None:
    """Add one run of each side; of a shape that is over at once, the best of some."""
    best: dict[SourceTree, dict[str, Any]] = {}
    turns = [then, now] if pair % 2 == 0 else [now, then]
    for _ in range(TRIES):
        for tree in turns:
            try:
                run = tree.measure(name, lender=now, seed=pair)
            except LacksShape as exc:
                sides.lacking = str(exc)
                return
            best[tree] = min(run, best.get(tree, run), key=lambda r: float(r["cpu"]))
        if max(run["cpu"] for run in best.values()) >= SHORT:
            break
    sides.then.append(best[then])
    sides.now.append(best[now])
