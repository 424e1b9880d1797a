"""What is learned from the past: run times, and how predictions like the next one came out."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pumice.answers.when.calibration import Calibration, StartRange
from pumice.answers.when.forward import Amounts, Holder, Scene, Waiter, forecast
from pumice.answers.when.run_times import Kind, RunTimes
from pumice.history.stories import Story, Told

DRAWS = 3
"""Plays of which the median is taken: their own spread says nothing, as hundreds of draws average out in each."""


class PastJob(NamedTuple):
    """A job whose story is known, up to the present."""

    job: str
    kind: Kind
    asks: Amounts
    submitted: float
    started: float = math.inf
    ended: float = math.inf
    rank: float = 0.0
    """Who goes first: the lower, then the older."""
    declared: float = math.inf


@dataclass(frozen=True, slots=True)
class StartOutcome:
    """A prediction, and how it came out."""

    job: str
    now: float
    predicted: float
    range: StartRange | None
    waited: float
    place: int
    recent: int
    """Jobs that started within the hour before."""


class Learned:
    """Run times and errors, learned by walking through the past, as they were known at each moment."""

    def __init__(self) -> None:
        self.times = RunTimes()
        self.calibration = Calibration()

    def walk(self, past: Sequence[PastJob], room: Amounts, ask: Callable[[PastJob], bool]) -> Iterator[StartOutcome]:
        """Go through the past; at the submission of every job that waits and that *ask* wants, predict its start."""
        events: list[tuple[float, int, int]] = []
        for at, job in enumerate(past):
            for rank, time in enumerate((job.ended, job.started, job.submitted)):
                if time < math.inf:
                    events.append((time, rank or 0, at))
        events.sort(key=lambda event: (event[0], _ORDER[event[1]], event[2]))
        holders: dict[int, Holder] = {}
        waiting: list[tuple[float, float, int]] = []
        free = list(room)
        starts: list[float] = []
        for time, what, at in events:
            job = past[at]
            if what == _ENDS:
                if holders.pop(at, None) is not None:
                    free = [a + b for a, b in zip(free, job.asks, strict=True)]
                    self.times.learn(job.kind, job.ended - job.started)
            elif what == _STARTS:
                waiting = [entry for entry in waiting if entry[2] != at]
                holders[at] = Holder(job.kind, job.asks, time, job.declared)
                free = [a - b for a, b in zip(free, job.asks, strict=True)]
                starts.append(time)
                self.calibration.started(job.job, time)
            else:
                insort(waiting, (job.rank, time, at))
                if job.started <= time or not ask(job):
                    continue
                place = next(n for n, entry in enumerate(waiting, 1) if entry[2] == at)
                before = [past[entry[2]] for entry in waiting[:place]]
                queue = [Waiter(other.job, other.kind, other.asks, other.declared) for other in before]
                scene = Scene(time, tuple(free), list(holders.values()), queue)
                said = forecast(scene, self.times, draws=DRAWS, seed=at, last=job.job)[job.job]
                if not math.isfinite(said):
                    continue
                given = self.calibration.range_of(said, time)
                self.calibration.predicted(job.job, time, said)
                recent = len(starts) - _first_after(starts, time - 3600.0)
                yield StartOutcome(job.job, time, said, given, job.started - time, place, recent)


_ENDS, _STARTS = 0, 1
_ORDER = {_ENDS: 0, 2: 1, _STARTS: 2}
"""At one instant room is freed before anybody comes, and who comes does so before it starts."""


def _first_after(times: Sequence[float], limit: float) -> int:
    low, high = 0, len(times)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if times[middle] <= limit else (low, middle)
    return low


def past_of(told: Told) -> tuple[list[PastJob], Amounts]:
    """The jobs of a history, and the room of the nodes that are there at its end."""
    there = [stay.node for stay in told.nodes if stay.until is None]
    room = sum(n.cpu for n in there), sum(n.memory for n in there), sum(n.gpus for n in there) * 1000
    return [_past(story) for story in told.jobs if story.pods], room


def _past(story: Story) -> PastJob:
    asks = (
        sum(pods.count * pods.cpu for pods in story.pods),
        sum(pods.count * pods.memory for pods in story.pods),
        sum(pods.count * pods.gpus * pods.share for pods in story.pods),
    )
    begun = story.since if story.since is not None else math.inf
    return PastJob(
        story.job,
        Kind(story.queue, size_of(asks)),
        asks,
        story.submitted,
        begun if story.evictions or story.losses else story.placed if story.placed is not None else math.inf,
        story.ended if story.ended is not None and story.since is not None else math.inf,
        -story.priority,
        story.declared or math.inf,
    )


def size_of(asks: Amounts) -> int:
    """The size class of what a job asks for: GPUs up to 16; of others, below zero, CPUs by powers of two."""
    cpu, _, gpus = asks
    return min(-(-gpus // 1000), 16) if gpus else -max(cpu // 1000, 1).bit_length()
