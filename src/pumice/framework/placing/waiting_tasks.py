"""The tasks of a job to place, and placing them one by one or, if answers allow it, many at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt

from pumice.engine.choose import NodeChoice
from pumice.engine.diagnosis import FitError
from pumice.engine.views import ClassView
from pumice.framework.points import table as t
from pumice.framework.session.nominations import holds
from pumice.framework.session.outcome import Refusal, Stage
from pumice.framework.session.pending_queue import QueueDenied, denied
from pumice.framework.session.search import ASKS as SEARCH_ASKS
from pumice.framework.session.session import Session
from pumice.framework.session.statement import ASKS as STATEMENT_ASKS
from pumice.framework.session.statement import Statement
from pumice.model.job import Job, SubJob
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.reason import Reason, Unfit, Verdict
from pumice.model.status import TaskStatus
from pumice.model.task import Task, TaskClass

Bools = npt.NDArray[np.bool_]


class NodeSearch:
    """Finds nodes for tasks. *remember*: what failed for one task of a role is not tried again for the next."""

    def __init__(self, ssn: Session, remember: bool, domain: Bools | None = None) -> None:
        self._ssn = ssn
        self._keeps_failures = keeps_failures(ssn)
        self._remember = remember and self._keeps_failures
        self._failed: dict[str, Bools] = {}
        self._domain = domain
        self._soft: Bools | None = None
        self._within = domain
        if ssn.shard is not None:
            own = rows_named(ssn, ssn.shard.nodes)
            if ssn.shard.hard:
                self._within = own if domain is None else own & domain
            else:
                self._soft = own

    @property
    def by_role(self) -> bool:
        """Report whether the role of a task matters: refusals are remembered by role."""
        return self._remember

    @property
    def within(self) -> Bools | None:
        """The rows that may be used at all; None for all of them."""
        return self._within

    def choose(self, task: Task) -> NodeChoice | FitError:
        """The best node, or why there is none."""
        ssn = self._ssn
        if task.nominated_node:
            with ssn.state.lifted(task):
                return self._for_nominated(task)
        return self._anywhere(task)

    def choose_despite(self, task: Task) -> Node | None:
        """The best node, objections aside that evictions may heal, nor is it asked where the task is nominated."""
        within, never = self._untried(task), never_again(self._ssn, task)
        if never is not None:
            within = ~never if within is None else within & ~never
        try:
            found = self._ssn.search.chooser.choose_despite(task, within, self._soft)
        except Unfit:
            found = None
        if self._remember and task.role:
            self._note(task.role, task, within, severity=1)
        return found

    def _anywhere(self, task: Task) -> NodeChoice | FitError:
        within = self._untried(task)
        found = self._ssn.search.chooser.choose(task, within, self._soft)
        if self._remember and task.role:
            self._note(task.role, task, within)
        if isinstance(found, FitError) and self._keeps_failures:
            view = self._ssn.search.evaluator.view(task)
            found.never = ~self._letting(view, task, severity=1)
        return found

    def _untried(self, task: Task) -> Bools | None:
        """The rows that may be used, less those that are known to have refused the task's role."""
        known = self._failed.get(task.role)
        if known is None:
            return self._within
        return ~known if self._within is None else self._within & ~known

    def _for_nominated(self, task: Task) -> NodeChoice | FitError:
        """Idle room on the nominated node, else idle room anywhere, else what is being released on that node."""
        node = self._ssn.nodes.get(task.nominated_node)
        if node is None or (self._within is not None and not self._within[node.row]):
            return self._anywhere(task)
        chooser = self._ssn.search.chooser
        there = chooser.choose_there(task, node)
        if isinstance(there, NodeChoice) and (there.idle or not holds(self._ssn)):
            return there
        if isinstance(there, NodeChoice) and not self._remember and chooser.nowhere_idle(task):
            return there
        elsewhere = self._anywhere(task)
        return (
            there
            if isinstance(there, NodeChoice) and not (isinstance(elsewhere, NodeChoice) and elsewhere.idle)
            else elsewhere
        )

    def _note(self, role: str, task: Task, within: Bools | None, severity: int = 0) -> None:
        view = self._ssn.search.evaluator.view(task)
        failing = ~self.passing(view, task, within, severity)
        known = self._failed.get(role)
        self._failed[role] = failing if known is None else known | failing

    def passing(self, view: ClassView, task: Task, within: Bools | None = None, severity: int = 0) -> Bools:
        """Rows of *within* on which the task would fit, now or once something is released."""
        mask: Bools = self._ssn.search.evaluator.future_ok(view)
        if within is not None:
            mask = mask & within[: view.size]
        return self._letting(view, task, severity, mask)

    def _letting(self, view: ClassView, task: Task, severity: int, mask: Bools | None = None) -> Bools:
        """Rows (of *mask*) to which no filter objects worse than that."""
        mask = view.severity <= severity if mask is None else mask & (view.severity <= severity)
        if view.session_filters:
            index = self._ssn.search.chooser.feasible(view, task, mask, severity)
            mask = np.zeros(view.size, dtype=np.bool_)
            mask[index] = True
        return mask

    def _alike(self, task: Task) -> bool:
        """Report whether remembered refusals of the task's role make no difference, as long as tasks like it are
        placed.

        So where the rest of the role is like it: what refused one of them refuses all. A smaller one must find noted
        what placing one by one would have noted.
        """
        role = task.role
        if role in self._failed or self._ssn.search.evaluator.view(task).session_filters:
            return False
        alike = self._ssn.search.evaluator.alike
        return all(alike(t, task) for t in task.job.tasks.values() if t.role == role)

    def plan(self, task: Task, wanted: int) -> Sequence[int]:
        """Rows for several equal tasks, where they can be placed in bulk."""
        if self._soft is not None or task.nominated_node:
            return []
        if self._remember and task.role and not self._alike(task):
            return []
        return self._ssn.search.chooser.plan(task, wanted, self._within)


