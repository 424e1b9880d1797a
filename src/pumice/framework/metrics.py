"""Numbers that plugins publish."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from pumice.errors import WrongCall, shown, words_of

Series = tuple[str, tuple[tuple[str, str], ...]]
"""A name, and labels sorted by name."""


_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


@lru_cache(maxsize=4096)
def _series(name: str, labels: tuple[tuple[str, object], ...]) -> Series:
    """A name with its labels: the same ones are published every cycle.

    :raises WrongCall: figures of that name cannot be read; an odd one would hide all others.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise WrongCall(f"metric {shown(name)}: a name is made of letters, digits, _ and :, and begins with no digit")
    for label, _ in labels:
        if not _LABEL.fullmatch(label):
            raise WrongCall(f"metric {name}: a label is made of letters, digits and _, got {shown(label)}")
    return name, tuple(sorted((label, words_of(value)) for label, value in labels))


def _number(name: str, value: float) -> float:
    if value.__class__ is float:
        return value
    try:
        return value if type(value) is int and -_EXACT < value < _EXACT else float(value)
    except (TypeError, ValueError, OverflowError):
        raise WrongCall(f"metric {name}: a value is a number, got {shown(value)}") from None


def _ascending(name: str, bounds: Sequence[float]) -> list[float]:
    found = [_number(name, bound) for bound in bounds]
    if any(math.isnan(bound) for bound in found) or sorted(set(found)) != found:
        raise WrongCall(f"metric {name}: bounds are ascending numbers, got {shown(bounds)}")
    return found


_EXACT = 2**53
"""Whole numbers below stay as they are."""


@dataclass(slots=True)
class Histogram:
    """How many values lie at or below each bound, and their sum; the last count is of those above all bounds."""

    bounds: tuple[float, ...]
    counts: list[int]
    sum: float = 0.0

    @classmethod
    def empty(cls, bounds: Sequence[float]) -> Histogram:
        """One without values."""
        return cls(tuple(bounds), [0] * (len(bounds) + 1))

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def merge(self, other: Histogram) -> None:
        """Count the values of another with the same bounds."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    def buckets(self) -> list[tuple[str, int]]:
        """Upper bound (as text) and how many values do not exceed it, up to ``+Inf``."""
        out, total = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            out.append((bound, total))
        return out


@dataclass(slots=True)
class Metrics:
    """Numbers that plugins publish; read after the cycle."""

    wanted: bool = True
    """Whether a reader exists. If not, a plugin need not work out what it would only publish."""
    gauges: dict[Series, float] = field(default_factory=dict)
    counters: dict[Series, float] = field(default_factory=dict)
    histograms: dict[Series, Histogram] = field(default_factory=dict)

    @property
    def untouched(self) -> bool:
        """Whether no figure was published."""
        return not (self.gauges or self.counters or self.histograms)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge.

        :raises WrongCall: no figure can have such a name, label or value.
        """
        self.gauges[_series(name, tuple(labels.items()))] = _number(name, value)

    def counter(self, name: str, by: float = 1, **labels: str) -> None:
        """Count something."""
        key = _series(name, tuple(labels.items()))
        self.counters[key] = self.counters.get(key, 0) + _number(name, by)

    def histogram(self, name: str, value: float, bounds: Sequence[float], **labels: str) -> None:
        """Add a value to a histogram; *bounds* are the upper bounds of its buckets, ascending, always the same ones."""
        key, value = _series(name, tuple(labels.items())), _number(name, value)
        known = self.histograms.get(key)
        if known is None:
            known = self.histograms[key] = Histogram.empty(_ascending(name, bounds))
        known.add(value)
