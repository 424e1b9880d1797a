"""The result of pairs of runs: the size of a change, its interval, and whether it is more than chance.

Each pair is one seed, or one part of a trace, under two configurations. *Better* and *worse* are about the arithmetic
mean; *mostly better* is about how often, not about how much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from pumice.sim.results.intervals import (
    ALPHA,
    FEWEST,
    Interval,
    flip_test,
    mean_interval,
    ratio_interval,
    sign_test,
)

Verdict = Literal[
    "better",
    "worse",
    "mostly better",
    "mostly worse",
    "cannot tell",
    "no difference seen",
    "too few",
    "not comparable",
]
Scale = Literal["ratio", "difference"]
SURE: Final[frozenset[Verdict]] = frozenset({"better", "worse"})
"""Verdicts about the mean."""
MOST_ADVISED = 2_000
_PER_DIFFERING = 8
"""Pairs advised for each that must differ: with so many, studies that had too few hardly ever have too few again."""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """The change of a figure by a configuration, from pairs of runs with the same seed."""

    scale: Scale
    change: Interval
    """For a ``ratio``, the part by which the arithmetic mean grows, -0.4 for 40 % less; else the difference of
    means."""
    pairs: int
    better: int
    """Pairs in which the figure was better than in the first configuration."""
    worse: int
    verdict: Verdict
    p_value: float = 1.0
    """The p-value of the sign-flip test of the mean difference: how often chance alone does as much."""
    against: tuple[str, ...] = ()
    """The reason why it is not comparable: ``seed 3: default/job-1``, jobs that one side left unfinished."""
    advised: int | None = None
    """Pairs that would tell a change of this size, about; where these cannot tell."""
    alone: bool = False
    """A verdict about an exploratory figure that does not hold up among all figures that were looked at."""

    @property
    def differ(self) -> int:
        """How many pairs differ."""
        return self.better + self.worse


def effect(
    before: Sequence[float],
    after: Sequence[float],
    *,
    scale: Scale,
    lower_is_better: bool,
    against: Sequence[str] = (),
    alpha: float = ALPHA,
) -> Effect:
    """Return what changes from *before* to *after*, pair by pair. Jobs *against* it make it incomparable.

    A ratio is asked for in vain if one of both means is 0: then the change is the difference.
    """
    steps = [b - a for a, b in zip(before, after, strict=True)]
    ratio = ratio_interval(before, after, alpha) if scale == "ratio" else None
    change = ratio.shifted(-1.0) if ratio is not None else _difference(steps, alpha)
    fell, rose = sum(step < 0 for step in steps), sum(step > 0 for step in steps)
    better, worse = (fell, rose) if lower_is_better else (rose, fell)
    verdict: Verdict = "not comparable" if against else _verdict(change, better, worse, lower_is_better)
    return Effect(
        scale="difference" if ratio is None else "ratio",
        change=change,
        pairs=len(steps),
        better=better,
        worse=worse,
        verdict=verdict,
        p_value=flip_test(steps),
        against=tuple(against),
        advised=_advised(verdict, change, ratio is not None, len(steps), better + worse),
    )


def without_limits(found: Effect) -> Effect:
    """Return the change as these pairs show it, without an interval or a verdict: the pairs are not independent."""
    verdict: Verdict = found.verdict if found.against or not found.differ else "cannot tell"
    change = Interval(found.change.estimate)
    return msgspec.structs.replace(found, change=change, verdict=verdict, p_value=1.0, advised=None)


def _difference(steps: Sequence[float], alpha: float) -> Interval:
    if 0 < sum(map(bool, steps)) < FEWEST:
        return Interval(math.fsum(steps) / len(steps))
    return mean_interval(steps, alpha)


def _verdict(change: Interval, better: int, worse: int, lower_is_better: bool) -> Verdict:
    if not better + worse:
        return "no difference seen"
    if better + worse < FEWEST:
        return "too few"
    if change.excludes(0.0):
        return "better" if (change.estimate < 0) == lower_is_better else "worse"
    if sign_test(better, worse) <= ALPHA:
        return "mostly better" if better > worse else "mostly worse"
    return "cannot tell"


def _advised(verdict: Verdict, change: Interval, ratio: bool, pairs: int, differ: int) -> int | None:
    """How many pairs would tell: the interval narrows with the root of their number."""
    if verdict == "too few":
        return min(MOST_ADVISED, math.ceil(_PER_DIFFERING * pairs / differ))
    if verdict not in ("cannot tell", "mostly better", "mostly worse") or not change.estimate:
        return None
    if change.low is None or change.high is None or (ratio and change.low <= -1):
        return None
    low, high, middle = change.low, change.high, change.estimate
    if ratio:
        low, high, middle = math.log1p(low), math.log1p(high), math.log1p(middle)
    wanted = math.ceil(1.2 * pairs * ((high - low) / 2 / abs(middle)) ** 2)
    return wanted if pairs < wanted <= MOST_ADVISED else None


__all__ = ["FEWEST", "SURE", "Effect", "Interval", "Scale", "Verdict", "effect", "without_limits"]
