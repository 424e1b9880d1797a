"""The waiting jobs of all queues, best queue and best job first: what allocate and easybackfill go through alike."""

from __future__ import annotations

from collections.abc import Callable

from pumice.framework.placing.topology import ASKS as TOPOLOGY_ASKS
from pumice.framework.placing.topology import place_by_topology, within
from pumice.framework.placing.waiting_tasks import ASKS as PLACING_ASKS
from pumice.framework.placing.waiting_tasks import WaitingTasks, place_in_sets, waiting_tasks_of
from pumice.framework.points import table as points
from pumice.framework.session.backlog import Visit
from pumice.framework.session.nominations import giving_way, held_by_others, that_give_way
from pumice.framework.session.refusals import Refusal, Stage
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Statement
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.status import JobPhase, TaskStatus

S = TaskStatus
ASKS = (
    *(points.OVERUSED, points.PRE_JOB_ALLOCATION, points.QUEUE_ORDER, points.JOB_ORDER, *PLACING_ASKS, *TOPOLOGY_ASKS),
)
PLACING = frozenset({"allocate", "easybackfill"})
"""The actions that place waiting jobs in this order."""
WAITS_FOR_RELEASE = "waits for resources that are being released"


class Turns:
    """Queues take turns; in each, one job is visited. A queue that is not put back is done."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        if "enqueue" not in ssn.actions:
            for waiting in list(ssn.state.unadmitted.values()):
                ssn.state.set_phase(waiting, JobPhase.INQUEUE)
        backlog = ssn.orders.backlog()
        self._visits: dict[str, Visit] = {name: backlog.visit(name) for name in backlog.queues()}
        queues = ssn.queues
        self._queues = ssn.orders.queue_heap([queues[name] for name in self._visits])
        self._tasks_left: dict[str, WaitingTasks] = {}

    def next(self) -> tuple[Queue, Visit] | None:
        """The queue whose turn it is, with its waiting jobs; those above their share are refused on the way."""
        ssn = self._ssn
        while self._queues:
            queue = self._queues.pop()
            visit = self._visits[queue.name]
            if not visit:
                continue
            over = ssn.overused(queue)
            if not over:
                return queue, visit
            refusal = Refusal.of(Stage.QUEUE, over, otherwise=f"queue {queue.name} is above its share")
            ssn.outcome.refusals.add_group(visit.rest, refusal, queue.name)
        return None

    def put_back(self, queue: Queue) -> None:
        """The queue gets another turn."""
        self._queues.push(queue)

    def serve(self, queue: Queue, visit: Visit, job: Job, place: Callable[[WaitingTasks], bool]) -> bool:
        """Let *place* place what waits of a job; True if something was committed. What is left is visited again.

        Room that is held for others is taken only where there is no other, and only from those who come after the job.
        """
        tasks_left = self._tasks_left.get(job.uid)
        if tasks_left is None:
            tasks_left = waiting_tasks_of(self._ssn, job)
        if not tasks_left:
            return False
        self._ssn.pre_job_allocation(job)
        if not self._ssn.state.rooms:
            served = place(tasks_left)
        else:
            served = self._beside_holds(queue, job, place, tasks_left)
        if served and tasks_left:
            self._tasks_left[job.uid] = tasks_left
            visit.push(self._ssn.orders.job_key()(job), job)
        return served

    def _beside_holds(
        self, queue: Queue, job: Job, place: Callable[[WaitingTasks], bool], tasks_left: WaitingTasks
    ) -> bool:
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
                return place(tasks_left)

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
