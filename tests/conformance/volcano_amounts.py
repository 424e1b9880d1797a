"""Amounts of resources as Volcano counts them: thousandths of CPUs, bytes, thousandths of anything else, whole pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

Amounts = dict[str, float]
LEAST = 0.1
_SUFFIXES = {
    **{s: Decimal(1000) ** n for n, s in enumerate(("m", "", "k", "M", "G", "T", "P"), -1)},
    **{s: Decimal(1024) ** n for n, s in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), 1)},
}


def number(quantity: Any) -> Decimal:
    """The number that a quantity says."""
    text = str(quantity)
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if suffix and text.endswith(suffix):
            return Decimal(text[: -len(suffix)]) * _SUFFIXES[suffix]
    return Decimal(text)


def read(listed: Mapping[str, Any] | None) -> Amounts:
    """A resource list in the units of the ledger."""
    out: Amounts = {"cpu": 0.0, "memory": 0.0}
    for name, quantity in (listed or {}).items():
        value = number(quantity)
        if name in ("memory", "pods"):
            out[name] = float(value.to_integral_value(ROUND_CEILING))
        elif name.startswith(("count/", "requests.")):
            continue
        elif name in ("cpu", "ephemeral-storage") or "/" in name or name.startswith("hugepages-"):
            out[name] = float((value * 1000).to_integral_value(ROUND_CEILING))
    return out


def added(left: Amounts, right: Mapping[str, float], sign: int = 1) -> Amounts:
    """The sum, or the difference."""
    out = dict(left)
    for name, value in right.items():
        out[name] = out.get(name, 0.0) + sign * value
    return out


def total(parts: Iterable[Mapping[str, float]]) -> Amounts:
    """The sum of many."""
    out: Amounts = {"cpu": 0.0, "memory": 0.0}
    for part in parts:
        out = added(out, part)
    return out


def at_most(x: float, y: float) -> bool:
    """Is x at most y, give or take a trace?"""
    return x < y or abs(x - y) < LEAST


def fits(left: Mapping[str, float], right: Mapping[str, float]) -> bool:
    """Is every amount at most the other one, where one that is missing is 0?"""
    return all(at_most(value, right.get(name, 0.0)) for name, value in left.items())


def stays(left: Mapping[str, float], right: Mapping[str, float], asked: Mapping[str, float]) -> bool:
    """The same for what is asked for, pods aside, and exactly."""
    return all(left.get(n, 0.0) <= right.get(n, 0.0) for n, v in asked.items() if v > 0 and n != "pods")


def beyond(left: Mapping[str, float], right: Mapping[str, float]) -> Amounts:
    """What the left has more than the right."""
    return {n: max(v - right.get(n, 0.0), 0.0) for n, v in left.items()}


def larger(left: Mapping[str, float], right: Mapping[str, float]) -> Amounts:
    """The larger of each."""
    return {n: max(left.get(n, 0.0), right.get(n, 0.0)) for n in {*left, *right}}


def is_nothing(amounts: Mapping[str, float]) -> bool:
    """Pods aside, is there not more than a trace of anything?"""
    return all(v < LEAST for n, v in amounts.items() if n != "pods")


def named(amounts: Mapping[str, float]) -> set[str]:
    """The names of which there is more than a trace."""
    return {n for n, v in amounts.items() if v >= LEAST}


def part(x: float, y: float) -> float:
    """x of y; something of nothing is all."""
    if y == 0:
        return 0.0 if x == 0 else 1.0
    return x / y