def keeps_failures(ssn: Session) -> bool:
    """Report whether refusals of tasks are remembered."""
    return ssn.compat.remember_failures


def never_again(ssn: Session, task: Task) -> Bools | None:
    """Rows that objected to the task for good when it was tried in this cycle, where that is remembered."""
    errors = ssn.outcome.fit_errors.get(task.job_key)
    error = errors.get(task.uid) if errors else None
    return error.never if error is not None else None


def rows_named(ssn: Session, names: frozenset[str]) -> Bools:
    """A mask of the rows of the named nodes."""
    mask = np.zeros(ssn.state.table.size, dtype=np.bool_)
    for name in names:
        node = ssn.nodes.get(name)
        if node is not None:
            mask[node.row] = True
    return mask


def rows_of(ssn: Session, nodes: Sequence[Node]) -> Bools:
    """A mask of the rows of nodes."""
    mask = np.zeros(ssn.state.table.size, dtype=np.bool_)
    mask[[n.row for n in nodes]] = True
    return mask


S = TaskStatus
ASKS = (
    *(t.ALLOCATABLE, t.PRE_PREDICATE, t.JOB_READY, t.SUB_JOB_READY, t.JOB_PIPELINED, t.SUB_JOB_PIPELINED),
    *(t.TASK_ORDER, t.SUBSET_NODES, *SEARCH_ASKS, *STATEMENT_ASKS),
)


@dataclass(slots=True)
class WaitingTasks:
    """The tasks of a job that wait for a place, in order; by sub-job where it has policies."""

    tasks: deque[Task] = field(default_factory=deque)
    sub_jobs: dict[str, deque[Task]] = field(default_factory=dict)
    by_topology: bool = False
    required: set[str] | None = None
    """The sub-jobs that the job needs to become ready, once that was decided for the cycle."""

    def __bool__(self) -> bool:
        return bool(self.tasks) or any(self.sub_jobs.values())

    def copy(self) -> WaitingTasks:
        """One that stays as this is now."""
        parts = {uid: tasks.copy() for uid, tasks in self.sub_jobs.items()}
        return WaitingTasks(self.tasks.copy(), parts, self.by_topology, self.required)

    def become(self, other: WaitingTasks) -> None:
        """List what the other lists."""
        fresh = other.copy()
        self.tasks, self.sub_jobs = fresh.tasks, fresh.sub_jobs


def placeable(task: Task) -> bool:
    """Report whether the task may be given a place: no scheduling gate of any owner, and a readable request."""
    return not task.invalid and not task.gates


def waiting_tasks_of(ssn: Session, job: Job) -> WaitingTasks:
    """The waiting tasks of a job, best-effort ones left to backfill; what is wrong with a pod is its reason to wait."""
    pending = []
    for task in job.with_status(S.PENDING).values():
        if task.invalid:
            ssn.outcome.unfit(job, task, FitError(text=f"pod {task.key}: {task.invalid}"))
        elif not task.best_effort and placeable(task):
            pending.append(task)
    tasks_left = WaitingTasks(by_topology=job.has_topology and ssn.hyper_nodes.limits(job))
    if not job.policies:
        tasks_left.tasks = deque(ssn.orders.sorted_tasks(pending))
        return tasks_left
    groups: dict[str, list[Task]] = {}
    for task in pending:
        sub_job = task.sub_job
        groups.setdefault(sub_job.uid if sub_job is not None else job.uid, []).append(task)
    tasks_left.sub_jobs = {uid: deque(ssn.orders.sorted_tasks(tasks)) for uid, tasks in groups.items()}
    return tasks_left


