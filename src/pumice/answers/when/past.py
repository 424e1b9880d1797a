"""What a cluster went through, event by event: run times are learned, and starts are predicted to see how that goes."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import sub
from typing import NamedTuple

from pumice.answers.when.calibration import Calibration, StartRange
from pumice.answers.when.forward import Arrival, Holder, Lane, Scene, Waiter, forecast
from pumice.answers.when.room import Amounts, Place, Pods
from pumice.answers.when.run_times import Kind, Run, RunTimes

DRAWS = 3
"""Plays of which the median is taken: their own spread says nothing, as hundreds of draws average out in each."""


LATELY, ENOUGH_CAME = 500, 20
"""Submissions that are remembered to know who will come, and how few are too few."""


class StartForecast(NamedTuple):
    """A prediction that was made, to see how it comes out."""

    job: str
    now: float
    said: float
    range: StartRange | None
    place: int
    """Among all that waited, by priority and age."""


@dataclass(slots=True, eq=False)
class PastJob:
    """A job that waits or runs."""

    job: str
    kind: Kind
    pods: Pods
    """What it needs to start."""
    submitted: float
    rank: float = 0.0
    """Who goes first: the lower, then the older."""
    declared: float = math.inf
    since: float | None = None
    """When it got its places; None while it waits."""
    places: Sequence[Place] = ()
    run: Run | None = None
    number: int = 0


@dataclass(slots=True)
class Past:
    """Follows the jobs of a cluster, and knows at each moment what was known then.

    A job that comes, and still waits when everything of that instant has happened, is predicted if *wants* says so.
    """

    wants: Callable[[PastJob], bool]
    told: Callable[[StartForecast], None] | None = None
    room: Mapping[str, Amounts] = field(default_factory=dict)
    """What each node has that takes pods."""
    lanes: Mapping[str, Lane] = field(default_factory=dict)
    times: RunTimes = field(default_factory=RunTimes)
    calibration: Calibration = field(default_factory=Calibration)
    now: float = -math.inf
    _jobs: dict[str, PastJob] = field(default_factory=dict)
    _waiting: list[tuple[float, float, int, PastJob]] = field(default_factory=list)
    _running: dict[str, PastJob] = field(default_factory=dict)
    _fresh: list[PastJob] = field(default_factory=list)
    _count: int = 0
    _came: deque[tuple[float, Kind, Pods]] = field(default_factory=lambda: deque(maxlen=LATELY))

    def coming(self) -> list[Arrival]:
        """Who came lately, with the time since the first of them; nobody where too few came to know."""
        if len(self._came) < ENOUGH_CAME:
            return []
        first = self._came[0][0]
        return [Arrival(at - first, kind, pods) for at, kind, pods in self._came]

    def advance(self, at: float) -> None:
        """Everything before this time has happened."""
        if at <= self.now:
            return
        fresh, self._fresh = self._fresh, []
        for job in fresh:
            if job.since is None and self._jobs.get(job.job) is job and self.wants(job):
                self._predict(job)
        self.now = at

    def came(self, job: PastJob) -> None:
        """A job is there, and waits."""
        self._count += 1
        job.number = self._count
        self._jobs[job.job] = job
        self._wait(job)
        self._fresh.append(job)
        self._came.append((self.now, job.kind, job.pods))

    def began(self, name: str, places: Sequence[Place], *, known: bool = True) -> None:
        """A job has its places; *known*: since just now."""
        job = self._jobs[name]
        self._wait_no_more(job)
        job.since, job.places = self.now, places
        job.run = self.times.began(job.kind, job.submitted, self.now) if known else None
        self._running[name] = job
        self.calibration.started(name, self.now)

    def interrupted(self, name: str) -> None:
        """A job lost its places, and waits again."""
        job = self._running.pop(name)
        if job.run is not None:
            self.times.dropped(job.run)
        job.since, job.run, job.places = None, None, ()
        self._wait(job)

    def ended(self, name: str) -> None:
        """A job is over, whether it ran or not."""
        job = self._jobs.pop(name)
        if job.since is None:
            self._wait_no_more(job)
            self.calibration.gone(name)
            return
        del self._running[name]
        if job.run is not None:
            self.times.ended(job.run, self.now)

    def knows(self, name: str) -> PastJob | None:
        """A job that waits or runs."""
        return self._jobs.get(name)

    def names(self) -> list[str]:
        """All of them."""
        return list(self._jobs)

    def scene(self) -> Scene:
        """What runs, what waits, what is free."""
        holders = [
            Holder(j.kind, j.places, j.since or 0.0, j.declared, j.submitted, j.job) for j in self._running.values()
        ]
        queue = [Waiter(j.job, j.kind, j.pods, j.declared, j.submitted) for _, _, _, j in self._waiting]
        free = dict(self.room)
        for job in self._running.values():
            for node, held in job.places:
                if node in free:
                    free[node] = tuple(map(sub, free[node], held))
        return Scene(self.now, free, holders, queue, self.lanes, coming=self.coming())

    def _predict(self, job: PastJob) -> None:
        said = forecast(self.scene(), self.times, draws=DRAWS, seed=job.number, last=job.job)[job.job]
        if not math.isfinite(said):
            return
        given = self.calibration.predicted(job.job, job.kind.queue, self.now, said)
        if self.told is not None:
            place = bisect_left(self._waiting, self._turn(job)) + 1
            self.told(StartForecast(job.job, self.now, said, given, place))

    def _turn(self, job: PastJob) -> tuple[float, float, int]:
        return job.rank, job.submitted, job.number

    def _wait(self, job: PastJob) -> None:
        insort(self._waiting, (*self._turn(job), job))

    def _wait_no_more(self, job: PastJob) -> None:
        del self._waiting[bisect_left(self._waiting, self._turn(job))]


def size_of(asks: Amounts) -> int:
    """The size class of what a job asks for: GPUs up to 16; of others, below zero, CPUs by powers of two."""
    cpu, _, gpus = asks
    return min(-(-gpus // 1000), 16) if gpus else -max(cpu // 1000, 1).bit_length()
