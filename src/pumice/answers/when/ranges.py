"""Forecasts as answers: a range for each job that waits, or why it never starts, and what that assumes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from operator import le

from pumice.answers.when.answer import WhenAnswer
from pumice.answers.when.calibration import SLACK, StartRange, applied
from pumice.answers.when.forward import NO_LANE, Scene, Waiter, forecast
from pumice.answers.when.learned import Learned
from pumice.answers.when.past import DRAWS
from pumice.answers.when.room import amounts_sum, total
from pumice.answers.when.run_times import RunTimes

FACTOR = 4.0
"""How wide a range is, either way, while no earlier prediction has come out."""
ORDER = "queues are served by their share, and their jobs in the conf's order, as soon as nodes have room"
ALONE = "new jobs come as often as lately where queues share, no node is added or lost, and nobody is evicted"
KNOWN = "jobs run as long as those of the same queue and size submitted next to them, at most as declared"
UNKNOWN = "a run time that is not declared is taken to be between ten minutes and ten hours"


def when_all(scene: Scene, learned: Learned | None = None, only: str = "") -> dict[str, WhenAnswer]:
    """When every waiting job will likely start, in their order; or *only* one of them."""
    if learned is None:
        return _told(scene, forecast(scene, RunTimes(), draws=DRAWS, last=only), None, 0, [ORDER, ALONE, UNKNOWN])
    with learned.lock:
        past = learned.past
        scene = replace(scene, coming=past.coming())
        said = forecast(scene, past.times, draws=DRAWS, last=only)
        errors, outcomes = past.calibration.errors(min(scene.now, past.now)), past.calibration.outcomes
        known = past.times.learned
    return _told(scene, said, errors, outcomes, [ORDER, ALONE, KNOWN if known else UNKNOWN])


def _told(
    scene: Scene,
    said: Mapping[str, float],
    errors: tuple[float, float, float] | None,
    outcomes: int,
    assumes: list[str],
) -> dict[str, WhenAnswer]:
    waiters = {waiter.job: waiter for waiter in scene.waiters}
    out = {}
    for job, seconds in said.items():
        queue = waiters[job].kind.queue if job in waiters else ""
        if not math.isfinite(seconds):
            why = _never(scene, waiters.get(job))
            out[job] = WhenAnswer(job=job, queue=queue, now=scene.now, verdict="never", why=why, assumes=assumes)
            continue
        found = applied(seconds, errors, outcomes) if errors is not None else _guess(seconds)
        out[job] = WhenAnswer(
            job=job,
            queue=queue,
            now=scene.now,
            verdict="range",
            low=found.low,
            likely=found.likely,
            high=found.high,
            measured=errors is not None,
            assumes=assumes,
        )
    return out


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


def _guess(said: float) -> StartRange:
    return StartRange(max((said + SLACK) / FACTOR - SLACK, 0.0), said, (said + SLACK) * FACTOR - SLACK, 0)
