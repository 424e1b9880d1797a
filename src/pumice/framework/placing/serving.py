"""Serving one job: what waits of it is placed in free room, and in room held for others where those come after it."""

from __future__ import annotations

from collections.abc import Callable

from pumice.framework.placing.topology import ASKS as TOPOLOGY_ASKS
from pumice.framework.placing.topology import place_by_topology, within
from pumice.framework.placing.waiting_tasks import ASKS as PLACING_ASKS
from pumice.framework.placing.waiting_tasks import WaitingTasks, place_in_sets, waiting_tasks_of
from pumice.framework.points import table as points
from pumice.framework.session.nominations import giving_way, held_by_others, that_give_way
from pumice.framework.session.pending_queue import QueueCursor
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Statement
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus

S = TaskStatus
ASKS = (
    *(points.OVERUSED, points.PRE_JOB_ALLOCATION, points.QUEUE_ORDER, points.JOB_ORDER, *PLACING_ASKS, *TOPOLOGY_ASKS),
)
PLACING = frozenset({"allocate", "easybackfill"})
"""The actions that place waiting jobs in the order of the pending queue."""
WAITS_FOR_RELEASE = "waits for resources that are being released"
Place = Callable[[Queue, Job, WaitingTasks], bool]
"""Place what waits of a job; True if something was committed."""


class Server:
    """Serves jobs for one action; what is left of a job is served in a later turn."""

    def __init__(self, ssn: Session, place: Place) -> None:
        self._ssn, self._place = ssn, place
        self._left: dict[str, WaitingTasks] = {}

    def serve(self, queue: Queue, cursor: QueueCursor, job: Job) -> bool:
        """Place what waits of a job; True if something was committed. A job that wants more is put back."""
        tasks = self._left.get(job.uid) or waiting_tasks_of(self._ssn, job)
        if not tasks:
            return False
        self._ssn.pre_job_allocation(job)
        held = self._ssn.state.rooms
        served = self._beside_holds(queue, job, tasks) if held else self._place(queue, job, tasks)
        if served and tasks:
            self._left[job.uid] = tasks
            cursor.requeue(self._ssn.orders.job_key()(job), job)
        return served

    def _beside_holds(self, queue: Queue, job: Job, tasks_left: WaitingTasks) -> bool:
        """Place a job in free room; where it cannot start there, in room held for those after it.

        Where it cannot start there either, it waits with as many tasks as possible on room that is free by now: else
        those after it would take one such room after the other, and it would never be whole.
        """
        ssn, kept = self._ssn, len(self._ssn.outcome.kept)
        whole = tasks_left.copy()

        def placed() -> bool:
            ssn.outcome.fit_errors.pop(job.uid, None)
            tasks_left.become(whole)
            with held_by_others(ssn, queue, job):
                return self._place(queue, job, tasks_left)

        if placed():
            return True
        weaker = that_give_way(ssn, queue, job)
        if not weaker:
            return False
        waits, at_once = len(ssn.outcome.kept) > kept, len(job.with_status(S.ALLOCATED))
        if waits:
            ssn.outcome.kept.pop().discard()
        with giving_way(ssn, job, weaker):
            if placed():
                return True
            if waits and len(ssn.outcome.kept) > kept:
                if len(job.with_status(S.ALLOCATED)) > at_once:
                    return False
                ssn.outcome.kept.pop().discard()
        return placed() if waits else False


def place_job(ssn: Session, queue: Queue, job: Job, tasks_left: WaitingTasks, remember: bool) -> Statement | None:
    """Place what waits of a job until it is ready; the statement if it is or may wait, else None with all undone."""
    if job.policies or tasks_left.by_topology:
        return place_by_topology(ssn, queue, job, tasks_left, remember)
    if job.has_topology:
        with within(ssn, ssn.hyper_nodes.top):
            return place_in_sets(ssn, queue, job, None, tasks_left.tasks, remember)
    return place_in_sets(ssn, queue, job, None, tasks_left.tasks, remember)
