"""backfill: places for tasks that ask for nothing."""

from __future__ import annotations

from pumice.engine.diagnosis import FitError
from pumice.framework.placing.serving import bind_placed
from pumice.framework.placing.waiting_tasks import NodeSearch, nowhere, placeable
from pumice.framework.plugin import Action, Argument
from pumice.framework.points import table as points
from pumice.framework.session.outcome import Stage
from pumice.framework.session.search import ASKS as SEARCH_ASKS
from pumice.framework.session.session import Session
from pumice.framework.session.statement import ASKS as STATEMENT_ASKS
from pumice.framework.session.statement import Statement
from pumice.model.job import Job
from pumice.model.status import TaskStatus
from pumice.model.task import Task


class Backfill(Action):
    """Places best-effort tasks wherever the predicates permit, and binds them when their job is ready."""

    name = "backfill"
    remember = Argument(True, "Remember for equal tasks that they fit nowhere.", name="predicateErrorCacheEnable")
    asks = (
        *(points.PRE_PREDICATE, points.JOB_READY, points.JOB_VALID, points.QUEUE_ORDER, points.JOB_ORDER),
        *(points.TASK_ORDER, *SEARCH_ASKS, *STATEMENT_ASKS),
    )

    def execute(self, ssn: Session) -> None:
        """Every waiting best-effort task once, in order of queue, job and task."""
        ssn.reopen_best_effort()
        if not ssn.state.best_effort:
            return
        for job, tasks in self._jobs(ssn):
            statement = ssn.statement()
            for task in tasks:
                self._place(ssn, job, task, statement, self.remember)
            if not statement.operations:
                continue
            ready = ssn.job_ready(job)
            if ready:
                bind_placed(ssn, job, statement)
            else:
                statement.keep()
                for error in ssn.outcome.fit_errors.get(job.uid, {}).values():
                    error.settle()  # when the session closes the reason could no longer be found
                ssn.outcome.refuse(job, Stage.READY, ready)

    def _place(self, ssn: Session, job: Job, task: Task, statement: Statement, remember: bool) -> None:
        """Give the task its place, or promise it one where a pod slot is still to be released."""
        said = ssn.pre_predicate(task)
        if not said:
            ssn.outcome.unfit(job, task, nowhere(ssn, said))
            return
        found = NodeSearch(ssn, remember).choose(task)
        if isinstance(found, FitError):
            ssn.outcome.unfit(job, task, found)
        elif found.idle:
            statement.allocate(task, found.node)
        else:
            statement.pipeline(task, found.node)

    def _jobs(self, ssn: Session) -> list[tuple[Job, list[Task]]]:
        by_queue: dict[str, list[Job]] = {}
        for job in ssn.state.best_effort.values():
            if job.in_session and not job.is_pending and not job.left_out and ssn.job_valid(job):
                by_queue.setdefault(job.queue, []).append(job)
        if not by_queue:
            return []
        out = []
        queues = ssn.orders.queue_heap(ssn.queues[name] for name in by_queue)
        while queues:
            for job in sorted(by_queue[queues.pop().name], key=ssn.orders.job_key()):
                waiting = [t for t in job.with_status(TaskStatus.PENDING).values() if t.best_effort and placeable(t)]
                out.append((job, ssn.orders.sorted_tasks(waiting)))
        return out
