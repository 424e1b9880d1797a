"""Who needs others to make room: what the evicting actions begin with."""

from __future__ import annotations

from pumice.framework.session import Session
from pumice.framework.worksheet import placeable
from pumice.model.job import Job
from pumice.model.reason import Code
from pumice.model.status import TaskStatus
from pumice.model.task import Task

S = TaskStatus


def starving_jobs(ssn: Session, *, topology: bool) -> dict[str, list[Job]]:
    """Jobs that wait in vain, by queue. *topology*: also those that ask for a network topology."""
    found: dict[str, list[Job]] = {}
    if not ssn.chain("job_starving"):
        return found
    for queue in ssn.queues.values():
        for job in queue._waiting.values():
            if job.is_pending or (job.has_topology and not topology):
                continue
            if ssn.job_starving(job) and ssn.job_valid(job):
                found.setdefault(queue.name, []).append(job)
    return found


def waiting_tasks(ssn: Session, job: Job) -> list[Task]:
    """The job's tasks that wait for a place, in order."""
    return ssn.sorted_tasks(t for t in job._by_status[S.PENDING].values() if placeable(t))


def never_preempts(task: Task) -> bool:
    """Does the pod say that nobody is to be evicted for it?"""
    return task._pod.spec.preemption_policy == "Never"


def may_preempt(ssn: Session, task: Task) -> bool:
    """May others be preempted for the task now? Not while room that was freed for it is on its way."""
    if never_preempts(task):
        return False
    if not task._nominated:
        return True
    node = ssn.nodes.get(task._nominated)
    if node is None:
        return True
    with ssn.state.lifted(task):
        reason = ssn.predicate_reason(task, node)
        fits = task.requests.less_equal(node.future_idle)
    if reason is None:
        return not fits
    if reason.code is Code.UNRESOLVABLE:
        return True
    return not any(v._priority < task._priority and _evicted_before(ssn, v) for v in node.tasks.values())


def _evicted_before(ssn: Session, victim: Task) -> bool:
    """Is the task terminating because a scheduler evicted it?"""
    if victim._status is not S.RELEASING:
        return False
    conditions = victim._pod.status.conditions or ()
    return victim._uid in ssn.state.assumed or any(
        c.type == "DisruptionTarget" and c.reason == "PreemptionByScheduler" for c in conditions
    )
