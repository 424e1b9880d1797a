"""Serving one job: its pending tasks are placed in free room, then in room reserved for jobs behind it, and bound.

Pods that leave a queue count until they are gone: nothing is bound in their place before.
"""

from __future__ import annotations

from collections.abc import Callable

from pumice.framework import quota
from pumice.framework.placing.topology import ASKS as TOPOLOGY_ASKS
from pumice.framework.placing.topology import place_by_topology, within
from pumice.framework.placing.waiting_tasks import ASKS as PLACING_ASKS
from pumice.framework.placing.waiting_tasks import WaitingTasks, place_in_sets, waiting_tasks_of
from pumice.framework.points import table as points
from pumice.framework.session.nominations import giving_way, held_by_others, that_give_way
from pumice.framework.session.outcome import Refusal, Stage
from pumice.framework.session.pending_queue import QueueCursor
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Statement
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.resources import Number, dim_name
from pumice.model.status import TaskStatus
from pumice.words import counted

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

        If it cannot start there either, it waits with as many tasks as possible on room that is free by now. Otherwise
        later jobs would take such room one after the other, and the job would never be whole.
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


def bind_placed(ssn: Session, job: Job, statement: Statement) -> bool:
    """Commit the places of a job that is ready; True if that was done.

    If its queue, or one above it, would exceed its capability together with its leaving pods, the places are kept for
    this session, and the job waits for the end of these pods.
    """
    crowded = None if ssn.compat.leaving_pods else _crowded(ssn, job)
    if crowded is None:
        return statement.commit()
    queue, d = crowded
    pods = sum(1 for task in ssn.state.leaving.values() if quota.is_below(ssn.queues, task.job.queue, queue.name))
    told = f"{counted(pods, 'pod')} that leave it are gone"
    text = f"queue {queue.name} is at its capability of {dim_name(d)} until {told}"
    statement.keep()
    ssn.outcome.refusals.add(job, Refusal(Stage.QUEUE, text, advice=f"the pods that leave queue {queue.name} are gone"))
    return False


def _crowded(ssn: Session, job: Job) -> tuple[Queue, int] | None:
    """The first queue, from the job's own upwards, that is too full with what leaves it, and of what."""
    leaving = ssn.state.leaving
    if not leaving:
        return None
    queue = ssn.queues.get(job.queue)
    seen: set[str] = set()
    while queue is not None and queue.name not in seen:
        seen.add(queue.name)
        found = _too_full(ssn, queue) if queue.capability.amounts else None
        if found is not None:
            return queue, found
        queue = ssn.queues.get(queue.parent)
    return None


def _too_full(ssn: Session, queue: Queue) -> int | None:
    """The resource of which a queue holds more than its capability only together with what leaves it; None: of none."""
    tasks = [t for t in ssn.state.leaving.values() if quota.is_below(ssn.queues, t.job.queue, queue.name)]
    if not tasks:
        return None
    most, held = quota.capability_of(queue), dict[int, Number]()
    for below in ssn.queues.values():
        if quota.is_below(ssn.queues, below.name, queue.name):
            quota.added(held, below.allocated.amounts.items())
    for d, leaves in quota.summed(tasks).items():
        if d in most and held.get(d, 0) <= most[d] < held.get(d, 0) + leaves:
            return d
    return None
