"""The few statistics that every figure is made of, each defined once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

SLOWDOWN_BOUND_S = 10.0
"""Jobs shorter than this count as this long in the bounded slowdown, so that tiny jobs do not rule the mean."""


class Distribution(msgspec.Struct, frozen=True):
    """How a figure is spread over jobs. Percentiles are nearest-rank, see ``percentile``."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Distribution | None:
        """Return the distribution of *values*, in any order; ``None`` if there are none."""
        ranked = sorted(values)
        if not ranked:
            return None
        p50, p95, p99 = (percentile(ranked, part) for part in (50, 95, 99))
        return cls(len(ranked), math.fsum(ranked) / len(ranked), p50, p95, p99, ranked[-1])


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
    """Return Jain's index of fairness: 1 when all are equal, 1/n when one has everything; ``None`` without values.

    Where nobody has anything, all are equal.
    """
    if not values:
        return None
    squares = math.fsum(value * value for value in values)
    if squares == 0:
        return 1.0
    return math.fsum(values) ** 2 / (len(values) * squares)
