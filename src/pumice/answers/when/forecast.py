"""Forecasts: a range for each job that waits, kept for a while, and the question that any thread may answer."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import le
from typing import Final

import msgspec
from msgspec import structs

from pumice.answers.when.answer import Verdict, WhenAnswer
from pumice.answers.when.calibration import QueueCalibration
from pumice.answers.when.forward import NO_LANE, NO_SCENE, Scene, Waiter, amounts_sum, forecast, total
from pumice.answers.when.learned import DRAWS, Learned
from pumice.answers.when.run_times import RunTimes
from pumice.answers.why import TryAnswer, WhyAnswer
from pumice.framework.explaining.explain import Explanation, Stage
from pumice.model.codes import ReasonCode
from pumice.model.status import TaskStatus

NO_PAST = "nothing is known of how earlier forecasts came out (--past DIR, or the scheduler's history)"
ORDER = "queues are served by their share, and their jobs in the conf's order, as soon as nodes have room"
ALONE = "assumes that new jobs come as often as recently, the nodes stay, and no pod is evicted"
KNOWN = "jobs run as long as those of the same queue and size submitted next to them, at most as declared"
UNKNOWN = "jobs without a declared run time: assumed 10 min to 10 h"


@dataclass(frozen=True, slots=True)
class Forecasted:
    """A played scene: the predicted seconds of each waiting job, and what may be told of them."""

    seconds: Mapping[str, float]
    answers: Mapping[str, WhenAnswer]


NOT_PLAYED: Final = Forecasted({}, {})


def play(scene: Scene, learned: Learned | None = None, only: str = "") -> Forecasted:
    """Play a scene forward, for every waiting job in their order, or for *only* one of them."""
    queues = {waiter.kind.queue for waiter in scene.waiters}
    if learned is None:
        said = forecast(scene, RunTimes(), draws=DRAWS, last=only)
        past = dict.fromkeys(queues, QueueCalibration(doubt=NO_PAST))
        known = 0
    else:
        with learned.lock:
            scene = replace(scene, coming=learned.past.coming())
            said = forecast(scene, learned.past.times, draws=DRAWS, last=only)
            now = min(scene.now, learned.past.now)
            past = learned.past.calibration.by_queue(queues, now)
            known = learned.past.times.learned
    assumes = [ORDER, ALONE, KNOWN if known else UNKNOWN]
    waiters = {waiter.job: waiter for waiter in scene.waiters}
    answers = {job: _answer(scene, job, waiters.get(job), seconds, past, assumes) for job, seconds in said.items()}
    return Forecasted(said, answers)


def when_all(scene: Scene, learned: Learned | None = None, only: str = "") -> Mapping[str, WhenAnswer]:
    """Return when every waiting job will likely start, in their order; or *only* one of them."""
    return play(scene, learned, only).answers


def _answer(
    scene: Scene,
    job: str,
    waiter: Waiter | None,
    seconds: float,
    past: Mapping[str, QueueCalibration],
    assumes: list[str],
) -> WhenAnswer:
    queue = waiter.kind.queue if waiter is not None else ""
    answer = WhenAnswer(job=job, queue=queue, now=scene.now, verdict="unknown", assumes=assumes)
    if not math.isfinite(seconds):
        return structs.replace(answer, verdict="never", why=_never(scene, waiter))
    known = past.get(queue, QueueCalibration(doubt=NO_PAST))
    found = known.range_of(seconds)
    if found is None or known.doubt:
        return structs.replace(answer, unknown=known.doubt)
    return structs.replace(answer, verdict="range", low=found.low, likely=found.likely, high=found.high)


def _never(scene: Scene, waiter: Waiter | None) -> str:
    """Why a job does not start, however long it waits."""
    if waiter is None:
        return "it waits in no queue"
    lane, asks = scene.lanes.get(waiter.kind.queue, NO_LANE), total(waiter.pods)
    if lane.most is not None and not all(map(le, asks, lane.most)):
        return f"it asks for more than queue {waiter.kind.queue} may ever have"
    room = amounts_sum([*scene.free.values(), *(held for holder in scene.holders for _, held in holder.places)])
    if not all(map(le, asks, room)):
        return "it asks for more than there is, also when all that runs has ended"
    if lane.deserved is not None and not all(map(le, asks, lane.deserved)):
        return (
            f"it asks for more than the part of queue {waiter.kind.queue}, while others wait that have less than theirs"
        )
    return "no node will have room for it when what runs has ended"


log = logging.getLogger("pumice.when")

FRESH: Final = 10.0
"""Seconds for which a forecast is as good as a new one."""
KEPT: Final = 60.0
"""Seconds for which it is given at all, while a new one is made beside."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The starts of all jobs that were pending at one instant."""

    now: float
    said: Mapping[str, WhenAnswer]

    def of(self, job: str, now: float) -> WhenAnswer:
        """The forecast of a job, for a later reader."""
        said, age = self.said[job], max(now - self.now, 0.0)

        def left(seconds: float | None) -> float | None:
            return None if seconds is None else max(seconds - age, 0.0)

        if not age:
            return said
        assumes = [*said.assumes, f"what runs and waits is as it was {age:.0f} s ago"]
        low, likely, high = left(said.low), left(said.likely), left(said.high)
        return msgspec.structs.replace(said, now=now, age=age, low=low, likely=likely, high=high, assumes=assumes)


