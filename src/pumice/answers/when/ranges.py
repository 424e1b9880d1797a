"""Forecasts as answers: a range for each job that waits, or why it never starts, and what that assumes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import le
from typing import Final

from msgspec import structs

from pumice.answers.when.answer import WhenAnswer
from pumice.answers.when.calibration import QueueCalibration
from pumice.answers.when.forward import NO_LANE, Scene, Waiter, forecast
from pumice.answers.when.learned import Learned
from pumice.answers.when.past import DRAWS
from pumice.answers.when.room import amounts_sum, total
from pumice.answers.when.run_times import RunTimes

NO_PAST = "nothing is known of how earlier forecasts came out (--past DIR, or the scheduler's history)"
ORDER = "queues are served by their share, and their jobs in the conf's order, as soon as nodes have room"
ALONE = "new jobs come as often as lately where queues share, no node is added or lost, and nobody is evicted"
KNOWN = "jobs run as long as those of the same queue and size submitted next to them, at most as declared"
UNKNOWN = "a run time that is not declared is taken to be between ten minutes and ten hours"


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
