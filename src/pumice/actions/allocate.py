"""allocate: give pending tasks of ready-to-start jobs their places, a gang at a time."""

from __future__ import annotations

from functools import partial

from pumice.framework.placing.grounds import Ground, InVain, first_waiting
from pumice.framework.placing.leaving import bind_placed
from pumice.framework.placing.turns import ASKS as TURN_ASKS
from pumice.framework.placing.turns import WAITS_FOR_RELEASE, Turns, place_job
from pumice.framework.placing.vain import after_trying, before_trying
from pumice.framework.placing.waiting_tasks import WaitingTasks
from pumice.framework.plugin import Action
from pumice.framework.points import table as points
from pumice.framework.session.backlog import Visit
from pumice.framework.session.nominations import spared, that_give_way
from pumice.framework.session.refusals import Refusal, Stage, stage_of_invalid
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.queue import Queue


class Allocate(Action):
    """Places tasks until their job is ready, then one more per visit, so that surplus replicas compete fairly."""

    name = "allocate"
    steady = True
    for_waiting = True
    arguments_read = ("predicateErrorCacheEnable",)
    asks = (points.JOB_VALID, *TURN_ASKS)

    def execute(self, ssn: Session) -> None:
        """Try every waiting job, best queue and best job first."""
        remember = ssn.of_registrations(_remembers)  # the same as long as what is registered stands
        turns = Turns(ssn)
        while (turn := turns.next()) is not None:
            queue, visit = turn
            job = self._next(ssn, queue, visit)
            if job is None:
                continue
            if turns.serve(queue, visit, job, partial(self._place, ssn, queue, job, remember)):
                visit.denied = False
            elif queue.dequeue_strategy != "fifo":
                hopeless = after_trying(ssn, queue, job) if visit.of_class else None
                if hopeless is not None and not spared(ssn, job):
                    self._pass_over(ssn, visit, job, hopeless)
            elif not ssn.job_ready(job):
                _hold_back(ssn, queue, visit, job)
                continue
            turns.put_back(queue)

    def _next(self, ssn: Session, queue: Queue, visit: Visit) -> Job | None:
        """The next job of a queue that is worth trying; jobs for which there cannot be room are refused on the way."""
        strict = queue.dequeue_strategy == "fifo"
        while visit:
            job = visit.pop()
            valid = ssn.job_valid(job)
            if not valid:
                ssn.outcome.refuse(job, stage_of_invalid(valid), valid)
                continue
            if not visit.of_class:
                return job
            task = first_waiting(job)
            why = before_trying(ssn, queue, job, task, denied=visit.denied) if task is not None else None
            if task is None or why is None or that_give_way(ssn, queue, job):
                return job
            if why.refusal.error is not None:
                ssn.outcome.unfit(job, task, why.refusal.error)
            if not strict and not spared(ssn, job):
                self._pass_over(ssn, visit, job, why)
                continue
            ssn.outcome.refusals.add(job, why.refusal)
            if strict and not ssn.job_ready(job):
                _hold_back(ssn, queue, visit, job)
                return None
        return None

    def _pass_over(self, ssn: Session, visit: Visit, job: Job, why: InVain) -> None:
        """Refuse the job and those behind it in its group."""
        visit.denied |= why.ground is Ground.QUEUE
        visit.pass_over(ssn.outcome.refusals, job, why.refusal)

    def _place(self, ssn: Session, queue: Queue, job: Job, remember: bool, tasks_left: WaitingTasks) -> bool:
        """Place what waits of a job; True if something was committed."""
        statement = place_job(ssn, queue, job, tasks_left, remember)
        if statement is None:
            return False
        ready = ssn.job_ready(job)
        if ready:
            return bind_placed(ssn, job, statement)
        statement.keep()
        ssn.outcome.refusals.add(job, Refusal.of(Stage.READY, ready, otherwise=WAITS_FOR_RELEASE))
        return False


def _remembers(ssn: Session) -> bool:
    return ssn.action_arguments(Allocate.name).bool("predicateErrorCacheEnable", True)


def _hold_back(ssn: Session, queue: Queue, visit: Visit, job: Job) -> None:
    """Nobody in the queue is served before this job is."""
    advice = f"{job.uid} starts or is withdrawn, or another dequeueStrategy of queue {queue.name} than fifo"
    refusal = Refusal(Stage.QUEUE, f"waits behind {job.uid} (strict FIFO)", advice=advice)
    ssn.outcome.refusals.add_group(visit.rest, refusal, queue.name)
