"""Which seeds are played, and when they are enough."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pumice.errors import InvalidInput
from pumice.sim.results.intervals import Interval
from pumice.sim.results.metrics import Metric, metric
from pumice.sim.results.seeds import seed_row
from pumice.sim.results.summary import Summary

MOST_LISTED: Final = 100_000
"""Seeds that may be asked for."""
MOST_SEEDS: Final = 64
"""Where the figures decide, no more seeds than these are played."""
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
_SURE = re.compile(r"(?:([a-z0-9_.]+)\s+)?([0-9.]+)\s*%")


def parse_seeds(text: str) -> list[int]:
    """Return the seeds that ``1..30``, ``30`` (the same) or ``1,4,9`` stand for.

    :raises InvalidInput: it stands for none.
    """
    found = _RANGE.fullmatch(text.strip())
    try:
        if found is None and "," in text:
            seeds = [int(part) for part in text.split(",")]
        else:
            low, high = (int(found[1]), int(found[2])) if found is not None else (1, int(text))
            if high - low >= MOST_LISTED:
                raise InvalidInput(f"must be at most {MOST_LISTED:,} seeds, got {text!r}")
            seeds = list(range(low, high + 1))
    except ValueError:
        raise InvalidInput(f"must be 1..30, 30 or 1,4,9, got {text!r}") from None
    if not seeds or len(set(seeds)) != len(seeds):
        raise InvalidInput(f"must be at least one seed and each once, got {text!r}")
    return seeds


@dataclass(frozen=True, slots=True)
class Sure:
    """Enough is known when a figure's interval is narrow: half of it at most a *part* of the figure."""

    metric: Metric[Summary]
    part: float

    def __call__(self, summaries: dict[str, dict[int, Summary]]) -> bool:
        row = seed_row(summaries, self.metric)
        if row is None:
            return False
        if len(row.effects) == 1:
            value = row.values[0]
            return value is not None and self._narrow(value, value.estimate)
        first = row.values[0]
        for effect in row.effects[1:]:
            if effect is None or first is None:
                return False
            if not self._narrow(effect.change, 1.0 if effect.scale == "ratio" else first.estimate):
                return False
        return True

    def _narrow(self, found: Interval, of: float) -> bool:
        return found.low is not None and found.high is not None and (found.high - found.low) / 2 <= self.part * abs(of)


def parse_sure(text: str) -> Sure:
    """Return when ``5%`` or ``wait.p95 5%`` is reached; the mean wait is meant where no figure is named.

    :raises InvalidInput: it is no such thing.
    """
    found = _SURE.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(
            f"must be a percentage, with a figure before it where not the mean wait is meant, got {text!r}"
        )
    part = float(found[2]) / 100
    if part <= 0:
        raise InvalidInput(f"must be above 0 %, got {text!r}")
    return Sure(metric(found[1] or "wait.mean"), part)
