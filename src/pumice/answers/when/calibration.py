"""How predicted starts came out: the range that follows for the next one, and by queue whether such ranges held."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from pumice.answers.when.run_times import lifetimes
from pumice.words import counted

REMEMBERED = 2000
"""Outcomes of a queue that are remembered, the newest."""
JUDGED = 100
"""The newest outcomes by which the ranges of a queue are judged: older ones say little about the present load."""
ENOUGH = 20
"""Outcomes that a range needs, and past ranges of a queue that are needed before one is shown."""
SLACK = 300.0
"""Seconds that are added on both sides before they are compared: being wrong by a minute is not being wrong."""
LOW, HIGH = 0.1, 0.9
"""The promise of the ends of a range: the start is earlier in one of ten, later in one of ten."""
ENDS = (0.06, 0.91)
"""The parts of past errors that are taken for it. Errors come in bursts, as all jobs of a bad hour share them; so the
next ones spread further than those that were seen."""
LIKELY_HOLDS = (0.35, 0.65)
"""The part of past jobs that started before their likely time, if ranges are to be trusted: a half is promised."""
HIGH_HOLDS = (0.80, 0.97)
"""The part of past jobs that started before the end of their range: nine of ten are promised."""
BIASED = (0.25, 0.75)
"""If no error lies between these parts of them, predictions are biased, and the middle is corrected by the median."""


@dataclass(frozen=True, slots=True)
class StartRange:
    """When something will be, in seconds from now: earlier in one of ten, later in one of ten."""

    low: float
    likely: float
    high: float


@dataclass(frozen=True, slots=True)
class QueueCalibration:
    """The evidence of the past for a prediction of a queue."""

    errors: tuple[float, float, float] | None = None
    """Errors at the ends and in the middle of a range; None if too few outcomes are known."""
    doubt: str = ""
    """Why no start is shown; empty if past ranges of the queue held."""

    def range_of(self, seconds: float) -> StartRange | None:
        """Return the range of a prediction; None if too little is known."""
        if self.errors is None or not math.isfinite(seconds):
            return None
        low, middle, high = (max((seconds + SLACK) * math.exp(error) - SLACK, 0.0) for error in self.errors)
        return StartRange(low, middle, high)


@dataclass(frozen=True, slots=True)
class _Open:
    """A prediction whose job still waits."""

    queue: str
    at: float
    said: float
    range: StartRange | None


class Calibration:
    """The outcomes of past predictions: their errors, as ratios, and by queue whether the ranges held.

    A prediction of a pending job counts too: the error is at least that large, and a range with a past end did not
    hold. Without these the long waits would be missing exactly while they matter. So errors are counted as lifetimes
    are. All queues share their errors, as they share the nodes; each queue is judged by itself.
    """

    def __init__(self) -> None:
        self._errors: deque[float] = deque(maxlen=REMEMBERED)
        self._held: defaultdict[str, deque[tuple[bool, bool]]] = defaultdict(lambda: deque(maxlen=JUDGED))
        """Queue -> of each past range whether the job started before its likely time, and before its end."""
        self._open: dict[str, _Open] = {}

    def predicted(self, job: str, queue: str, now: float, seconds: float) -> StartRange | None:
        """Record that at *now* a job was predicted to start in so many seconds; return the range that followed."""
        given = QueueCalibration(self.errors(now)).range_of(seconds)
        self._open[job] = _Open(queue, now, seconds, given)
        return given

    def started(self, job: str, now: float) -> None:
        """Record the start of a job; one that was never predicted is ignored."""
        said = self._open.pop(job, None)
        if said is None:
            return
        waited = now - said.at
        self._errors.append(_error(waited, said.said))
        if said.range is not None:
            self._held[said.queue].append((waited <= said.range.likely, waited <= said.range.high))

    def gone(self, job: str) -> None:
        """Forget a job that left without starting: its outcome stays unknown."""
        self._open.pop(job, None)

    @property
    def outcomes(self) -> int:
        """The number of predictions whose outcome is remembered."""
        return len(self._errors)

    def errors(self, now: float) -> tuple[float, float, float] | None:
        """Return the errors at the ends and in the middle of a range; None if too little is known."""
        if len(self._errors) < ENOUGH:
            return None
        seen = [(error, False) for error in self._errors]
        seen += [(_error(now - one.at, one.said), True) for one in self._open.values() if now > one.at]
        found = lifetimes(seen)

        def at(part: float) -> float:
            error = found.at(part)
            return error if error is not None else found.last

        (low, high), (early, late) = map(at, ENDS), map(at, BIASED)
        middle = 0.0 if early <= 0.0 <= late else at(0.5)
        return low, min(max(middle, low), high), high

    def by_queue(self, queues: Iterable[str], now: float) -> dict[str, QueueCalibration]:
        """Return what the past says at *now* about predictions for each of these queues."""
        errors = self.errors(now)
        return {queue: QueueCalibration(errors, self._doubt(queue, now)) for queue in queues}

    def _doubt(self, queue: str, now: float) -> str:
        late = sum(
            1
            for one in self._open.values()
            if one.queue == queue and one.range is not None and now - one.at > one.range.high
        )
        held = [*self._held.get(queue, ()), *[(False, False)] * late]
        if len(held) < ENOUGH:
            jobs = counted(len(held), "past job")
            return f"{jobs} of queue {queue} show how forecasts come out; {ENOUGH} are needed"
        likely, high = (sum(side) / len(held) for side in zip(*held, strict=True))
        if LIKELY_HOLDS[0] <= likely <= LIKELY_HOLDS[1] and HIGH_HOLDS[0] <= high <= HIGH_HOLDS[1]:
            return ""
        return (
            f"forecasts for queue {queue} did not hold: of its last {len(held)} jobs {likely:.0%} started before the "
            f"likely time (35 to 65 % are needed) and {high:.0%} before the latest (80 to 97 %)"
        )


def _error(waited: float, said: float) -> float:
    return math.log((waited + SLACK) / (said + SLACK))
