"""Victims by job: what a gang can spare, and the gang as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from pumice.framework.session.nominations import places_held
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.resources import Resources
from pumice.model.status import TaskStatus
from pumice.model.task import Task

S = TaskStatus


@dataclass(slots=True)
class Bundle:
    """Tasks of one job that go together. Safe ones do not break their gang; else the gang is broken as a whole."""

    job: Job
    tasks: list[Task]
    safe: bool
    worth: float = 0.0
    """How much of the need it gives, against what its job loses."""


def bundles_of(ssn: Session, tasks: Iterable[Task]) -> list[Bundle]:
    """Candidates split job by job into what its gang can spare and the rest.

    Who waits for room that was freed for him counts for his gang: it is not broken, others went to make it whole.
    """
    by_job: dict[str, list[Task]] = {}
    for task in tasks:
        by_job.setdefault(task.job_key, []).append(task)
    out = []
    for uid in sorted(by_job):
        job = by_job[uid][0].job
        surplus = job.ready_count + places_held(ssn, job) - job.min_available
        safe, whole = _split(job, surplus, sorted(by_job[uid], key=lambda t: (t.priority, t.uid)))
        out += [Bundle(job, part, is_safe) for part, is_safe in ((safe, True), (whole, False)) if part]
    return out


def _split(job: Job, surplus: int, tasks: Sequence[Task]) -> tuple[list[Task], list[Task]]:
    """(what can go without breaking the gang, the rest); *surplus*: by how many tasks it is above its minimum."""
    if job.together:  # wherever they are
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


def value(bundle: Bundle, need: Resources) -> float:
    """What the bundle gives of the need, for each unit of what its job loses; safe tasks cost nothing."""
    if bundle.safe:
        return float("inf")
    local, total = sum_of(bundle.tasks).amounts, bundle.job.total_request.amounts
    gives = costs = 0.0
    for d, v in need.amounts.items():
        if v > 0:
            gives += min(local.get(d, 0), v) / v
            costs += total.get(d, 0) / v
    return gives / costs if costs else float("inf")


def in_order(
    ssn: Session, bundles: Iterable[Bundle], need: Resources, preemptor: Queue, *, by_queue: bool
) -> list[Bundle]:
    """Bundles in the order in which they are taken: safe ones, then by job or by queue, then by worth."""
    listed = list(bundles)
    for bundle in listed:
        bundle.worth = value(bundle, need)
    return sorted(listed, key=cmp_to_key(_comparison(ssn, preemptor, by_queue)))


def _comparison(ssn: Session, preemptor: Queue, by_queue: bool) -> Callable[[Bundle, Bundle], int]:
    job_less = ssn.orders.job_less()

    def compare(left: Bundle, right: Bundle) -> int:
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


def _last_resort(bundle: Bundle) -> tuple[float, str, str, int]:
    return -bundle.worth, bundle.job.uid, bundle.tasks[0].uid, len(bundle.tasks)


def sum_of(tasks: Iterable[Task]) -> Resources:
    """What tasks ask for together."""
    total: dict[int, int | float] = {}
    for task in tasks:
        for d, v in task.klass.items:
            total[d] = total.get(d, 0) + v
    return Resources(total)


def allowed_only(bundles: Iterable[Bundle], allowed: Iterable[Task], *, whole: bool) -> list[Bundle]:
    """Bundles of permitted tasks: a safe one without the others, a whole one only if all of it is permitted."""
    names = {t.uid for t in allowed}
    out = []
    for bundle in bundles:
        tasks = [t for t in bundle.tasks if t.uid in names]
        if len(tasks) == len(bundle.tasks) and (bundle.safe or whole):
            out.append(bundle)
        elif bundle.safe and tasks:
            out.append(Bundle(bundle.job, tasks, True))
    return out
