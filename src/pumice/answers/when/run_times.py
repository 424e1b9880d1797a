"""How long jobs run: learned from those that ended, of the same kind, given how long one has run already."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections import defaultdict, deque
from typing import NamedTuple

REMEMBERED = 200
"""Run times of each kind that are remembered, the newest."""
ENOUGH = 20
"""With fewer a kind is not trusted, and the size alone decides."""
GUESS = (600.0, 3600.0, 36_000.0)
"""Where nothing is known of a size: anything from ten minutes to ten hours."""


class Kind(NamedTuple):
    """Jobs that are alike: of one queue and one size."""

    queue: str
    size: int

    @property
    def anywhere(self) -> Kind:
        """Those of this size in all queues."""
        return Kind("", self.size)


class RunTimes:
    """Run times of jobs that ended, by kind, oldest forgotten first."""

    def __init__(self) -> None:
        self._seen: defaultdict[Kind, deque[float]] = defaultdict(deque)
        self._sorted: defaultdict[Kind, list[float]] = defaultdict(list)
        self.learned = 0
        """Jobs that were learned from."""

    def learn(self, kind: Kind, seconds: float) -> None:
        """A job of a kind ended after running so long."""
        self.learned += 1
        for known in (kind, kind.anywhere):
            seen, ordered = self._seen[known], self._sorted[known]
            seen.append(seconds)
            insort(ordered, seconds)
            if len(seen) > REMEMBERED:
                ordered.pop(bisect_right(ordered, seen.popleft()) - 1)

    def draw(self, kind: Kind, age: float, part: float, declared: float = math.inf) -> float:
        """A run time of a job that has run for *age*; *part* (0 to 1) picks one of those that are possible.

        It is never longer than declared, unless the job has run longer than that already.
        """
        found = self._possible(kind)
        first = bisect_right(found, age)
        if first < len(found):
            time = found[first + int(part * (len(found) - first))]
        else:
            time = 2 * age + 60.0  # longer than all that were seen: as long again
        return min(time, declared) if declared > age else time

    def _possible(self, kind: Kind) -> list[float] | tuple[float, ...]:
        for known in (kind, kind.anywhere):
            if len(self._sorted[known]) >= ENOUGH:
                return self._sorted[known]
        return self._sorted[kind.anywhere] or GUESS
