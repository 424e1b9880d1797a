"""Intervals and tests over seeds: the mean, the ratio of two means, the median, and how rows are judged together.

A unit is a seed, or a part of a trace. Every interval of a mean is the hull of two: Hartigan's typical values (JASA
1969), which are exact where chance favours neither side, and the bootstrap-t with a tail for each side, which holds
where the values are lopsided. All resampling is drawn from fixed seeds, so the same values give the same interval.
The measurement behind the choice: docs/decisions/0009.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

FEWEST: Final = 6
"""Units that must differ for a verdict: chance alone favours one side five times of five in 6 of 100 studies."""
ALPHA: Final = 0.05
_ALL_SUBSETS_UP_TO = 13
_SUBSETS = 19_999
_RESAMPLES = 3_999
_NOTHING = 1e-9
_ROUNDING = 1e-7
"""An error below this part of the spread is rounding."""


class Interval(msgspec.Struct, frozen=True):
    """A mean and the 95 % interval around it. A limit that the data do not bound is ``None``."""

    estimate: float
    low: float | None = None
    high: float | None = None

    @property
    def bounded(self) -> bool:
        """Whether there is a limit on both sides."""
        return self.low is not None and self.high is not None

    def excludes(self, value: float) -> bool:
        """Report whether the value lies outside, so that it can be told from the estimate."""
        return (self.low is not None and value < self.low) or (self.high is not None and value > self.high)

    def shifted(self, plus: float) -> Interval:
        """Return the interval of the same quantity with *plus* added."""
        low, high = (None if end is None else end + plus for end in (self.low, self.high))
        return Interval(self.estimate + plus, low, high)


def mean_interval(values: Sequence[float], alpha: float = ALPHA) -> Interval:
    """Return the arithmetic mean of *values* and its interval, which misses in about *alpha* of all studies.

    There are no limits for fewer than `FEWEST` values. Values that are all equal are their own limits.
    """
    data = np.asarray(values, np.float64)
    count, mean = data.size, float(data.mean())
    if count < FEWEST:
        return Interval(mean)
    spread = float(data.std())
    if spread <= _NOTHING * abs(mean):
        return Interval(mean, mean, mean)
    members, counts = _subsets(count), _resamples(count)
    typical = _cut(_sums(members, data) / members.sum(axis=1), alpha)
    scaled = (data - mean) / spread
    moved, square = _sums(counts, scaled) / count, _sums(counts, scaled**2) / count
    errors = np.sqrt(np.maximum(square - moved**2, 0.0) / (count - 1))
    return _hull(mean, spread / math.sqrt(count - 1), typical, _studentised(moved, errors), alpha)


def ratio_interval(before: Sequence[float], after: Sequence[float], alpha: float = ALPHA) -> Interval | None:
    """Return the ratio of the arithmetic means, ``mean(after) / mean(before)``, and its interval.

    ``None`` if a mean is not above 0, so that there is no ratio. Without limits if fewer than `FEWEST` pairs differ;
    pairs that are all equal have the ratio 1 as their limits.
    """
    first, second = np.asarray(before, np.float64), np.asarray(after, np.float64)
    count, base, other = first.size, float(first.mean()), float(second.mean())
    if not (base > 0 and other > 0):
        return None
    differ = int((first != second).sum())
    if differ < FEWEST:
        return Interval(1.0, 1.0, 1.0) if not differ and count >= FEWEST else Interval(other / base)
    estimate = math.log(other / base)
    u, v = first / base, second / other
    members, counts = _subsets(count), _resamples(count)
    with np.errstate(divide="ignore", invalid="ignore"):
        # A subset in which the base never waited has an infinite ratio; if neither side waited, it tells nothing.
        logs = np.log(_sums(members, v) / _sums(members, u)) + estimate
        typical = _cut(np.nan_to_num(logs, nan=estimate, posinf=math.inf, neginf=-math.inf), alpha)
        mean_u, mean_v = _sums(counts, u) / count, _sums(counts, v) / count
        variance = (
            _sums(counts, v * v) / count / mean_v**2
            - 2 * _sums(counts, u * v) / count / (mean_u * mean_v)
            + _sums(counts, u * u) / count / mean_u**2
        ) / (count - 1)
        moved, errors = np.log(mean_v / mean_u), np.sqrt(np.maximum(variance, 0.0))
    statistics = _studentised(*(np.where(np.isfinite(part), part, 0.0) for part in (moved, errors)))
    error = math.sqrt(float(((v - u) ** 2).sum()) / count / (count - 1))
    found = _hull(estimate, error, typical, statistics, alpha)
    low, high = (None if end is None else math.exp(min(end, 700.0)) for end in (found.low, found.high))
    return Interval(other / base, low, high)


def median_interval(values: Sequence[float], alpha: float = ALPHA) -> Interval:
    """Return the median of *values* with its exact interval between two of them, whatever their distribution."""
    data = np.sort(np.asarray(values, np.float64))
    count, rank, below = data.size, 0, 0.0
    while rank < count // 2 and below + math.comb(count, rank) / 2**count <= alpha / 2:
        below += math.comb(count, rank) / 2**count
        rank += 1
    middle = float(np.median(data))
    return Interval(middle, float(data[rank - 1]), float(data[count - rank])) if rank else Interval(middle)


def sign_test(better: int, worse: int) -> float:
    """Return the exact two-sided p value of "as often better as worse". It says nothing about how much."""
    decided = better + worse
    tail = sum(math.comb(decided, k) for k in range(min(better, worse) + 1))
    return min(1.0, float(2 * tail / 2**decided))


def flip_test(steps: Sequence[float]) -> float:
    """Return the two-sided p value of "no effect" by the sign-flip test of the mean; exact up to 13 steps."""
    data = np.asarray(steps, np.float64)
    signs = 1.0 - 2.0 * _subsets(data.size)
    sums = np.abs(np.einsum("ij,j->i", signs, data))
    reached = sums >= abs(float(data.sum())) * (1 - 1e-12)
    # The steps as they are count among the flips; _subsets has every other sign pattern, or a draw of them.
    return float((1 + int(reached.sum())) / (1 + reached.size))


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Return Benjamini and Hochberg's adjusted p values: of rows up to 0.05 about 1 in 20 is chance."""
    found, least = [1.0] * len(p_values), 1.0
    for rank, at in sorted(enumerate(sorted(range(len(p_values)), key=p_values.__getitem__), 1), reverse=True):
        least = min(least, p_values[at] * len(p_values) / rank)
        found[at] = least
    return found