def place_tasks(
    ssn: Session,
    queue: Queue,
    job: Job,
    sub_job: SubJob | None,
    tasks: deque[Task],
    remember: bool,
    domain: npt.NDArray[np.bool_] | None = None,
) -> Statement | None:
    """Place tasks until the (sub-)job is ready; the statement if it is or may wait, else None with all undone.

    Tasks are taken from *tasks*; what is left of it has not been tried.
    """
    statement = ssn.statement()
    search = NodeSearch(ssn, remember, domain)
    checks = ssn.anybody(t.PRE_PREDICATE)
    needed = 0  # so many more, at least, have to be placed before it can be ready
    single: TaskClass | None = None  # its tasks are placed one by one
    while tasks:
        task = tasks[0]
        verdict = ssn.allocatable(queue, task)
        if not verdict:
            tasks.popleft()
            refusal = denied(queue, verdict)
            ssn.outcome.unfit(job, task, QueueDenied(refusal, len(ssn.nodes)))
            ssn.outcome.refusals.add(job, refusal)
            continue
        if _failed_before(ssn, job, sub_job, task):
            tasks.popleft()
            text = f"Task {task.name} with role spec {task.role} has already predicated failed, skip"
            ssn.outcome.unfit(job, task, FitError({}, 0, text))
            continue
        if checks:
            said = ssn.pre_predicate(task)
            if not said:
                tasks.popleft()
                ssn.outcome.unfit(job, task, nowhere(ssn, said))
                if goes_on(ssn, job, sub_job):
                    continue
                break
        if needed < 1 and sub_job is None:
            needed = ssn.more_needed(job)
        placed = None if task.klass is single else _place_many(ssn, queue, tasks, needed, statement, search)
        if placed is None:
            single = task.klass
        if not placed:
            tasks.popleft()
            found = search.choose(task)
            if isinstance(found, FitError):
                ssn.outcome.unfit(job, task, found)
                if goes_on(ssn, job, sub_job):
                    continue
                break
            if _apply(statement, task, found):
                continue
            placed = 1
        needed -= placed
        if needed < 1 and ssn.sub_job_ready(job, sub_job):
            statement.ready = sub_job is None
            return statement
    ready = ssn.sub_job_ready(job, sub_job)
    if ready or ssn.sub_job_pipelined(job, sub_job):
        return statement
    if not ssn.outcome.refusals.tells(job):
        first = next(iter(ssn.outcome.fit_errors.get(job.uid, {}).values()), None)
        if statement.operations or first is None:
            part, whose = (job, "it") if sub_job is None or sub_job.is_default else (sub_job, "a sub-group of it")
            places = f"{part.ready_count} of the {part.min_available} tasks that {whose} needs have a place"
            refusal = Refusal.of(Stage.READY, ready, otherwise=places)
            refusal.placed = len(statement.operations)
            ssn.outcome.refusals.add(job, refusal)
        else:
            ssn.outcome.refusals.add(job, Refusal(Stage.NODES, error=first))
    if job.with_status(S.ALLOCATED) or job.with_status(S.PIPELINED):  # tasks of this group, or of those before it
        for error in ssn.outcome.fit_errors.get(job.uid, {}).values():
            error.settle()  # once what was placed is taken back, the reason could no longer be found
    statement.discard()
    return None


def place_in_sets(
    ssn: Session,
    queue: Queue,
    job: Job,
    sub_job: SubJob | None,
    tasks: deque[Task],
    remember: bool,
    domain: npt.NDArray[np.bool_] | None = None,
) -> Statement | None:
    """As `place_tasks`, in the first that will do of the sets into which plugins split the nodes.

    A job that has its minimum already gets more in the first one with room.
    """
    if not ssn.anybody(t.SUBSET_NODES):
        return place_tasks(ssn, queue, job, sub_job, tasks, remember, domain)
    nodes = ssn.view(_by_name) if domain is None else [n for n in ssn.view(_by_name) if domain[n.row]]
    sets = ssn.subset_nodes(job, sub_job, list(tasks), nodes)
    if sets is not None and len(sets) == 1 and len(sets[0]) == len(nodes):
        return place_tasks(ssn, queue, job, sub_job, tasks, remember, domain)
    whole, refused = list(tasks), ssn.outcome.refusals.tells(job)
    nothing: Statement | None = None
    for one in [nodes] if sets is None else sets:
        for task in whole:  # what failed in the set before says nothing about this one
            ssn.outcome.fit_errors.get(job.uid, {}).pop(task.uid, None)
        tasks.clear()
        tasks.extend(whole)
        within = rows_of(ssn, one)
        placed = place_tasks(ssn, queue, job, sub_job, tasks, remember, within if domain is None else within & domain)
        if placed is not None and placed.operations:
            if not refused:  # what the sets before said no longer stands in its way
                ssn.outcome.refusals.discard(job)
            return placed
        nothing = placed if nothing is None else nothing
    if nothing is not None:
        return nothing
    if not sets and not ssn.outcome.refusals.tells(job):
        ssn.outcome.refuse(job, Stage.NODES, "no set of nodes is left to try it on")
    return None


