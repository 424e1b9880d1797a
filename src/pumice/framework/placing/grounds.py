"""Why jobs need not be tried: the refusal, and what it follows from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pumice.engine.fit_error import FitError
from pumice.framework.session.refusals import Refusal, Stage
from pumice.model.job import Job
from pumice.model.status import TaskStatus
from pumice.model.task import Task


class Ground(Enum):
    """What a refusal follows from."""

    NODES = "nodes"
    """The class fits nowhere."""
    ROOM = "room"
    """All nodes together have too little room for as many as are needed."""
    QUEUE = "queue"
    """The queue may not take it."""


@dataclass(slots=True)
class InVain:
    """Why jobs of a class need not be tried."""

    refusal: Refusal
    ground: Ground
    task: Task
    needed: int = 1


def too_little(task: Task, needed: int, room: int, error: FitError) -> InVain:
    """All nodes together have room for so many of the tasks of a gang, and not for as many as it needs."""
    text = f"{room} of {needed} required tasks have a place"
    return InVain(Refusal(Stage.READY, text, error=error, placed=room), Ground.ROOM, task, needed)


def first_waiting(job: Job) -> Task | None:
    """A waiting task that asks for something."""
    return next((t for t in job.with_status(TaskStatus.PENDING).values() if not t.best_effort), None)
