"""What is in vain: jobs that need not be tried, because it is certain that nothing of them would be kept.

Three things can be known of a waiting job whose tasks are all of one class: the class fits nowhere, all nodes together
have too little room for what its gang still needs, or its queue may not take that many. Each is worked out from what is
kept up to date anyway, and holds for every job of the same class, need and queue.
"""

from __future__ import annotations

from dataclasses import replace

from pumice.framework.placing.grounds import Ground, InVain, first_waiting, too_little
from pumice.framework.placing.waiting_tasks import QueueDenied
from pumice.framework.points import table as points
from pumice.framework.session.nominations import held_by_others
from pumice.framework.session.refusals import Refusal, Stage
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus
from pumice.model.task import Task

S = TaskStatus


def before_trying(ssn: Session, queue: Queue, job: Job, task: Task, *, denied: bool = True) -> InVain | None:
    """Why the job need not be tried, as far as that is known without looking at nodes one by one.

    *denied*: might the queue refuse it? Else it is not asked about one task: trying the job begins with that.
    """
    error = ssn.search.chooser.why_not.known_hopeless(task)
    if error is not None:
        return InVain(Refusal(Stage.NODES, error=error), Ground.NODES, task)
    needed = ssn.needed_to_keep(job)
    if needed < 2:
        refusal = _denied(ssn, queue, job, task) if denied else None
    else:
        short = ssn.search.chooser.why_not.short_of(task, needed)
        if short is not None:
            return too_little(task, needed, *short)
        refusal = _quota_short(ssn, queue, job, task, needed)
    if refusal is None:
        return None
    return InVain(refusal, Ground.QUEUE, task)


def _denied(ssn: Session, queue: Queue, job: Job, task: Task) -> Refusal | None:
    """Why the queue may not take the one task for which a job waits: what trying it would find out first of all."""
    alone = len(job.with_status(S.PENDING)) == job.pending_best_effort_count + 1
    if not alone or ssn.state.rooms or not ssn.allocatable_by_class() or ssn.anybody(points.PRE_JOB_ALLOCATION):
        return None
    verdict = ssn.allocatable(queue, task)
    if verdict:
        return None
    refusal = Refusal.of(Stage.QUEUE, verdict, otherwise=f"queue {queue.name} may not take it")
    ssn.outcome.unfit(job, task, QueueDenied(refusal, len(ssn.nodes)))
    return refusal


def _quota_short(ssn: Session, queue: Queue, job: Job, task: Task, needed: int) -> Refusal | None:
    """Why a gang cannot start, where its queue may take some of the tasks that it needs together, but not all."""
    if not ssn.allocatable_by_class():
        return None
    with held_by_others(ssn, queue, job):
        room = ssn.allocatable_room(queue, task, needed)
        if room >= needed:
            return None
        taken = [task] * room
        ssn.state.count_in_queue(queue, taken, 1)  # in the words of who would refuse the next one
        try:
            verdict = ssn.allocatable(queue, task)
        finally:
            ssn.state.count_in_queue(queue, taken, -1)
    if verdict:
        return None
    each = task.requests.as_written()
    limits = tuple(
        replace(at, holds=at.holds - room * each.get(at.resource, 0), asks=needed * each.get(at.resource, 0))
        for at in verdict.limits
    )
    verdict = verdict._replace(limits=limits)
    return Refusal.of(Stage.QUEUE, verdict, otherwise=f"queue {queue.name} may take {room} of {needed} such tasks")


def after_trying(ssn: Session, queue: Queue, job: Job) -> InVain | None:
    """Why nothing of the class of the job's tasks can be placed for this queue now, if that is certain."""
    if len(job.with_status(S.PENDING)) <= job.pending_best_effort_count:
        return None  # all have a promised place
    task = first_waiting(job)
    if task is None:
        return None
    if ssn.allocatable_by_class():
        with held_by_others(ssn, queue, job):
            verdict = ssn.allocatable(queue, task)
        if not verdict:
            refusal = Refusal.of(Stage.QUEUE, verdict, otherwise=f"queue {queue.name} may not take it")
            return InVain(refusal, Ground.QUEUE, task)
    error = ssn.search.chooser.why_not.hopeless(task)
    return InVain(Refusal(Stage.NODES, error=error), Ground.NODES, task) if error is not None else None