def _by_name(ssn: Session) -> list[Node]:
    """Return every node, in the order of their names. For `Session.view`."""
    return sorted(ssn.nodes.values(), key=lambda n: n.name)


def nowhere(ssn: Session, said: Verdict) -> FitError:
    """Why a task can be placed on no node at all."""
    nodes = len(ssn.nodes)
    return FitError({Reason(said.plugin, said.text, said.code): nodes}, nodes)


def _apply(statement: Statement, task: Task, choice: NodeChoice) -> str:
    if choice.idle:
        return statement.allocate(task, choice.node)
    return statement.pipeline(task, choice.node)


def _place_many(
    ssn: Session,
    queue: Queue,
    tasks: deque[Task],
    needed: int,
    statement: Statement,
    search: NodeSearch,
) -> int | None:
    """Place up to *needed* equal tasks at the head of *tasks* in bulk; how many were placed.

    None: tasks of this class can only be placed one by one.
    """
    wanted = min(needed, len(tasks))
    if wanted < 2:
        return 0
    first = tasks[0]
    alike, klass, labels, notes = ssn.search.evaluator.alike, first.klass, first.labels, first.annotations
    by_role, equal = search.by_role, 0
    for task in islice(tasks, wanted):
        same = task.klass is klass and task.labels is labels and task.annotations is notes  # then it surely is alike
        if (task.nominated_node and task is not first) or not (same or alike(first, task)):
            break
        if by_role and task.role != first.role:
            break
        equal += 1
    if equal < 2:
        return 0
    room = ssn.allocatable_room(queue, first, equal)
    if room < 2:
        return 0
    if not ssn.search.chooser.can_plan(ssn.search.evaluator.view(first)):
        return None
    rows = search.plan(first, room)
    if len(rows) < 2:
        return 0
    nodes = ssn.state.table.nodes
    chosen = [n for r in rows if (n := nodes[r]) is not None]
    done = statement.allocate_many(list(islice(tasks, len(chosen))), chosen)
    if done == len(tasks):
        tasks.clear()
    else:
        for _ in range(done):
            tasks.popleft()
    return done


def _failed_before(ssn: Session, job: Job, sub_job: SubJob | None, task: Task) -> bool:
    """Report whether an equal task of the job fits nowhere, and no later placement could have changed it."""
    failed = _unfit_tasks(ssn, job)
    if not failed:
        return False
    if ssn.compat.role_failure:
        if not task.role:
            return False
        return any(t.role == task.role and t.sub_job is sub_job for t in failed)
    view = ssn.search.evaluator.view(task)
    if view.session_filters:
        return False
    errors, now = ssn.outcome.fit_errors[job.uid], ssn.state.table.touched.position
    alike = ssn.search.evaluator.alike
    return any(errors[t.uid].at == now and alike(t, task) for t in failed)


def _unfit_tasks(ssn: Session, job: Job) -> list[Task]:
    """The tasks of a job that no node can take."""
    errors = ssn.outcome.fit_errors.get(job.uid)
    if not errors:
        return []
    return [job.tasks[uid] for uid, error in errors.items() if uid in job.tasks and not isinstance(error, QueueDenied)]


def goes_on(ssn: Session, job: Job, sub_job: SubJob | None) -> bool:
    """Report whether the job can still become ready without a task that failed."""
    group = sub_job if sub_job is not None else job
    if job.min_available == len(job.tasks) or group.min_available >= len(group.tasks):
        return False
    if job.policies:
        return True
    failed = {t.role for t in _unfit_tasks(ssn, job)}
    if job.min_available < job.role_total:
        left = sum(1 for t in job.with_status(S.PENDING).values() if t.role not in failed)
        return job.ready_count + left >= job.min_available
    for role in failed:
        minimum = job.role_minimums.get(role, 0)
        if minimum > 0 and job.role_ready_count(role) < minimum:
            return False
    return True
