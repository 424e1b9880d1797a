"""preempt: room for starving jobs at the cost of others in their queue, and of lesser tasks in the same job."""

from __future__ import annotations

from pumice.framework.evicting.dryrun import DryRun, Width
from pumice.framework.evicting.eviction import ASKS as EVICTION_ASKS
from pumice.framework.evicting.eviction import RoomMaker
from pumice.framework.evicting.starving import ASKS as STARVING_ASKS
from pumice.framework.evicting.starving import StarvingJobs, may_preempt, waiting_tasks
from pumice.framework.plugin import Action, Argument, Arguments
from pumice.framework.points import table as points
from pumice.framework.points.table import PREEMPTABLE
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
    asks = (points.PREEMPTABLE, points.JOB_PIPELINED, *EVICTION_ASKS, *STARVING_ASKS)

    def execute(self, ssn: Session) -> None:
        """Serve every starving job once, best queue and best job first."""
        width = Width(self.percentage, self.least, self.most)
        maker = RoomMaker(ssn, self.name, PREEMPTABLE, asks_again=True, anywhere=True, remember=self.remember)
        search: RoomMaker | DryRun = DryRun(ssn, maker, width) if self.aware else maker
        starving = StarvingJobs(
            ssn, topology=False, worth=lambda job, queue: maker.possible.could_help(job, queue, queue.name.__eq__)
        )
        queues = starving.queues()
        while queues:
            queue = queues.pop()
            served = starving.of(queue)
            jobs = ssn.orders.job_heap(served)
            while jobs:
                job = jobs.pop()
                with held_by_others(ssn, queue, job):
                    self._between_jobs(ssn, maker, search, queue, job)
            for job in served:
                with held_by_others(ssn, queue, job):
                    self._within_job(ssn, maker, search, queue, job)

    def _between_jobs(self, ssn: Session, maker: RoomMaker, search: RoomMaker | DryRun, queue: Queue, job: Job) -> None:
        """Make room for a job at the cost of other jobs of its queue; all of it or nothing."""
        statement = ssn.statement()

        def make() -> None:
            for task in waiting_tasks(ssn, job):
                if not ssn.job_starving(job):
                    break
                self._serve(ssn, search, task, queue, statement, same_job=False)

        if maker.plan(job, statement, make):
            maker.settle(statement, job)

    def _within_job(self, ssn: Session, maker: RoomMaker, search: RoomMaker | DryRun, queue: Queue, job: Job) -> None:
        """Make room for tasks of a job at the cost of its lesser ones, one by one until one finds none."""
        for task in waiting_tasks(ssn, job):
            statement = ssn.statement()
            if not self._serve(ssn, search, task, queue, statement, same_job=True):
                return
            maker.settle(statement, job, task)

    def _serve(
        self,
        ssn: Session,
        search: RoomMaker | DryRun,
        task: Task,
        queue: Queue,
        statement: Statement,
        *,
        same_job: bool,
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

        return search.make(task, queue, statement, permits, None if same_job else queue.name.__eq__)