def unseen(count: int, alpha: float = ALPHA) -> float:
    """Return the largest share of all units that may differ although none of *count* did (the rule of three)."""
    return float(1 - alpha ** (1 / count))


# -- resampling -----------------------------------------------------------------------------------------------------
@lru_cache(maxsize=8)
def _subsets(count: int) -> Floats:
    """Which values belong to each of the subsets, a row for each: all, or many that are drawn. None is empty."""
    if count <= _ALL_SUBSETS_UP_TO:
        return ((np.arange(1, 2**count)[:, None] >> np.arange(count)) & 1).astype(np.float64)
    drawn = np.random.default_rng(count).random((_SUBSETS, count)) < 0.5
    return drawn[drawn.any(axis=1)].astype(np.float64)


@lru_cache(maxsize=8)
def _resamples(count: int) -> Floats:
    """How often each value is in each resample of *count* values with replacement, a row for each."""
    return np.random.default_rng(count).multinomial(count, [1 / count] * count, _RESAMPLES).astype(np.float64)


def _sums(weights: Floats, values: Floats) -> Floats:
    found: Floats = np.einsum("ij,j->i", weights, values)  # a product (@) would wake threads for so little
    return found


def _cut(values: Floats, alpha: float) -> tuple[float, float]:
    """The points that leave *alpha* / 2 on either side; infinite where there are too few values for so small a tail."""
    rank = int(alpha / 2 * (values.size + 1))
    if not rank:
        return -math.inf, math.inf
    ranked = np.partition(values, (rank - 1, values.size - rank))
    return float(ranked[rank - 1]), float(ranked[-rank])


def _studentised(moved: Floats, errors: Floats) -> Floats:
    """The t statistics of resamples. One without spread knows nothing of its own error and counts as infinite."""
    flat = errors < _ROUNDING
    endless = np.where(moved > _NOTHING, math.inf, np.where(moved < -_NOTHING, -math.inf, 0.0))
    return np.where(flat, endless, moved / np.where(flat, 1.0, errors))


def _hull(estimate: float, error: float, typical: tuple[float, float], statistics: Floats, alpha: float) -> Interval:
    low, high = _cut(statistics, alpha)
    first, last = min(typical[0], estimate - high * error), max(typical[1], estimate - low * error)
    return Interval(estimate, first if math.isfinite(first) else None, last if math.isfinite(last) else None)


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
