"""Victims: the order of evictions, their groups, and the limits of disruption budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Final

from pumice.engine.heap import GoHeap
from pumice.framework.points import table as points
from pumice.framework.session.budgets import Budgets
from pumice.framework.session.nominations import places_held
from pumice.framework.session.rounds import not_back_from, tell_spared
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Operation, OperationKind
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.resources import Resources
from pumice.model.status import TaskStatus
from pumice.model.task import Task

S = TaskStatus
ASKS = (points.VICTIM_QUEUE_ORDER, points.QUEUE_ORDER, points.JOB_ORDER, points.TASK_ORDER)
_NODES: Final = 64
"""So many nodes are preferred one after the other, by those who spend budgets."""


@dataclass(slots=True)
class EvictionScenario:
    """A plan as `scenario_validator` sees it: the beneficiary, and the victims."""

    action: str
    job: Job
    task: Task | None = None
    victims: dict[str, list[Task]] = field(default_factory=dict)
    """By the UID of their job; tasks without one under nothing."""


@dataclass(slots=True)
class EvictionContext:
    """The question of `unified_evictable`: kind is GangPreempt or GangReclaim."""

    kind: str
    job: Job
    task: Task | None = None
    hypernode: str = ""


def scenario_of(action: str, job: Job, operations: Iterable[Operation], task: Task | None = None) -> EvictionScenario:
    """The scenario that a statement's operations amount to."""
    scenario = EvictionScenario(action, job, task)
    for op in operations:
        if op.kind is OperationKind.EVICT:
            scenario.victims.setdefault(op.task.job_key, []).append(op.task)
    return scenario


def without_rounds(ssn: Session, job: Job, victims: list[Task]) -> list[Task]:
    """The permitted victims for a job, so that jobs do not evict each other in turn; it is told which are not
    permitted."""
    spared = not_back_from(ssn, job)
    if not spared:
        return victims
    for uid in sorted({t.job_key for t in victims if t.job_key in spared}):
        tell_spared(ssn, job, uid)
    return [t for t in victims if t.job_key not in spared]


def _queue_of(ssn: Session, preemptor: Task) -> Queue | None:
    job = preemptor.job
    return ssn.queues.get(job.queue) if job is not None and job.in_session else None


def victim_less(ssn: Session, preemptor: Task) -> Callable[[Task, Task], bool]:
    """The same order as a relation of two tasks, with what holds when it is asked."""
    queue, order = _queue_of(ssn, preemptor), ssn.orders.compare_jobs()

    def less(left: Task, right: Task) -> bool:
        a, b = left.job, right.job
        if a is b:
            return not ssn.orders.task_less(left, right)
        known_a, known_b = a is not None and a.in_session, b is not None and b.in_session
        if a is None or b is None or not (known_a and known_b):
            return not known_a if known_a != known_b else not ssn.orders.task_less(left, right)
        if queue is None or a.queue == b.queue:
            c = order(a, b)
            return c > 0 if c else not ssn.orders.task_less(left, right)
        return ssn.orders.victim_queue_less(ssn.queues[a.queue], ssn.queues[b.queue], queue)

    return less


def victim_queue(ssn: Session, victims: Sequence[Task], preemptor: Task) -> GoHeap[Task]:
    """Victims to be popped one by one; the order follows what the evictions change (shares of jobs)."""
    less = victim_less(ssn, preemptor)
    if len({t.job_key for t in victims}) == 1:
        place = {t.uid: n for n, t in enumerate(ssn.orders.victims(victims, preemptor))}
        return GoHeap(lambda a, b: place[a.uid] < place[b.uid], victims)
    return GoHeap(less, victims)


# -- groups ----------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class VictimGroup:
    """Tasks of one job that go together. If *safe*, its gang stays whole; else the gang is broken."""

    job: Job
    tasks: list[Task]
    safe: bool
    worth: float = 0.0
    """How much of the need it frees, against what its job loses."""


def groups_of(ssn: Session, tasks: Iterable[Task]) -> list[VictimGroup]:
    """Return the candidates of each job as what its gang can spare, and the rest.

    A task that waits for room that was freed for it counts for its gang: the gang is not broken.
    """
    by_job: dict[str, list[Task]] = {}
    for task in tasks:
        by_job.setdefault(task.job_key, []).append(task)
    out = []
    for uid in sorted(by_job):
        job = by_job[uid][0].job
        surplus = job.ready_count + places_held(ssn, job) - job.min_available
        safe, whole = _split(job, surplus, sorted(by_job[uid], key=lambda t: (t.priority, t.uid)))
        out += [VictimGroup(job, part, is_safe) for part, is_safe in ((safe, True), (whole, False)) if part]
    return out


def _split(job: Job, surplus: int, tasks: Sequence[Task]) -> tuple[list[Task], list[Task]]:
    """(what can go without breaking the gang, the rest); *surplus*: by how many tasks it is above its minimum."""
    if job.together:  # on whatever nodes they are
        return [], sorted(
            (t for s in (S.BOUND, S.RUNNING) for t in job.with_status(s).values()), key=lambda t: (t.priority, t.uid)
        )
    if surplus < 0:
        return list(tasks), []
    roles = _role_surplus(job)
    spare = _spare_sub_jobs(job)
    broken = {s.uid for s in job.sub_jobs.values() if not s.is_ready}
    safe: list[Task] = []
    whole: list[Task] = []
    for task in tasks:
        sub_job = task.sub_job
        bound = sub_job is not None and sub_job.group in spare and sub_job.uid not in broken
        if surplus <= 0 or roles.get(task.role, 1) <= 0 or (bound and sub_job and spare[sub_job.group] <= 0):
            whole.append(task)
            continue
        safe.append(task)
        surplus -= 1
        if task.role in roles:
            roles[task.role] -= 1
        if bound and sub_job is not None:
            spare[sub_job.group] -= 1
            broken.add(sub_job.uid)
    return safe, whole


