"""What still leaves a queue counts until it is gone: nothing is bound in its place before."""

from __future__ import annotations

from pumice.framework import quota
from pumice.framework.session.outcome import Refusal, Stage
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Statement
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.resources import Number, dim_name
from pumice.words import counted


def bind_placed(ssn: Session, job: Job, statement: Statement) -> bool:
    """Commit the places of a job that is ready; True if that was done.

    Where its queue, or one above it, would hold more than its capability together with the pods that are leaving it,
    the places are kept for this session, and the job waits for the pods to be gone.
    """
    crowded = None if ssn.compat.leaving_pods else _crowded(ssn, job)
    if crowded is None:
        return statement.commit()
    queue, d = crowded
    pods = sum(1 for task in ssn.state.leaving.values() if quota.is_below(ssn.queues, task.job.queue, queue.name))
    told = f"{counted(pods, 'pod')} that leave it are gone"
    text = f"queue {queue.name} is at its capability of {dim_name(d)} until {told}"
    statement.keep()
    ssn.outcome.refusals.add(job, Refusal(Stage.QUEUE, text, advice=f"the pods that leave queue {queue.name} are gone"))
    return False


def _crowded(ssn: Session, job: Job) -> tuple[Queue, int] | None:
    """The first queue, from the job's own upwards, that is too full with what leaves it, and of what."""
    leaving = ssn.state.leaving
    if not leaving:
        return None
    queue = ssn.queues.get(job.queue)
    seen: set[str] = set()
    while queue is not None and queue.name not in seen:
        seen.add(queue.name)
        found = _too_full(ssn, queue) if queue.capability.amounts else None
        if found is not None:
            return queue, found
        queue = ssn.queues.get(queue.parent)
    return None


def _too_full(ssn: Session, queue: Queue) -> int | None:
    """The resource of which a queue holds more than its capability only together with what leaves it; None: of none."""
    tasks = [t for t in ssn.state.leaving.values() if quota.is_below(ssn.queues, t.job.queue, queue.name)]
    if not tasks:
        return None
    most, held = quota.capability_of(queue), dict[int, Number]()
    for below in ssn.queues.values():
        if quota.is_below(ssn.queues, below.name, queue.name):
            quota.added(held, below.allocated.amounts.items())
    for d, leaves in quota.summed(tasks).items():
        if d in most and held.get(d, 0) <= most[d] < held.get(d, 0) + leaves:
            return d
    return None
