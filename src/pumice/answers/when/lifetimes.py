"""How long things last, when some of them are not over yet: those count as lasting at least so long."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """A distribution (Kaplan and Meier): the values that were seen, and the part that is not above each."""

    values: list[float]
    below: list[float]
    last: float
    """The largest value, also of what is not over."""

    def at(self, part: float) -> float | None:
        """The value below which a part of all is; None if so many are not over that nobody knows."""
        found = bisect_left(self.below, part - 1e-12)
        return self.values[found] if found < len(self.values) else None

    def above(self, least: float, part: float) -> tuple[float | None, float]:
        """Of those above *least*, the value that has a part of them below it; and the part that is left if none has."""
        first = bisect_right(self.values, least)
        begins = self.below[first - 1] if first else 0.0
        wanted = begins + part * (1.0 - begins)
        found = max(bisect_left(self.below, wanted - 1e-12), first)
        if found < len(self.values):
            return self.values[found], 0.0
        unknown = 1.0 - (self.below[-1] if self.below else 0.0)
        return None, (1.0 - wanted) / unknown if unknown > 1e-9 else 0.5


def lifetimes(seen: Iterable[tuple[float, bool]]) -> Lifetimes:
    """The distribution of values of which each is over (False) or goes on (True)."""
    ordered = sorted(seen)
    left, stays = len(ordered), 1.0
    values, below = [], []
    for value, goes_on in ordered:
        if not goes_on:
            stays *= 1.0 - 1.0 / left
            values.append(value)
            below.append(1.0 - stays)
        left -= 1
    return Lifetimes(values, below, ordered[-1][0] if ordered else 0.0)
