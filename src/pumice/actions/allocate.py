"""allocate: give pending tasks of ready-to-start jobs their places, a gang at a time."""

from __future__ import annotations

from pumice.framework.hypernodes import place_by_topology
from pumice.framework.plugin import Action
from pumice.framework.session import Session
from pumice.framework.worksheet import Worksheet, place_tasks, worksheet_of
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.status import JobPhase


class Allocate(Action):
    """Places tasks until their job is ready, then one more per visit, so that surplus replicas compete fairly."""

    name = "allocate"
    arguments_read = ("predicateErrorCacheEnable",)

    def execute(self, ssn: Session) -> None:
        """Try every waiting job, best queue and best job first."""
        remember = ssn.action_arguments(self.name).bool("predicateErrorCacheEnable", True)
        waiting = self._waiting(ssn)
        heaps = {name: ssn.job_heap(jobs) for name, jobs in waiting.items()}
        queues = ssn.queue_heap(ssn.queues[name] for name in waiting)
        sheets: dict[str, Worksheet] = {}
        while queues:
            queue = queues.pop()
            jobs = heaps[queue.name]
            if not jobs:
                continue
            over = ssn.overused(queue)
            if over:
                for job in jobs:
                    ssn.refuse(job, "queue", f"queue {queue.name} is above its share", over)
                continue
            job = jobs.pop()
            sheet = sheets.get(job.uid)
            if sheet is None:
                sheet = sheets[job.uid] = worksheet_of(ssn, job)
            if sheet and self._serve(ssn, queue, job, sheet, remember) and sheet:
                jobs.push(job)
            elif queue.dequeue_strategy == "fifo" and not ssn.job_ready(job):
                for left in jobs:
                    ssn.refuse(left, "queue", f"waits behind {job.uid} (strict FIFO)")
                continue
            queues.push(queue)

    def _waiting(self, ssn: Session) -> dict[str, list[Job]]:
        """Jobs with something to place, by queue."""
        admits = "enqueue" not in ssn.actions
        waiting: dict[str, list[Job]] = {}
        for job in list(ssn.jobs.values()) if admits else _with_pending(ssn):
            if job._phase in ("", JobPhase.PENDING):
                if not admits:
                    continue
                ssn.set_phase(job, JobPhase.INQUEUE)
            valid = ssn.job_valid(job)
            if not valid:
                ssn.refuse(job, "valid", valid.text, valid.plugin)
                continue
            if len(job._by_status[0]) > job._pending_best_effort:
                waiting.setdefault(job._queue, []).append(job)
        return waiting

    def _serve(self, ssn: Session, queue: Queue, job: Job, sheet: Worksheet, remember: bool) -> bool:
        """One visit of a job; True if something was committed."""
        ssn.pre_job_allocation(job)
        if job.policies or sheet.by_topology:
            statement = place_by_topology(ssn, queue, job, sheet, remember)
        else:
            statement = place_tasks(ssn, queue, job, None, sheet.tasks, remember)
        if statement is None:
            return False
        ready = ssn.job_ready(job)
        if ready:
            statement.commit()
            return True
        statement.keep()
        ssn.refuse(job, "ready", ready.text or "waits for resources that are being released", ready.plugin)
        return False


def _with_pending(ssn: Session) -> list[Job]:
    return [job for queue in ssn.queues.values() for job in queue._waiting.values()]
