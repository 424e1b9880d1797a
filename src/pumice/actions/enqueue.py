"""enqueue: let pending jobs into their queues while the votes permit it."""

from __future__ import annotations

from collections.abc import Hashable

from pumice.framework.plugin import Action
from pumice.framework.points import table as points
from pumice.framework.session.outcome import Refusal, Stage
from pumice.framework.session.pending_queue import QueueCursor, forget_unadmitted, unadmitted_jobs
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.reason import Verdict
from pumice.model.status import JobPhase, TaskStatus

S = TaskStatus


class Enqueue(Action):
    """Moves PodGroups from Pending to Inqueue, queue by queue in order. A rejected job does not hold up the next."""

    name = "enqueue"
    asks = (points.JOB_ENQUEUEABLE, points.JOB_ENQUEUED, points.QUEUE_ORDER, points.JOB_ORDER)

    def execute(self, ssn: Session) -> None:
        """Ask for every pending job, best first; of those that get equal votes only the first, until one is let in."""
        waiting = ssn.state.unadmitted
        if len(waiting) < 2:
            forget_unadmitted(ssn)
            for job in list(waiting.values()):
                self._alone(ssn, job)
            return

        def group(job: Job) -> Hashable:
            key = None if self._let_in(ssn, job) else ssn.enqueue_key(job)
            return key if key is not None else job.uid

        admissions = unadmitted_jobs(ssn, group)
        cursors = admissions.cursors()
        queues = ssn.orders.queue_heap(ssn.queues[name] for name in cursors)
        since: dict[str, QueueCursor] = {}  # queues with a question since the last admission
        while queues:
            queue = queues.pop()
            cursor = cursors[queue.name]
            if not cursor:
                continue
            since[queue.name] = cursor
            job = cursor.pop()
            refusal = self._ask(ssn, job)
            if refusal is None:
                for other in since.values():  # votes may be other now; queues that came before this one are done
                    other.flush(ssn.outcome.refusals, cursor.key if other is cursor else None)
                since.clear()
            else:
                cursor.park(refusal)
            queues.push(queue)
        for cursor in since.values():
            cursor.flush(ssn.outcome.refusals)

    def _alone(self, ssn: Session, job: Job) -> None:
        """Ask for the only pending job: there is no order to be made."""
        if ssn.orders.queue_heap([ssn.queues[job.queue]]):
            self._ask(ssn, job)

    def _ask(self, ssn: Session, job: Job) -> Refusal | None:
        """Let a job in, or refuse it for what is returned then."""
        verdict = Verdict(True) if self._let_in(ssn, job) else ssn.job_enqueueable(job)
        if verdict:
            ssn.job_enqueued(job)
            ssn.state.set_phase(job, JobPhase.INQUEUE)
            return None
        refusal = Refusal.of(Stage.ENQUEUE, verdict, otherwise="not let into the queue")
        ssn.outcome.refusals.add(job, refusal)
        return refusal

    def _let_in(self, ssn: Session, job: Job) -> bool:
        """Report whether there is nothing to vote about."""
        if (job.with_status(S.BOUND) or job.with_status(S.RUNNING)) and not ssn.compat.begun_jobs:
            return True  # it was let in before, and whoever noted that was cut short
        return job.min_resources is None and ssn.compat.enqueue_without_min_resources
