"""preempt: room for starving jobs at the cost of others in their queue, and of lesser tasks in the same job."""

from __future__ import annotations

from pumice.framework.evicting.eviction_plan import PendingPreemptors, may_preempt, waiting_tasks
from pumice.framework.evicting.preemptor import ASKS as PREEMPTOR_ASKS
from pumice.framework.evicting.preemptor import CandidateNodes, Preemptor, RoomRequest
from pumice.framework.plugin import Action, Argument, Arguments
from pumice.framework.points import table as points
from pumice.framework.session.nominations import held_by_others
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Statement
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus
from pumice.model.task import Task

S = TaskStatus


class Preempt(Action):
    """Evicts within a queue: other jobs' tasks for a starving job, then lesser tasks of the starving job itself."""

    name = "preempt"
    remember = Argument(True, "Remember for equal tasks that they fit nowhere.", name="predicateErrorCacheEnable")
    aware = Argument(
        False,
        "Try the eviction of victims on candidate nodes, as kube-scheduler does.",
        name="enableTopologyAwarePreemption",
    )
    workers = Argument(16, "Has no effect.", name="topologyAwarePreemptWorkerNum", read=Arguments.get)
    percentage = Argument(10, "Candidates of all nodes.", name="minCandidateNodesPercentage", unit="percent")
    least = Argument(1, "At least so many candidates.", name="minCandidateNodesAbsolute")
    most = Argument(100, "At most so many candidates.", name="maxCandidateNodesAbsolute")
    asks = (points.PREEMPTABLE, points.JOB_PIPELINED, *PREEMPTOR_ASKS)

    def execute(self, ssn: Session) -> None:
        """Serve every starving job once, best queue and best job first."""
        compares = CandidateNodes(self.percentage, self.least, self.most) if self.aware else None
        preemptor = Preemptor(
            *(ssn, self.name, points.PREEMPTABLE),
            asks_again=True,
            anywhere=True,
            remember=self.remember,
            compares=compares,
        )
        starving = PendingPreemptors(
            ssn, topology=False, feasible=lambda job, queue: preemptor.capacity.may_fit(job, queue.name.__eq__)
        )
        queues = starving.queues()
        while queues:
            queue = queues.pop()
            served = starving.of(queue)
            jobs = ssn.orders.job_heap(served)
            while jobs:
                job = jobs.pop()
                with held_by_others(ssn, queue, job):
                    self._between_jobs(ssn, preemptor, queue, job)
            for job in served:
                with held_by_others(ssn, queue, job):
                    self._within_job(ssn, preemptor, queue, job)

    def _between_jobs(self, ssn: Session, preemptor: Preemptor, queue: Queue, job: Job) -> None:
        """Make room for a job at the cost of other jobs of its queue; all of it or nothing."""
        statement = ssn.statement()

        def serve() -> None:
            for task in waiting_tasks(ssn, job):
                if not ssn.job_starving(job):
                    break
                self._serve(ssn, preemptor, task, queue, statement, same_job=False)

        if preemptor.make_room_for_job(job, statement, serve):
            preemptor.settle(statement, job)

    def _within_job(self, ssn: Session, preemptor: Preemptor, queue: Queue, job: Job) -> None:
        """Make room for tasks of a job at the cost of its lesser ones, one by one until one finds none."""
        for task in waiting_tasks(ssn, job):
            statement = ssn.statement()
            if not self._serve(ssn, preemptor, task, queue, statement, same_job=True):
                return
            preemptor.settle(statement, job, task)

    def _serve(
        self, ssn: Session, preemptor: Preemptor, task: Task, queue: Queue, statement: Statement, *, same_job: bool
    ) -> bool:
        if not may_preempt(ssn, task) or not ssn.pre_predicate(task):
            return False
        job = task.job

        def permits(victim: Task) -> bool:
            """Placed by us, in the same queue, and of no more worth than a task that asks for nothing."""
            other = victim.job
            if victim.status not in (S.BOUND, S.RUNNING) or (task.best_effort and not victim.best_effort):
                return False
            if other is None or not other.in_session or other.queue != queue.name:
                return False
            return (other is job) == same_job

        return preemptor.make_room(
            RoomRequest(task, queue, statement, permits, None if same_job else queue.name.__eq__)
        )
