"""allocate: give pending tasks of ready-to-start jobs their places, a gang at a time."""

from __future__ import annotations

from pumice.framework.placing.serving import ASKS as SERVING_ASKS
from pumice.framework.placing.serving import WAITS_FOR_RELEASE, Server, bind_placed, place_job
from pumice.framework.placing.waiting_tasks import WaitingTasks
from pumice.framework.plugin import Action, Argument
from pumice.framework.points import table as points
from pumice.framework.session.nominations import spared, that_give_way
from pumice.framework.session.outcome import Refusal, Stage, stage_of_invalid
from pumice.framework.session.pending_queue import (
    Cause,
    QueueCursor,
    QueueLoop,
    Unschedulable,
    first_waiting,
    postcheck,
    precheck,
)
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.queue import Queue


class Allocate(Action):
    """Places tasks until their job is ready, then one more per visit, so that surplus replicas compete fairly."""

    name = "allocate"
    remember = Argument(True, "Remember for equal tasks that they fit nowhere.", name="predicateErrorCacheEnable")
    asks = (points.JOB_VALID, *SERVING_ASKS)

    def execute(self, ssn: Session) -> None:
        """Try every waiting job, best queue and best job first."""
        remember = Allocate.remember.of(ssn.action_arguments(self.name))

        def place(queue: Queue, job: Job, tasks: WaitingTasks) -> bool:
            return _place(ssn, queue, job, tasks, remember)

        server, loop = Server(ssn, place), QueueLoop(ssn)
        for queue, cursor in loop:
            job = _next(ssn, queue, cursor)
            if job is None:
                continue
            if server.serve(queue, cursor, job):
                cursor.denied = False
            elif queue.dequeue_strategy == "fifo":
                if not ssn.job_ready(job):
                    _hold_back(ssn, queue, cursor, job)
                    continue
            elif cursor.of_class:
                verdict = postcheck(ssn, queue, job)
                if verdict is not None and not spared(ssn, job):
                    _reject(ssn, cursor, job, verdict)
            loop.put_back(queue)


def _next(ssn: Session, queue: Queue, cursor: QueueCursor) -> Job | None:
    """The next job of a queue that is worth trying; groups that are unschedulable are refused on the way."""
    strict = queue.dequeue_strategy == "fifo"
    while cursor:
        job = cursor.pop()
        valid = ssn.job_valid(job)
        if not valid:
            ssn.outcome.refuse(job, stage_of_invalid(valid), valid)
            continue
        task = first_waiting(job) if cursor.of_class else None
        verdict = precheck(ssn, queue, job, task, ask_queue=cursor.denied) if task is not None else None
        if task is None or verdict is None or that_give_way(ssn, queue, job):
            return job
        if verdict.refusal.error is not None:
            ssn.outcome.unfit(job, task, verdict.refusal.error)
        if not strict and not spared(ssn, job):
            _reject(ssn, cursor, job, verdict)
            continue
        ssn.outcome.refusals.add(job, verdict.refusal)
        if strict and not ssn.job_ready(job):
            _hold_back(ssn, queue, cursor, job)
            return None
    return None


def _reject(ssn: Session, cursor: QueueCursor, job: Job, verdict: Unschedulable) -> None:
    """Refuse the job and those behind it in its group."""
    cursor.denied |= verdict.cause is Cause.QUOTA
    cursor.reject_group(ssn.outcome.refusals, job, verdict.refusal)


def _place(ssn: Session, queue: Queue, job: Job, tasks: WaitingTasks, remember: bool) -> bool:
    """Place what waits of a job; True if something was committed."""
    statement = place_job(ssn, queue, job, tasks, remember)
    if statement is None:
        return False
    ready = statement.ready or ssn.job_ready(job)
    if ready:
        return bind_placed(ssn, job, statement)
    statement.keep()
    ssn.outcome.refusals.add(job, Refusal.of(Stage.READY, ready, otherwise=WAITS_FOR_RELEASE))
    return False


def _hold_back(ssn: Session, queue: Queue, cursor: QueueCursor, job: Job) -> None:
    """The job comes before all others of the queue."""
    advice = f"{job.uid} starts or is withdrawn, or another dequeueStrategy of queue {queue.name} than fifo"
    refusal = Refusal(Stage.QUEUE, f"waits behind {job.uid} (strict FIFO)", advice=advice)
    ssn.outcome.refusals.add_group(cursor.rest, refusal, queue.name)
