"""What KAI's quotas count: cpu in thousandths, memory in bytes, GPUs in devices. -1 is without limit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, TypeAlias

Amounts: TypeAlias = tuple[float, float, float]
"""(cpu, memory, gpu)."""
NAMES: Final = ("cpu", "memory", "gpu")
NOTHING: Final[Amounts] = (0.0, 0.0, 0.0)
UNLIMITED: Final = -1.0
GPU: Final = 2


def plus(a: Amounts, b: Amounts) -> Amounts:
    """The sum."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def minus(a: Amounts, b: Amounts) -> Amounts:
    """The difference."""
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


def total(all_of: Iterable[Amounts]) -> Amounts:
    """The sum of several."""
    cpu = memory = gpu = 0.0
    for a in all_of:
        cpu, memory, gpu = cpu + a[0], memory + a[1], gpu + a[2]
    return (cpu, memory, gpu)


def finite(limit: float) -> float:
    """A limit as a number to compare with."""
    return math.inf if limit == UNLIMITED else limit


_SLACK: Final = 1e-9
"""Sums of fractions of a GPU are not exact."""


def with_slack(limits: Amounts) -> Amounts:
    """Limits to compare sums with: what is at most these is `within`."""
    cpu, memory, gpu = limits
    return (finite(cpu) + _SLACK, finite(memory) + _SLACK, finite(gpu) + _SLACK)


def within(a: Amounts, limits: Amounts) -> bool:
    """Is it at most the limits in every resource?"""
    x, y, z = limits
    return (
        (x == UNLIMITED or a[0] <= x + _SLACK)
        and (y == UNLIMITED or a[1] <= y + _SLACK)
        and (z == UNLIMITED or a[2] <= z + _SLACK)
    )


def exceeds(a: Amounts, limits: Amounts, of: Iterable[int] = range(3)) -> bool:
    """Is it above the limits in some resource, of those that count?"""
    for n in of:  # noqa: SIM110 - asked all the time
        if limits[n] != UNLIMITED and a[n] > limits[n] + _SLACK:
            return True
    return False
