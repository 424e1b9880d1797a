"""What pairs of runs say: how large a difference is, within which limits, and whether it is more than chance.

Each pair is one seed under two configurations. The interval is that of Hartigan's typical values (JASA 1969): the means
of all subsets of the differences, or of many drawn ones, cut at 2.5 % on either side. It is what the sign-flip test
does not reject, so that interval and verdict never contradict each other. It holds at any number of pairs if chance
alone is as likely to favour either side, whatever the distribution. Why no bootstrap: docs/decisions/0008.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

Verdict = Literal["better", "worse", "cannot tell", "no change", "not comparable"]
Scale = Literal["ratio", "difference"]
FEWEST: Final = 6
"""Fewer pairs say nothing at 95 %: even if all favour one side, chance does that more often than once in twenty."""
_ALL_SUBSETS_UP_TO = 13
_SUBSETS = 19_999
_TAIL = 0.025
SHORTEST_S: Final = 1.0
"""Times below a second count as one second in a ratio: between 2 ms and 1 ms lies no factor that matters."""
MOST_ADVISED = 2_000


class Interval(msgspec.Struct, frozen=True):
    """A typical value and the 95 % interval around it; without limits where there are too few values for one."""

    estimate: float
    low: float | None = None
    high: float | None = None

    def excludes(self, value: float) -> bool:
        """Whether the value lies outside, so that it can be told from the estimate."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What a configuration changes about a figure, from pairs of runs with the same seed."""

    scale: Scale
    change: Interval
    """Of a ``ratio``: the part by which the figure grows, -0.4 for 40 % less (from the geometric mean of the ratios);
    else the mean difference."""
    pairs: int
    better: int
    """Pairs in which the figure was better than in the first configuration."""
    worse: int
    verdict: Verdict
    against: tuple[str, ...] = ()
    """Of what is not comparable: ``seed 3: default/job-1``, jobs that one of both left unfinished."""
    advised: int | None = None
    """Pairs that would tell a change of this size, about; where these cannot tell."""


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of *values* and its 95 % interval; without limits for fewer than `FEWEST`.

    The same values give the same interval: subsets are drawn from a fixed seed.
    """
    data = np.asarray(values, np.float64)
    mean = float(data.mean())
    if data.size < FEWEST:
        return Interval(mean)
    if data.min() == data.max():
        return Interval(mean, mean, mean)
    members, sizes = _subsets(data.size)
    means = np.sort(np.einsum("ij,j->i", members, data) / sizes)  # a product (@) would wake threads for so little
    cut = int(_TAIL * (means.size + 1))
    return Interval(mean, float(means[cut - 1]), float(means[-cut]))


@lru_cache(maxsize=64)
def _subsets(count: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Which values belong to each of the subsets, a row for each (all, or many that are drawn), and how many."""
    if count <= _ALL_SUBSETS_UP_TO:
        numbers = np.arange(1, 2**count)[:, None]
        members = ((numbers >> np.arange(count)) & 1).astype(np.float64)
    else:
        drawn = np.random.default_rng(count).random((_SUBSETS, count)) < 0.5
        members = drawn[drawn.any(axis=1)].astype(np.float64)
    return members, members.sum(axis=1)


def typical(values: Sequence[float], scale: Scale) -> Interval:
    """Return the typical one of the values of many seeds and its interval: their mean, of a ratio the geometric one."""
    if scale == "difference":
        return interval(values)
    return factors(interval([math.log(max(value, SHORTEST_S)) for value in values]), 0.0)


def effect(
    before: Sequence[float],
    after: Sequence[float],
    *,
    scale: Scale,
    lower_is_better: bool,
    against: Sequence[str] = (),
) -> Effect:
    """Return what changes from *before* to *after*, pair by pair. Jobs *against* it make it incomparable."""
    if scale == "ratio":
        steps = [math.log(max(b, SHORTEST_S) / max(a, SHORTEST_S)) for a, b in zip(before, after, strict=True)]
    else:
        steps = [b - a for a, b in zip(before, after, strict=True)]
    found = interval(steps)
    fell, rose = sum(step < 0 for step in steps), sum(step > 0 for step in steps)
    return Effect(
        scale=scale,
        change=factors(found, -1.0) if scale == "ratio" else found,
        pairs=len(steps),
        better=fell if lower_is_better else rose,
        worse=rose if lower_is_better else fell,
        verdict=_verdict(found, steps, lower_is_better, bool(against)),
        against=tuple(against),
        advised=_advised(found, len(steps)),
    )


def _verdict(found: Interval, steps: Sequence[float], lower_is_better: bool, doubtful: bool) -> Verdict:
    if doubtful:
        return "not comparable"
    if not any(steps):
        return "no change"
    if not found.excludes(0.0):
        return "cannot tell"
    return "better" if (found.estimate < 0) == lower_is_better else "worse"


def _advised(found: Interval, pairs: int) -> int | None:
    """How many pairs would tell: the interval narrows with the root of their number."""
    if found.low is None or found.high is None or found.excludes(0.0) or found.estimate == 0:
        return None
    half = (found.high - found.low) / 2
    wanted = math.ceil(1.2 * pairs * (half / abs(found.estimate)) ** 2)
    return wanted if pairs < wanted <= MOST_ADVISED else None


def factors(found: Interval, plus: float) -> Interval:
    """Return an interval of logarithms as one of factors, to which *plus* is added."""
    ends = (found.estimate, found.low, found.high)
    estimate, low, high = (None if end is None else math.exp(end) + plus for end in ends)
    assert estimate is not None
    return Interval(estimate, low, high)
