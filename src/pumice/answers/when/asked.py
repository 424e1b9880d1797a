"""``when``: the question put to a state, to be answered by any thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from pumice.answers.tried import TryAnswer
from pumice.answers.when.answer import Verdict, WhenAnswer
from pumice.answers.when.forward import NO_SCENE, Scene
from pumice.answers.when.kept import Forecast, Forecasts
from pumice.answers.when.learned import Learned
from pumice.answers.when.ranges import when_all
from pumice.answers.why import WhyAnswer
from pumice.framework.explaining.explain import Explanation, Stage
from pumice.model.codes import ReasonCode
from pumice.model.status import TaskStatus

CANNOT_START: Final = "the job cannot start as it is"


@dataclass(frozen=True, slots=True)
class WhenQuestion:
    """All that is needed to say when a job starts, taken from a state. Any thread may answer it, at leisure."""

    why: WhyAnswer
    scene: Scene
    """Nothing where it is not needed: the job does not wait for room, or what is kept is young enough."""
    learned: Learned | None = None
    forecasts: Forecasts | None = None
    """Where forecasts are kept, if anywhere."""
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
    """What would become of jobs, with all that is needed to say when those would start that would have to wait."""

    tried: TryAnswer
    scene: Scene
    learned: Learned | None = None

    def answer(self) -> TryAnswer:
        """What would become of the jobs, and when."""
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
    """What is known without a play; ``range`` where one is needed."""
    if why.stage is Stage.SERVED:
        return "runs" if not why.tasks.get(TaskStatus.BINDING.title) else "now"
    if why.code == ReasonCode.CAN_NEVER_FIT:
        return "never"
    return "unknown" if why.stage is Stage.ABSENT or why.code == ReasonCode.NOT_ENOUGH_TASKS else "range"