class Forecasts:
    """The last forecast of one state. The thread that owns the state asks what exists, any thread plays.

    A forecast older than FRESH is still given until it is older than KEPT, and its reader brings the scene for the next
    one. So who asks again and again waits for a play only at first.
    """

    def __init__(self) -> None:
        self._last: Forecast | None = None
        self._one = threading.Lock()
        """Plays run one at a time: a thread that waits for another one uses its result."""
        self._refreshing: threading.Thread | None = None

    def last(self, job: str, now: float) -> tuple[Forecast | None, bool]:
        """The answer about a job, if any; and whether a new scene is wanted."""
        last = self._last
        if last is None or job not in last.said or not 0.0 <= now - last.now <= KEPT:
            return None, True
        busy = self._refreshing is not None and self._refreshing.is_alive()
        return last, now - last.now > FRESH and not busy

    def play(self, scene: Scene, learned: Learned | None, job: str = "") -> Forecast:
        """A scene, played; or a newer result that was made meanwhile and contains *job*."""
        with self._one:
            last = self._last
            if last is not None and last.now >= scene.now and job in last.said:
                return last
            made = self._last = Forecast(scene.now, when_all(scene, learned))
            return made

    def refresh(self, scene: Scene, learned: Learned | None) -> None:
        """Play on a thread of its own; nobody waits for it."""

        def work() -> None:
            try:
                self.play(scene, learned)
            except Exception:
                log.exception("when: could not play forward; the last forecast is told while it is young")

        self._refreshing = threading.Thread(target=work, name="forecast", daemon=True)
        self._refreshing.start()


CANNOT_START: Final = "the job cannot start as it is"


@dataclass(frozen=True, slots=True)
class WhenQuestion:
    """All that is needed to say when a job starts, taken from a state. Any thread may answer it, at leisure."""

    why: WhyAnswer
    scene: Scene
    """Nothing where it is not needed: the job does not wait for room, or what is kept is young enough."""
    learned: Learned | None = None
    forecasts: Forecasts | None = None
    """The store of forecasts, if any."""
    kept: Forecast | None = None
    """The one that is told."""

    def why_and_when(self) -> WhyAnswer:
        """Why the job waits, and when it will likely start."""
        return msgspec.structs.replace(self.why, when=self.answer())

    def answer(self) -> WhenAnswer:
        """When the job will likely start."""
        return when_of(self.why.explanation, self.why.now, self._played)

    def _played(self) -> WhenAnswer:
        job = self.why.explanation.job
        if self.forecasts is not None:
            if self.kept is None:
                made = self.forecasts.play(self.scene, self.learned, job)
                if job in made.said:
                    return made.of(job, self.why.now)
            else:
                if self.scene is not NO_SCENE:
                    self.forecasts.refresh(self.scene, self.learned)
                return self.kept.of(job, self.why.now)
        return _alone(job, self.scene, self.learned)


@dataclass(frozen=True, slots=True)
class TryQuestion:
    """The result of jobs, with the scene to compute the starts of those that would wait."""

    tried: TryAnswer
    scene: Scene
    learned: Learned | None = None

    def answer(self) -> TryAnswer:
        """The results and starts of the jobs."""
        jobs = [
            msgspec.structs.replace(
                job, when=when_of(job.why, self.scene.now, partial(_alone, job.job, self.scene, self.learned))
            )
            if job.why
            else job
            for job in self.tried.jobs
        ]
        return msgspec.structs.replace(self.tried, jobs=jobs)


def _alone(job: str, scene: Scene, learned: Learned | None) -> WhenAnswer:
    """A play for one job, which ends with its start."""
    (answer,) = when_all(scene, learned, job).values()
    return answer


def when_of(why: Explanation, now: float, played: Callable[[], WhenAnswer]) -> WhenAnswer:
    """When a job will likely start, of which it is known why it does not now; *played* if it waits for room."""
    verdict = verdict_of(why)
    if verdict == "range":
        answer = played()
    else:
        unknown = CANNOT_START if verdict == "unknown" else ""
        answer = WhenAnswer(job=why.job, queue=why.queue, now=now, verdict=verdict, unknown=unknown)
    waits = answer.verdict not in ("runs", "now")
    return msgspec.structs.replace(
        answer,
        why="; ".join(filter(None, (why.text, answer.why))) if waits else "",
        runs=why.runs if waits else "",
        place=why.position,
        waiting=why.waiting if waits else 0,
    )


def verdict_of(why: Explanation) -> Verdict:
    """The answer without a play; ``range`` if one is needed."""
    if why.stage is Stage.SERVED:
        return "runs" if not why.tasks.get(TaskStatus.BINDING.title) else "now"
    if why.code == ReasonCode.CAN_NEVER_FIT:
        return "never"
    return "unknown" if why.stage is Stage.ABSENT or why.code == ReasonCode.NOT_ENOUGH_TASKS else "range"
