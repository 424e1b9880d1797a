"""Jobs that wait with a single task, in as few steps as there are where nobody has to do with the steps between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pumice.engine.choose import NodeChoice
from pumice.framework.points import table as points
from pumice.framework.points.point import Point
from pumice.framework.session.session import Session
from pumice.framework.session.statement import nobody_between
from pumice.model.intents import Bind
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus

S = TaskStatus
_BEFORE: Final[Sequence[Point[..., Any, Any]]] = (
    *(points.PRE_JOB_ALLOCATION, points.PRE_PREDICATE, points.SUBSET_NODES),
)
"""Whoever answers here is asked between the choice of a job and its placement."""


class Alone:
    """Binds a job's only waiting task to its best node, as placing the job by a statement would.

    The questions are the same and in the same order; what is left out is what a single task does not need: a list of
    tasks, a log to undo them by, failures that are remembered for the next task. Where anything else comes of it than
    a bind, nothing is changed and the job is to be placed the long way.

    For jobs that the backlog groups by their class (`Visit.of_class`): they have no topology, sub-groups, gates or
    nominations.
    """

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._able = ssn.shard is None and ssn.of_registrations(_nobody_before)
        self.pays = True
        """Did it work the last time? While jobs fail, they are not tried twice."""

    def bind(self, queue: Queue, job: Job) -> bool:
        """Bind the one task of a job that waits with nothing else but tasks that ask for nothing; True if done."""
        ssn = self._ssn
        state, waiting = ssn.state, job.with_status(S.PENDING)
        if not (self._able and self.pays) or len(waiting) != job.pending_best_effort_count + 1:
            return False
        if state.rooms or state.leaving or not nobody_between(ssn):
            return False
        for task in waiting.values():
            if not task.best_effort:
                break
        if ssn.outcome.fit_errors.get(job.uid):
            return False
        self.pays = False
        if not ssn.allocatable(queue, task):
            return False
        found = ssn.search.chooser.choose(task)
        if not isinstance(found, NodeChoice) or not found.idle:
            return False
        node = found.node
        gpus = task.klass.requires_gpu
        state.move(task, S.ALLOCATED, node, devices=ssn.search.pick_devices(task, node) if gpus else ())
        if not ssn.job_ready(job):
            state.move(task, S.PENDING, None)
            return False
        state.confirm(task)
        ssn.outcome.intents.append(Bind(task.key, task.uid, node.name, task.job_key, {}, "", (), 0))
        self.pays = True
        return True


def _nobody_before(ssn: Session) -> bool:
    return not any(ssn.anybody(point) for point in _BEFORE)