def _role_surplus(job: Job) -> dict[str, int]:
    if job.min_available < job.role_total:
        return {}
    return {role: job.role_ready_count(role) - minimum for role, minimum in job.role_minimums.items()}


def _spare_sub_jobs(job: Job) -> dict[str, int]:
    """Per sub-group with a minimum, how many of its ready sub-jobs it could lose."""
    out = {}
    for policy in job.policies:
        group = f"{job.uid}/{policy.name}"
        ready = sum(1 for s in job.sub_jobs.values() if s.group == group and s.is_ready)
        out[group] = ready - (policy.min_sub_groups or 0)
    return out


def value(group: VictimGroup, need: Resources) -> float:
    """Return what the group frees of the need, for each unit of what its job loses; safe tasks cost nothing."""
    if group.safe:
        return float("inf")
    local, total = sum_of(group.tasks).amounts, group.job.total_request.amounts
    gives = costs = 0.0
    for d, v in need.amounts.items():
        if v > 0:
            gives += min(local.get(d, 0), v) / v
            costs += total.get(d, 0) / v
    return gives / costs if costs else float("inf")


def in_order(
    ssn: Session, groups: Iterable[VictimGroup], need: Resources, preemptor: Queue, *, by_queue: bool
) -> list[VictimGroup]:
    """Return groups in the order in which they are taken: safe ones, then by job or by queue, then by worth."""
    listed = list(groups)
    for group in listed:
        group.worth = value(group, need)
    return sorted(listed, key=cmp_to_key(_comparison(ssn, preemptor, by_queue)))


def _comparison(ssn: Session, preemptor: Queue, by_queue: bool) -> Callable[[VictimGroup, VictimGroup], int]:
    job_less = ssn.orders.job_less()

    def compare(left: VictimGroup, right: VictimGroup) -> int:
        if left.safe != right.safe:
            return -1 if left.safe else 1
        if by_queue:
            if left.job.queue != right.job.queue:
                a, b = ssn.queues[left.job.queue], ssn.queues[right.job.queue]
                return -1 if ssn.orders.victim_queue_less(a, b, preemptor) else 1
        elif left.job is not right.job:
            return 1 if job_less(left.job, right.job) else -1
        a_key, b_key = _last_resort(left), _last_resort(right)
        return (a_key > b_key) - (a_key < b_key)

    return compare


def _last_resort(group: VictimGroup) -> tuple[float, str, str, int]:
    return -group.worth, group.job.uid, group.tasks[0].uid, len(group.tasks)


def sum_of(tasks: Iterable[Task]) -> Resources:
    """The sum of the tasks' requests."""
    total: dict[int, int | float] = {}
    for task in tasks:
        for d, v in task.klass.items:
            total[d] = total.get(d, 0) + v
    return Resources(total)


def allowed_only(groups: Iterable[VictimGroup], allowed: Iterable[Task], *, whole: bool) -> list[VictimGroup]:
    """VictimGroups of permitted tasks: a safe one without the others, a whole one only if all of it is permitted."""
    names = {t.uid for t in allowed}
    out = []
    for group in groups:
        tasks = [t for t in group.tasks if t.uid in names]
        if len(tasks) == len(group.tasks) and (group.safe or whole):
            out.append(group)
        elif group.safe and tasks:
            out.append(VictimGroup(group.job, tasks, True))
    return out


# -- budgets ---------------------------------------------------------------------------------------------------------
def affordable(budgets: Budgets, groups: Sequence[VictimGroup], need: Resources) -> Iterator[list[VictimGroup]]:
    """The groups that may go together, in their order; again and again, in other ways, while nobody is content."""
    if not budgets.watched:
        yield list(groups)
        return
    units = [unit for group in groups for unit in _units(group)]
    tried: set[frozenset[int]] = set()
    for preferred in _orders(units, need):
        allowance = budgets.allowance()
        going = frozenset([id(unit) for unit in preferred if allowance.take(unit.tasks)])
        if going not in tried:
            tried.add(going)
            yield [unit for unit in units if id(unit) in going]
        if len(going) == len(units):
            return


def _units(group: VictimGroup) -> list[VictimGroup]:
    """The tasks that go together or not at all."""
    return [VictimGroup(group.job, [task], True) for task in group.tasks] if group.safe else [group]


def _orders(units: Sequence[VictimGroup], need: Resources) -> Iterator[Sequence[VictimGroup]]:
    yield units
    worth = {id(unit): _worth(unit, need) for unit in units}
    ranked = sorted(units, key=lambda unit: -worth[id(unit)])
    yield ranked
    nodes = dict.fromkeys(task.node_name for unit in ranked for task in unit.tasks)
    for name in list(nodes)[:_NODES]:
        yield sorted(ranked, key=lambda unit, name=name: all(t.node_name != name for t in unit.tasks))  # type: ignore[misc]


def _worth(unit: VictimGroup, need: Resources) -> float:
    """How much of what is needed each task of it leaves, as parts of each resource."""
    given = sum_of(unit.tasks)
    return sum(min(given.get(d) / v, 1.0) for d, v in need.items() if v > 0) / len(unit.tasks)
