"""The few statistics that every figure is made of, each defined once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

SLOWDOWN_BOUND_S = 10.0
"""Jobs shorter than this count as this long in the bounded slowdown, so that tiny jobs do not rule the mean."""


Statistic = Literal["mean", "p50", "p95", "p99", "max"]
_PARTS: tuple[tuple[Statistic, int], ...] = (("p50", 50), ("p95", 95), ("p99", 99), ("max", 100))


class Distribution(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a figure is spread over jobs. Percentiles are nearest-rank, see ``percentile``.

    A job that is not done when the run ends counts with what it has waited until then: a lower bound of its value.
    """

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float
    open: int = 0
    """How many of the values are lower bounds."""
    at_least: tuple[Statistic, ...] = ()
    """The figures that are lower bounds because of them. A percentile below all of them is exact."""

    @classmethod
    def of(cls, values: Iterable[float], bounds: Iterable[float] = ()) -> Distribution | None:
        """Return the distribution of exact *values* and lower *bounds*, in any order; ``None`` without either."""
        exact, lower = sorted(values), list(bounds)
        ranked = sorted([*exact, *lower])
        if not ranked:
            return None
        highest = [*exact, *(math.inf for _ in lower)]
        p50, p95, p99, most = found = [percentile(ranked, part) for _, part in _PARTS]
        open_ = [name for (name, part), value in zip(_PARTS, found, strict=True) if value != percentile(highest, part)]
        mean = math.fsum(ranked) / len(ranked)
        return cls(len(ranked), mean, p50, p95, p99, most, len(lower), ("mean", *open_) if lower else ())


def percentile(ranked: Sequence[float], part: int) -> float:
    """Return the smallest of the *ranked* values that at least *part* percent of them do not exceed (nearest rank).

    It is always one of the values, never something between two. *ranked* ascends and is not empty.
    """
    rank = -(-part * len(ranked) // 100)  # ceil in whole numbers: 0.99 * n is not exact in floats
    return ranked[max(rank, 1) - 1]


def bounded_slowdown(completion: float, run: float) -> float:
    """Return how many times its run time a job took from submission to end, at least 1."""
    return max(1.0, completion / max(run, SLOWDOWN_BOUND_S))


def jain(values: Sequence[float]) -> float | None:
    """Return Jain's index of fairness: 1 when all are equal, 1/n when one has all; ``None`` if nobody has any."""
    top = max(values, default=0.0)
    if top == 0:
        return None
    parts = [value / top for value in values]  # tiny values must not vanish in their squares
    return math.fsum(parts) ** 2 / (len(parts) * math.fsum(part * part for part in parts))
