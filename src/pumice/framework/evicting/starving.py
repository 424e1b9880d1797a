"""Who needs others to make room: what the evicting actions begin with."""

from __future__ import annotations

from collections.abc import Callable

from pumice.engine.heap import GoHeap
from pumice.framework.evicting.eviction_plan import spares
from pumice.framework.placing.waiting_tasks import placeable
from pumice.framework.points import table as points
from pumice.framework.points.table import JOB_STARVING
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.reason import Code
from pumice.model.status import JobPhase, TaskStatus
from pumice.model.task import Task

S = TaskStatus
ASKS = (
    points.JOB_STARVING,
    points.JOB_VALID,
    points.JOB_READY,
    points.QUEUE_ORDER,
    points.JOB_ORDER,
    points.TASK_ORDER,
)
_UNADMITTED = ("", JobPhase.PENDING)
_MADE_ROOM = ("PreemptionByScheduler", "EvictionByEvictionAPI")
"""Why pods are disrupted that a scheduler had evicted: written by the scheduler itself, or by the server for it."""


class StarvingJobs:
    """The jobs that wait in vain when an action begins.

    *topology*: also those that ask for a network topology. *worth*: a cheap test; jobs that fail it are left out before
    anybody is asked about them. It is put to jobs without running tasks only, and when their queue is visited: what the
    action did until then can help them, but cannot have made them starve. *together*: what is done for one job can help
    others of its queue, so they are left out only if all of them fail, those with running tasks included.
    """

    def __init__(
        self,
        ssn: Session,
        *,
        topology: bool,
        worth: Callable[[Job, Queue], bool] | None = None,
        together: bool = False,
    ) -> None:
        self._ssn, self._worth, self._together = ssn, worth, together
        self._found: dict[str, list[Job]] = {}
        self._unasked: dict[str, list[Job]] = {}
        if not ssn.anybody(JOB_STARVING):
            return
        for queue in ssn.queues.values():
            for job in queue.waiting.values():
                if job.phase in _UNADMITTED or job.left_out or (job.has_topology and not topology):
                    continue
                if worth is not None and not job.with_status(S.RUNNING) and not job.with_status(S.BOUND):
                    self._unasked.setdefault(queue.name, []).append(job)
                elif self._starves(job):
                    self._found.setdefault(queue.name, []).append(job)

    def _starves(self, job: Job) -> bool:
        return bool(self._ssn.job_starving(job) and self._ssn.job_valid(job))

    def queues(self) -> GoHeap[Queue]:
        """The queues in which somebody may starve, to be popped in order; does, where those who wait go together."""
        names = [name for name in self._ssn.queues if name in self._found or name in self._unasked]
        if self._together:
            names = [n for n in names if n in self._found or any(map(self._starves, self._unasked[n]))]
        return self._ssn.orders.queue_heap(self._ssn.queues[name] for name in names)

    def of(self, queue: Queue) -> list[Job]:
        """The starving jobs of a queue, in order."""
        found, unasked = list(self._found.get(queue.name, ())), self._unasked.get(queue.name, ())
        worth = self._worth
        if worth is not None and self._together:
            if not any(worth(job, queue) for job in (*unasked, *found)):
                return []
            worth = None
        found += [job for job in unasked if (worth is None or worth(job, queue)) and self._starves(job)]
        key = self._ssn.orders.job_key()
        if queue.dequeue_strategy == "fifo" and (head := self._head(queue)) is not None:
            found = [job for job in found if key(job) <= key(head)]
        return sorted(found, key=key)

    def _head(self, queue: Queue) -> Job | None:
        """The first job of a strict FIFO queue that is not ready: nobody behind it is served."""
        ssn = self._ssn
        waiting = (j for j in queue.waiting.values() if j.phase not in _UNADMITTED and not j.left_out)
        blocked = [j for j in waiting if ssn.job_valid(j) and not ssn.job_ready(j)]
        return min(blocked, key=ssn.orders.job_key()) if blocked else None


def waiting_tasks(ssn: Session, job: Job) -> list[Task]:
    """The job's tasks that wait for a place, in order; those that ask for nothing only if somebody will bind them."""
    waiting = (t for t in job.with_status(S.PENDING).values() if placeable(t))
    if spares(ssn) and "backfill" not in ssn.actions:
        waiting = (t for t in waiting if not t.best_effort)
    return ssn.orders.sorted_tasks(waiting)


def never_preempts(task: Task) -> bool:
    """Does the pod say that nobody is to be evicted for it?"""
    return task.pod.spec.preemption_policy == "Never"


def may_preempt(ssn: Session, task: Task) -> bool:
    """May room be made for the task now? Not by evictions while room that was freed for it is on its way.

    Where plans spare victims, a task that has such room takes part all the same: it needs nobody's place, but the
    plan for its gang must count it; and so does one whose node has too little room by now, or is gone.
    """
    if never_preempts(task):
        return False
    if not task.nominated_node:
        return True
    node = ssn.nodes.get(task.nominated_node)
    if node is None:
        return spares(ssn)
    with ssn.state.lifted(task):
        reason = ssn.search.objection(task, node)
    if reason is None:
        return spares(ssn)
    if reason.code is Code.UNRESOLVABLE:
        return True
    return not any(v.priority < task.priority and _evicted_before(ssn, v) for v in node.tasks.values())


def _evicted_before(ssn: Session, victim: Task) -> bool:
    """Is the task terminating because a scheduler evicted it?"""
    if victim.status is not S.RELEASING:
        return False
    conditions = victim.pod.status.conditions or ()
    return victim.uid in ssn.state.assumed or any(
        c.type == "DisruptionTarget" and c.reason in _MADE_ROOM for c in conditions
    )
