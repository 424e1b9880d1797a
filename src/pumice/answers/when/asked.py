"""``when``: the question put to a state, and the answer with what it assumes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import le

import msgspec

from pumice.answers.tried import TryAnswer
from pumice.answers.when.answer import Verdict, WhenAnswer
from pumice.answers.when.calibration import SLACK, StartRange, applied
from pumice.answers.when.forward import NO_LANE, Scene, Waiter, forecast
from pumice.answers.when.learned import Learned
from pumice.answers.when.past import DRAWS
from pumice.answers.when.room import amounts_sum, total
from pumice.answers.when.run_times import RunTimes
from pumice.answers.why import WhyAnswer
from pumice.framework.explaining.explain import Explanation, Stage
from pumice.model.codes import ReasonCode
from pumice.model.status import TaskStatus

FACTOR = 4.0
"""How wide a range is, either way, while no earlier prediction has come out."""
ORDER = "queues are served by their share, and their jobs in the conf's order, as soon as nodes have room"
ALONE = "new jobs come as often as lately where queues share, no node is added or lost, and nobody is evicted"
KNOWN = "jobs run as long as those of the same queue and size submitted next to them, at most as declared"
UNKNOWN = "a run time that is not declared is taken to be between ten minutes and ten hours"


@dataclass(frozen=True, slots=True)
class WhenQuestion:
    """All that is needed to say when a job starts, taken from a state. Any thread may answer it, at leisure."""

    why: WhyAnswer
    scene: Scene
    learned: Learned | None = None

    def why_and_when(self) -> WhyAnswer:
        """Why the job waits, and when it will likely start."""
        return msgspec.structs.replace(self.why, when=self.answer())

    def answer(self) -> WhenAnswer:
        """When the job will likely start."""
        return when_of(self.why.explanation, self.scene, self.learned)


@dataclass(frozen=True, slots=True)
class TryQuestion:
    """What would become of jobs, with all that is needed to say when those would start that would have to wait."""

    tried: TryAnswer
    scene: Scene
    learned: Learned | None = None

    def answer(self) -> TryAnswer:
        """What would become of the jobs, and when."""
        jobs = [
            msgspec.structs.replace(job, when=when_of(job.why, self.scene, self.learned)) if job.why else job
            for job in self.tried.jobs
        ]
        return msgspec.structs.replace(self.tried, jobs=jobs)


def when_of(why: Explanation, scene: Scene, learned: Learned | None) -> WhenAnswer:
    """When a job will likely start, of which it is known why it does not now."""
    verdict = _verdict(why)
    if verdict == "range":
        (answer,) = when_all(scene, learned, why.job).values()
    else:
        answer = WhenAnswer(job=why.job, queue=why.queue, now=scene.now, verdict=verdict)
    waits = answer.verdict not in ("runs", "now")
    return msgspec.structs.replace(
        answer,
        why="; ".join(filter(None, (why.text, answer.why))) if waits else "",
        place=why.position,
        waiting=why.waiting if waits else 0,
    )


def _verdict(why: Explanation) -> Verdict:
    if why.stage is Stage.SERVED:
        return "runs" if not why.tasks.get(TaskStatus.BINDING.title) else "now"
    if why.code == ReasonCode.CAN_NEVER_FIT:
        return "never"
    return "unknown" if why.stage is Stage.ABSENT or why.code == ReasonCode.NOT_ENOUGH_TASKS else "range"


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
