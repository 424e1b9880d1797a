"""A plan of evictions: the jobs that need one, the search for it, the victims that it does not need, and its commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from pumice.engine.heap import GoHeap
from pumice.framework.evicting.victims import scenario_of
from pumice.framework.placing.serving import PLACING
from pumice.framework.placing.waiting_tasks import placeable
from pumice.framework.points import table as points
from pumice.framework.session.outcome import Refusal, Stage
from pumice.framework.session.search import ASKS as SEARCH_ASKS
from pumice.framework.session.session import Session
from pumice.framework.session.statement import ASKS as STATEMENT_ASKS
from pumice.framework.session.statement import OperationKind, Statement
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.reason import Code
from pumice.model.status import JobPhase, TaskStatus
from pumice.model.task import Task

S = TaskStatus
T = TypeVar("T")
ASKS = (
    *(points.SCENARIO_VALIDATOR, points.ALLOCATABLE, points.JOB_STARVING, points.JOB_VALID, points.JOB_READY),
    *(points.QUEUE_ORDER, points.JOB_ORDER, points.TASK_ORDER, *SEARCH_ASKS, *STATEMENT_ASKS),
)
_UNADMITTED = ("", JobPhase.PENDING)
_MADE_ROOM = ("PreemptionByScheduler", "EvictionByEvictionAPI")
"""Why pods are disrupted that a scheduler had evicted: written by the scheduler itself, or by the server for it."""


# -- the search -----------------------------------------------------------------------------------------------------
def find_plan(
    statement: Statement, candidates: Iterable[T], place: Callable[[T], object], valid: Callable[[T], object]
) -> T | None:
    """Evict victims and promise their room, by the first candidate with which that succeeds.

    The search under preempt, reclaim, gangpreempt and gangreclaim. They differ in what they try, and in what order:

    - *candidates*: nodes for a task, sets of victims in a domain for a job, or ways to spend budgets. A caller gives
      only those that `FreedCapacity` does not reject; an iterator makes them when they are tried.
    - *place(candidate)*: evicts victims in the statement until there is room, and pipelines the tasks; false if not.
    - *valid(candidate)*: report whether what is in the statement then may stay.

    Contract: all or nothing. The session is changed through the statement alone, and nothing is committed.
    Result: the candidate, with its plan in the statement; None, with the statement as it was.
    Cost: one simulation (evictions, placements, and their rollback) for each candidate up to the result.
    """
    mark = statement.checkpoint()
    for candidate in candidates:
        if place(candidate) and valid(candidate):
            return candidate
        statement.rollback(mark)
    return None


# -- the end --------------------------------------------------------------------------------------------------------
def commit_plan(ssn: Session, action: str, statement: Statement, job: Job, task: Task | None = None) -> bool:
    """Commit a plan for a job if no plugin rejects it; else take it back.

    A plan without evictions is left to the action that places, if one follows: a promise would keep the job from
    places that it can have at once. It is not made for a single *task* either: half a gang would hold room.
    """
    if spares(ssn):
        if statement.has_evictions():
            useless = job.pending_best_effort_count > 0 and job.is_starving  # its gang would still not be whole
        else:
            useless = task is not None or not PLACING.isdisjoint(ssn.actions[_position(ssn, action) + 1 :])
        if useless:
            statement.discard()
            return False
    if statement.has_evictions():
        verdict = ssn.scenario_validator(scenario_of(action, job, statement.operations, task))
        if not verdict:
            ssn.outcome.refusals.add(
                job, Refusal.of(Stage.EVICTION, verdict, otherwise="the plan of evictions was refused")
            )
            statement.discard()
            return False
        ssn.metrics.counter("eviction_transactions_total", action=action)
    return statement.commit()


def spares(ssn: Session) -> bool:
    """Report whether victims are spared that a plan does not need."""
    return not ssn.compat.spare_victims


def _position(ssn: Session, action: str) -> int:
    return ssn.actions.index(action) if action in ssn.actions else len(ssn.actions)


def spare_more(ssn: Session, statement: Statement) -> None:
    """Let victims stay that later evictions on the same node have made needless.

    Only a node on which the plan places several tasks can have such victims. Its placements are taken off and made
    again without the victim; if one of them no longer fits, all is as it was.
    """
    nodes: dict[str, list[Task]] = {}
    for op in statement.operations:
        if op.kind is OperationKind.PIPELINE:
            nodes.setdefault(op.node.name, []).append(op.task)
    for op in [o for o in reversed(statement.operations) if o.kind is OperationKind.EVICT]:
        placed = nodes.get(op.node.name, ())
        if len(placed) < 2 or not _surplus(ssn, op.node, op.task):
            continue
        statement.undo_of(op.task)
        if not _still_fit(ssn, statement, placed, op.node):
            statement.evict(op.task, op.reason, op.for_task)


def _surplus(ssn: Session, node: Node, victim: Task) -> bool:
    table, row = ssn.state.table, node.row
    return all(table.free_soon(d, row) >= v for d, v in victim.klass.items)


def _still_fit(ssn: Session, statement: Statement, placed: Sequence[Task], node: Node) -> bool:
    """Report whether tasks that a statement pipelined on a node pass all filters now, devices and queue included."""
    for task in placed:
        gpu = task.klass.gpu
        with statement.aside(task):
            fits = ssn.search.objection(task, node) is None and bool(
                ssn.allocatable(ssn.queues[task.job.queue], task)
                and (gpu is None or ssn.state.devices.fits_on(node.row, gpu, future=True))
            )
        if not fits:
            return False
    return True


# -- preemptors ------------------------------------------------------------------------------------------------------
class PendingPreemptors:
    """The pending jobs for which an action may evict, by queue.

    - found: starving jobs, as the plugins said when the action began
    - unasked: jobs without running tasks. They are asked about when their queue is visited, if they pass the cheap test
      *feasible*: what the action did until then can help them, but cannot have made them starve

    *topology*: also jobs that ask for a network topology. *as_queue*: a plan for one job can help others of its queue,
    so the jobs of a queue are left out only if none of them is feasible.
    """

    def __init__(
        self,
        ssn: Session,
        *,
        topology: bool,
        feasible: Callable[[Job, Queue], bool] | None = None,
        as_queue: bool = False,
    ) -> None:
        self._ssn, self._feasible, self._as_queue = ssn, feasible, as_queue
        self._found: dict[str, list[Job]] = {}
        self._unasked: dict[str, list[Job]] = {}
        if not ssn.anybody(points.JOB_STARVING):
            return
        for queue in ssn.queues.values():
            for job in queue.waiting.values():
                if job.phase in _UNADMITTED or job.left_out or (job.has_topology and not topology):
                    continue
                if feasible is not None and not job.with_status(S.RUNNING) and not job.with_status(S.BOUND):
                    self._unasked.setdefault(queue.name, []).append(job)
                elif self._starves(job):
                    self._found.setdefault(queue.name, []).append(job)

    def _starves(self, job: Job) -> bool:
        return bool(self._ssn.job_starving(job) and self._ssn.job_valid(job))

    def queues(self) -> GoHeap[Queue]:
        """The queues in which a job may starve, to be popped in order."""
        names = [name for name in self._ssn.queues if name in self._found or name in self._unasked]
        if self._as_queue:
            names = [n for n in names if n in self._found or any(map(self._starves, self._unasked[n]))]
        return self._ssn.orders.queue_heap(self._ssn.queues[name] for name in names)

    def of(self, queue: Queue) -> list[Job]:
        """The starving jobs of a queue, in order."""
        found, unasked = list(self._found.get(queue.name, ())), self._unasked.get(queue.name, ())
        feasible = self._feasible
        if feasible is not None and self._as_queue:
            if not any(feasible(job, queue) for job in (*unasked, *found)):
                return []
            feasible = None
        found += [job for job in unasked if (feasible is None or feasible(job, queue)) and self._starves(job)]
        key = self._ssn.orders.job_key()
        if queue.dequeue_strategy == "fifo" and (head := self._head(queue)) is not None:
            found = [job for job in found if key(job) <= key(head)]
        return sorted(found, key=key)

    def _head(self, queue: Queue) -> Job | None:
        """The first job of a strict FIFO queue that is not ready: no job behind it is served."""
        ssn = self._ssn
        waiting = (j for j in queue.waiting.values() if j.phase not in _UNADMITTED and not j.left_out)
        blocked = [j for j in waiting if ssn.job_valid(j) and not ssn.job_ready(j)]
        return min(blocked, key=ssn.orders.job_key()) if blocked else None


def waiting_tasks(ssn: Session, job: Job) -> list[Task]:
    """The job's pending tasks in order; those that ask for nothing only if no later action places them."""
    waiting = (t for t in job.with_status(S.PENDING).values() if placeable(t))
    if spares(ssn) and "backfill" not in ssn.actions:
        waiting = (t for t in waiting if not t.best_effort)
    return ssn.orders.sorted_tasks(waiting)


def never_preempts(task: Task) -> bool:
    """Report whether the pod says that no pod may be evicted for it."""
    return task.pod.spec.preemption_policy == "Never"


def may_preempt(ssn: Session, task: Task) -> bool:
    """Report whether room may be made for the task now: not by evictions while room that was freed for it comes.

    If plans spare victims, a task that has such room takes part all the same: it needs no victim, but the plan for its
    gang must count it. So does a task whose node has too little room by now, or is gone.
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
    """Report whether the task is terminating because a scheduler evicted it."""
    if victim.status is not S.RELEASING:
        return False
    conditions = victim.pod.status.conditions or ()
    return victim.uid in ssn.state.assumed or any(
        c.type == "DisruptionTarget" and c.reason in _MADE_ROOM for c in conditions
    )
