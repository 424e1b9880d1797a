"""Which seeds or parts of a trace are played, and when they are enough."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from pumice.config.durations import SECOND, parse_duration
from pumice.errors import InvalidInput
from pumice.sim.results.intervals import ALPHA, FEWEST, Interval
from pumice.sim.results.metrics import Metric, metric
from pumice.sim.results.pairs import Effect, Scale
from pumice.sim.results.seeds import PRIMARY, SeedRow, seed_row
from pumice.sim.results.summary import Summary

MOST_LISTED: Final = 100_000
"""Seeds that may be asked for."""
LOOKS: Final = (20, 40, 80)
"""Seeds after which a study that stops by its figures looks at them. Each look has a third of the error of 5 %."""
LOOK_ALPHA: Final = ALPHA / len(LOOKS)
MOST_SEEDS: Final = LOOKS[-1]
"""If the figures decide, no more seeds than these are played."""
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


def parse_length(text: str) -> float:
    """Return the seconds that a part of a trace has: ``7d``, ``12h``.

    :raises InvalidInput: it is no duration, or none above 0.
    """
    seconds = parse_duration(text, days=True) / SECOND
    if seconds <= 0:
        raise InvalidInput(f"must be above 0, got {text!r}")
    return seconds


@dataclass(frozen=True, slots=True)
class Look:
    """The knowledge of a figure after some seeds: the change, or the value if there is one configuration."""

    seeds: int
    sure: bool
    found: Interval | None = None
    """At 98.3 %; of the configuration that is known least."""
    scale: Scale | None = None
    """The interval of a change; ``None`` for a value."""
    half: float = math.inf
    """Half of the interval, as a part of the change's base."""


@dataclass(frozen=True, slots=True)
class Sure:
    """Enough is known when a figure's interval is narrow: half of it at most a *part* of the figure.

    Equal values are no knowledge: fewer than `FEWEST` seeds that differ never end a study.
    """

    metric: Metric[Summary]
    part: float

    def __call__(self, summaries: dict[str, dict[int, Summary]]) -> bool:
        return self.look(summaries).sure

    def look(self, summaries: dict[str, dict[int, Summary]]) -> Look:
        """Return what these runs say. Asked after a number of seeds that is not among `LOOKS`, it is never sure."""
        seeds = len(set.intersection(*(set(runs) for runs in summaries.values())))
        row = seed_row(summaries, self.metric, LOOK_ALPHA)
        if row is None:
            return Look(seeds, False)
        looks = [self._value(row, seeds)] if len(row.effects) == 1 else [
            self._change(row, effect, seeds) for effect in row.effects[1:]
        ]  # fmt: skip
        return next((look for look in looks if not look.sure), max(looks, key=lambda look: look.half))

    def _value(self, row: SeedRow, seeds: int) -> Look:
        value, known = row.values[0], [one for one in row.by_seed[0] if one is not None]
        if value is None:
            return Look(seeds, False)
        half, differ = _half(value, abs(value.estimate)), len(known) - max(Counter(known).values())
        return Look(seeds, seeds in LOOKS and differ >= FEWEST and half <= self.part, value, None, half)

    def _change(self, row: SeedRow, effect: Effect | None, seeds: int) -> Look:
        first = row.values[0]
        if effect is None or first is None:
            return Look(seeds, False)
        half = _half(effect.change, 1.0 if effect.scale == "ratio" else abs(first.estimate))
        sure = seeds in LOOKS and effect.differ >= FEWEST and half <= self.part
        return Look(seeds, sure, effect.change, effect.scale, half)


def _half(found: Interval, of: float) -> float:
    if found.low is None or found.high is None or not of:
        return math.inf
    return (found.high - found.low) / 2 / of


def parse_sure(text: str, primary: str = PRIMARY) -> Sure:
    """Return when ``5%`` or ``wait.p95 5%`` is reached; the primary figure is meant if none is named.

    :raises InvalidInput: it is no such thing.
    """
    found = _SURE.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(
            f"must be a percentage, with a figure before it if not the primary one is meant, got {text!r}"
        )
    part = float(found[2]) / 100
    if part <= 0:
        raise InvalidInput(f"must be above 0 %, got {text!r}")
    return Sure(metric(found[1] or primary), part)
