"""Two measurements side by side: the median of their ratios and how far it can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

CONFIDENCE: Final = 0.95
"""How often the interval holds the true median ratio, at least."""
FEWEST: Final = 6
"""Pairs below which no interval of that confidence exists."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as long the second of each pair took: the median over the pairs, and its interval."""

    median: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """``slower`` or ``faster`` only where the interval says so."""
        return "slower" if self.low > 1.0 else "faster" if self.high < 1.0 else "same"


def rank(pairs: int) -> int:
    """Which smallest and largest ratio bound the interval: the sign test's, exact for any distribution.

    :raises ValueError: there are fewer than `FEWEST` pairs.
    """
    outside, fewer = 0.0, 0
    while outside + math.comb(pairs, fewer) / 2**pairs <= (1 - CONFIDENCE) / 2:
        outside += math.comb(pairs, fewer) / 2**pairs
        fewer += 1
    if fewer == 0:
        raise ValueError(f"{pairs} pairs: an interval needs at least {FEWEST}")
    return fewer


def compare(before: Sequence[float], after: Sequence[float]) -> Ratio:
    """The ratio of *after* to *before*, measured in pairs.

    :raises ValueError: there are too few pairs, or not as many of one as of the other.
    """
    from statistics import median

    logs = sorted(math.log(b / a) for a, b in zip(before, after, strict=True))
    at = rank(len(logs)) - 1
    return Ratio(math.exp(median(logs)), math.exp(logs[at]), math.exp(logs[-1 - at]))
