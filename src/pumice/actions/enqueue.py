"""enqueue: let pending jobs into their queues while the votes permit it."""

from __future__ import annotations

from collections.abc import Hashable

from pumice.framework.plugin import Action
from pumice.framework.session import Session
from pumice.model.job import Job
from pumice.model.reason import Verdict
from pumice.model.status import JobPhase, TaskStatus

S = TaskStatus


class Enqueue(Action):
    """Moves PodGroups from Pending to Inqueue, queue by queue in order. A rejected job does not hold up the next."""

    name = "enqueue"

    def execute(self, ssn: Session) -> None:
        """Ask for every pending job once, best first."""
        unadmitted = ssn.state.unadmitted
        if not unadmitted:
            return
        by_queue: dict[str, list[Job]] = {}
        for job in unadmitted.values():
            by_queue.setdefault(job._queue, []).append(job)
        for jobs in by_queue.values():
            jobs.sort(key=ssn.job_key(), reverse=True)
        queues = ssn.queue_heap(ssn.queues[name] for name in by_queue)
        votes: dict[Hashable, Verdict] = {}
        while queues:
            queue = queues.pop()
            jobs = by_queue[queue.name]
            if not jobs:
                continue
            job = jobs.pop()
            verdict = self._vote(ssn, job, votes)
            if verdict:
                ssn.job_enqueued(job)
                ssn.set_phase(job, JobPhase.INQUEUE)
                votes.clear()
            else:
                ssn.refuse(job, "enqueue", verdict.text or "not let into the queue", verdict.plugin)
            queues.push(queue)

    def _vote(self, ssn: Session, job: Job, votes: dict[Hashable, Verdict]) -> Verdict:
        if (job._by_status[S.BOUND] or job._by_status[S.RUNNING]) and not ssn.compat.begun_jobs:
            return Verdict(True)  # it was let in before, and whoever noted that was cut short
        if job._min_resources is None and ssn.compat.enqueue_without_min_resources:
            return Verdict(True)
        key = ssn.enqueue_key(job) if votes else None
        known = votes.get(key) if key is not None else None
        if known is None:
            known = ssn.job_enqueueable(job)
            if not known:  # equal jobs will hear the same until somebody is let in
                key = key if key is not None else ssn.enqueue_key(job)
                if key is not None:
                    votes[key] = known
        return known
