"""reclaim: room for starving jobs at the cost of queues that hold more than they deserve."""

from __future__ import annotations

from pumice.framework.evicting.eviction_plan import PendingPreemptors, never_preempts, spares, waiting_tasks
from pumice.framework.evicting.freed_capacity import reclaimed_for
from pumice.framework.evicting.preemptor import ASKS as PREEMPTOR_ASKS
from pumice.framework.evicting.preemptor import Preemptor, RoomRequest
from pumice.framework.plugin import Action, Argument
from pumice.framework.points import table as points
from pumice.framework.session.nominations import held_by_others
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus
from pumice.model.task import Task

S = TaskStatus


class Reclaim(Action):
    """Evicts running tasks of other, reclaimable queues for jobs of a queue that is below its share."""

    name = "reclaim"
    remember = Argument(True, "Has no effect.", name="predicateErrorCacheEnable")
    asks = (points.RECLAIMABLE, points.OVERUSED, points.PREEMPTIVE, points.JOB_PIPELINED, *PREEMPTOR_ASKS)

    def execute(self, ssn: Session) -> None:
        """Serve every starving job once, best queue and best job first."""
        preemptor = Preemptor(ssn, self.name, points.RECLAIMABLE, asks_again=spares(ssn), anywhere=False)

        def feasible(job: Job, queue: Queue) -> bool:
            pending = job.with_status(S.PENDING).values()
            return preemptor.capacity.may_fit(job, reclaimed_for(ssn, queue)) and any(
                ssn.preemptive(queue, [t]) for t in pending
            )

        starving = PendingPreemptors(ssn, topology=True, feasible=feasible)
        queues = starving.queues()
        while queues:
            queue = queues.pop()
            if ssn.overused(queue):
                continue
            jobs = ssn.orders.job_heap(starving.of(queue))
            while jobs:
                job = jobs.pop()
                with held_by_others(ssn, queue, job):
                    self._serve(ssn, preemptor, queue, job)

    def _serve(self, ssn: Session, preemptor: Preemptor, queue: Queue, job: Job) -> None:
        """Make room for a job; all of it or nothing."""
        statement = ssn.statement()
        from_queue = reclaimed_for(ssn, queue)

        def permits(victim: Task) -> bool:
            other = victim.job
            return victim.status is S.RUNNING and other is not None and other.in_session and from_queue(other.queue)

        def serve() -> None:
            for task in waiting_tasks(ssn, job):
                if not ssn.job_starving(job):
                    break
                if never_preempts(task) or not ssn.preemptive(queue, [task]) or not ssn.pre_predicate(task):
                    continue
                preemptor.make_room(RoomRequest(task, queue, statement, permits, from_queue))

        if preemptor.make_room_for_job(job, statement, serve):
            preemptor.settle(statement, job)
