"""How predictions came out, and the range that follows for the next one."""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from dataclasses import dataclass

REMEMBERED = 2000
"""Outcomes that are remembered, the newest."""
ENOUGH = 50
"""With fewer there is no range."""
SLACK = 300.0
"""Seconds that are added on both sides before they are compared: being wrong by a minute is not being wrong."""
LOW, HIGH = 0.1, 0.9


@dataclass(frozen=True, slots=True)
class StartRange:
    """When something will be, in seconds from now: earlier in one of ten, later in one of ten."""

    low: float
    likely: float
    high: float
    outcomes: int
    """Predictions with a known outcome that it rests on."""


class Calibration:
    """The errors of past predictions, as ratios.

    A prediction whose job still waits says something too: the error is at least so large. Without these the long waits
    would be missing exactly while they matter. So errors are counted as lifetimes are (Kaplan and Meier): those that
    are not over yet are passed on to the larger ones.
    """

    def __init__(self) -> None:
        self._newest: deque[float] = deque()
        self._errors: list[float] = []
        self._open: dict[str, tuple[float, float]] = {}

    def predicted(self, job: str, now: float, seconds: float) -> None:
        """At *now* it was said that a job starts in so many seconds."""
        self._open[job] = now, seconds

    def started(self, job: str, now: float) -> None:
        """It did; who was never predicted is passed by."""
        said = self._open.pop(job, None)
        if said is None:
            return
        error = _error(now - said[0], said[1])
        self._newest.append(error)
        insort(self._errors, error)
        if len(self._newest) > REMEMBERED:
            self._errors.remove(self._newest.popleft())

    def gone(self, job: str) -> None:
        """It left without starting: nobody will know."""
        self._open.pop(job, None)

    @property
    def outcomes(self) -> int:
        """How many are known."""
        return len(self._newest)

    def range_of(self, seconds: float, now: float) -> StartRange | None:
        """The range of a prediction; None where too little is known."""
        if len(self._errors) < ENOUGH or not math.isfinite(seconds):
            return None
        low, middle, high = (self._quantile(part, now) for part in (LOW, 0.5, HIGH))
        return StartRange(_applied(seconds, low), _applied(seconds, middle), _applied(seconds, high), len(self._errors))

    def _quantile(self, part: float, now: float) -> float:
        bounds = [(_error(now - at, said), 1) for at, said in self._open.values() if now > at]
        entries = sorted([(error, 0) for error in self._errors] + bounds)
        at_risk, survives = len(entries), 1.0
        for error, unknown in entries:
            if not unknown:
                survives *= 1 - 1 / at_risk
                if 1 - survives >= part:
                    return error
            at_risk -= 1
        return entries[-1][0]


def _error(waited: float, said: float) -> float:
    return math.log((waited + SLACK) / (said + SLACK))


def _applied(seconds: float, error: float) -> float:
    return max((seconds + SLACK) * math.exp(error) - SLACK, 0.0)
