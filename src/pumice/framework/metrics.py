"""Numbers that plugins publish."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

Series = tuple[str, tuple[tuple[str, str], ...]]
"""A name, and labels sorted by name."""


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
    """Will anybody read them? If not, a plugin need not work out what it would only publish."""
    gauges: dict[Series, float] = field(default_factory=dict)
    counters: dict[Series, float] = field(default_factory=dict)
    histograms: dict[Series, Histogram] = field(default_factory=dict)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self.gauges[name, tuple(sorted(labels.items()))] = value

    def counter(self, name: str, by: float = 1, **labels: str) -> None:
        """Count something."""
        key = (name, tuple(sorted(labels.items())))
        self.counters[key] = self.counters.get(key, 0) + by

    def histogram(self, name: str, value: float, bounds: Sequence[float], **labels: str) -> None:
        """Add a value to a histogram; *bounds* are the upper bounds of its buckets, ascending, always the same ones."""
        key = (name, tuple(sorted(labels.items())))
        known = self.histograms.get(key)
        if known is None:
            known = self.histograms[key] = Histogram.empty(bounds)
        known.add(value)
