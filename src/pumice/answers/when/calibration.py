"""How predictions came out, and the range that follows for the next one."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from pumice.answers.when.lifetimes import lifetimes

REMEMBERED = 2000
"""Outcomes that are remembered, the newest."""
ENOUGH = 50
"""With fewer there is no range."""
SLACK = 300.0
"""Seconds that are added on both sides before they are compared: being wrong by a minute is not being wrong."""
LOW, HIGH = 0.1, 0.9
"""What the ends of a range promise: it is earlier in one of ten, later in one of ten."""
ENDS = (0.06, 0.91)
"""The parts of past errors that are taken for it. Errors come in bursts, as all jobs of a bad hour share them; so the
next ones spread further than those that were seen."""
BIASED = (0.25, 0.75)
"""If no error lies between these parts of them, predictions are biased, and the middle is corrected by the median."""


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
    would be missing exactly while they matter. So errors are counted as lifetimes are.
    """

    def __init__(self) -> None:
        self._errors: deque[float] = deque(maxlen=REMEMBERED)
        self._open: dict[str, tuple[float, float]] = {}

    def predicted(self, job: str, now: float, seconds: float) -> None:
        """At *now* it was said that a job starts in so many seconds."""
        self._open[job] = now, seconds

    def started(self, job: str, now: float) -> None:
        """It did; who was never predicted is passed by."""
        said = self._open.pop(job, None)
        if said is not None:
            self._errors.append(_error(now - said[0], said[1]))

    def gone(self, job: str) -> None:
        """It left without starting: nobody will know."""
        self._open.pop(job, None)

    @property
    def outcomes(self) -> int:
        """How many are known."""
        return len(self._errors)

    def range_of(self, seconds: float, now: float) -> StartRange | None:
        """The range of a prediction; None where too little is known."""
        if not math.isfinite(seconds):
            return None
        errors = self.errors(now)
        return None if errors is None else applied(seconds, errors, len(self._errors))

    def errors(self, now: float) -> tuple[float, float, float] | None:
        """The errors at the ends and in the middle of a range; None where too little is known."""
        if len(self._errors) < ENOUGH:
            return None
        seen = [(error, False) for error in self._errors]
        seen += [(_error(now - at, said), True) for at, said in self._open.values() if now > at]
        found = lifetimes(seen)

        def at(part: float) -> float:
            error = found.at(part)
            return error if error is not None else found.last

        (low, high), (early, late) = map(at, ENDS), map(at, BIASED)
        middle = 0.0 if early <= 0.0 <= late else at(0.5)
        return low, min(max(middle, low), high), high


def applied(seconds: float, errors: tuple[float, float, float], outcomes: int) -> StartRange:
    """A prediction with errors, as a range."""
    low, middle, high = (max((seconds + SLACK) * math.exp(error) - SLACK, 0.0) for error in errors)
    return StartRange(low, middle, high, outcomes)


def _error(waited: float, said: float) -> float:
    return math.log((waited + SLACK) / (said + SLACK))
