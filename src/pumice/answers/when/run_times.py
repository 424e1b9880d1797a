"""How long jobs run: as those of the same kind that were submitted next to them, given how long one has run already.

People submit jobs that are alike in series. A run time is therefore drawn from started jobs of the same queue and size,
submitted nearest to it. Jobs that still run count as running at least that long.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """A distribution (Kaplan and Meier): the values that were seen, and the part that is not above each."""

    values: list[float]
    below: list[float]
    last: float
    """The largest value, also of what is not over."""

    def at(self, part: float) -> float | None:
        """The value below which a part of all is; None if so many are not over that nobody knows."""
        found = bisect_left(self.below, part - 1e-12)
        return self.values[found] if found < len(self.values) else None

    def above(self, least: float, part: float) -> tuple[float | None, float]:
        """Among values above *least*, the value that has a part of them below it; and the part that is left if none
        has."""
        first = bisect_right(self.values, least)
        begins = self.below[first - 1] if first else 0.0
        wanted = begins + part * (1.0 - begins)
        found = max(bisect_left(self.below, wanted - 1e-12), first)
        if found < len(self.values):
            return self.values[found], 0.0
        unknown = 1.0 - (self.below[-1] if self.below else 0.0)
        return None, (1.0 - wanted) / unknown if unknown > 1e-9 else 0.5


def lifetimes(seen: Iterable[tuple[float, bool]]) -> Lifetimes:
    """The distribution of values of which each is over (False) or goes on (True)."""
    ordered = sorted(seen)
    left, stays = len(ordered), 1.0
    values, below = [], []
    for value, goes_on in ordered:
        if not goes_on:
            stays *= 1.0 - 1.0 / left
            values.append(value)
            below.append(1.0 - stays)
        left -= 1
    return Lifetimes(values, below, ordered[-1][0] if ordered else 0.0)


REMEMBERED = 1000
"""Runs of each kind that are remembered, those of the newest submissions."""
NEAR, FAR = 20, 300
"""So many neighbours say how long a job runs; where too few of the near ones are over, the far ones do."""
ENOUGH = 10
"""So many of the neighbours must be over."""
BLOCK = 5
"""Jobs so near to each other have the same neighbours."""
GUESS = Lifetimes([600.0, 3600.0, 36_000.0], [1 / 3, 2 / 3, 1.0], 36_000.0)
"""The run time of an unknown size: anything from ten minutes to ten hours."""


class Kind(NamedTuple):
    """Jobs that are alike: of one queue and one size."""

    queue: str
    size: int

    @property
    def anywhere(self) -> Kind:
        """Those of this size in all queues."""
        return Kind("", self.size)


class Run:
    """One run of a job."""

    __slots__ = ("began", "ended", "kind")

    def __init__(self, kind: Kind, began: float) -> None:
        self.kind, self.began = kind, began
        self.ended: float | None = None


class RunTimes:
    """Runs of jobs by kind, in the order of their submission."""

    def __init__(self) -> None:
        self._runs: defaultdict[Kind, list[tuple[float, int, Run]]] = defaultdict(list)
        self._count = 0
        self.now = -math.inf
        """Until when it is known what runs."""
        self.learned = 0
        """Runs that ended."""

    def began(self, kind: Kind, submitted: float, at: float) -> Run:
        """A job of a kind began to run."""
        run = Run(kind, at)
        self._count += 1
        self.now = max(self.now, at)
        for known in (kind, kind.anywhere):
            runs = self._runs[known]
            insort(runs, (submitted, self._count, run))
            if len(runs) > REMEMBERED:
                del runs[0]
        return run

    def ended(self, run: Run, at: float) -> None:
        """It ran to its end."""
        run.ended = at
        self.now = max(self.now, at)
        self.learned += 1

    def dropped(self, run: Run) -> None:
        """It was interrupted: that says nothing of how long jobs run."""
        for known in (run.kind, run.kind.anywhere):
            self._runs[known] = [entry for entry in self._runs[known] if entry[2] is not run]

    def outlook(self) -> Outlook:
        """The current knowledge; valid until more is learned."""
        return Outlook(self._runs, self.now)


class Outlook:
    """Run times to draw from, as they are known at one instant."""

    def __init__(self, runs: dict[Kind, list[tuple[float, int, Run]]], now: float) -> None:
        self._runs, self._now = runs, now
        self._known: dict[tuple[Kind, int, int], tuple[Lifetimes, int]] = {}
        self._of: dict[tuple[Kind, float], Lifetimes] = {}

    def draw(self, kind: Kind, submitted: float, age: float, part: float, declared: float = math.inf) -> float:
        """A run time of a job that has run for *age*; *part* (0 to 1) picks one of those that are possible.

        It is never longer than declared, unless the job has run longer than that already.
        """
        known = self._of.get((kind, submitted))
        if known is None:
            known = self._of[kind, submitted] = self._possible(kind, submitted)
        time, left = known.above(age, part)
        if time is None:  # longer than all that ended: about as long again
            time = max(known.last, age) * (1.0 - math.log(max(left, 1e-9))) + 60.0
        return min(time, declared) if declared > age else time

    def _possible(self, kind: Kind, submitted: float) -> Lifetimes:
        found = GUESS
        for known in (kind, kind.anywhere):
            for many in (NEAR, FAR):
                near, over = self._neighbours(known, submitted, many)
                if over >= ENOUGH:
                    return near
                if over:
                    found = near
        return found

    def _neighbours(self, kind: Kind, submitted: float, many: int) -> tuple[Lifetimes, int]:
        runs = self._runs.get(kind)
        if not runs:
            return GUESS, 0
        place = bisect_left(runs, (submitted,)) // BLOCK * BLOCK
        known = self._known.get((kind, place, many))
        if known is None:
            first = max(0, min(place - many // 2, len(runs) - many))
            near = [run for _, _, run in runs[first : first + many]]
            seen = [(run.ended - run.began, False) for run in near if run.ended is not None]
            over = len(seen)
            seen += [(self._now - run.began, True) for run in near if run.ended is None]
            known = self._known[kind, place, many] = lifetimes(seen), over
        return known
