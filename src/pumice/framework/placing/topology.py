"""Placing a job by sub-jobs and hyper-nodes.

A job is tried in one hyper-node after the other, group by group as plugins say, and in each its sub-jobs in turn, again
in the hyper-nodes that plugins say. Every attempt is made on the session itself and undone; the best of a group is
done again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from pumice.engine.heap import GoHeap
from pumice.engine.hypernodes import HyperNodeTree, TopologyDomain, places_of
from pumice.framework.placing.domains import short_of_domains
from pumice.framework.placing.waiting_tasks import WaitingTasks, place_in_sets
from pumice.framework.points import table as points
from pumice.framework.points.table import HYPER_NODE_ORDER
from pumice.framework.session.nominations import holds
from pumice.framework.session.outcome import Stage
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Operation, Statement
from pumice.model.job import Job, SubJob
from pumice.model.queue import Queue
from pumice.model.task import Task, TaskMap

ASKS = (
    *(points.HYPER_NODE_ORDER, points.HYPER_NODE_GRADIENT_FOR_JOB, points.HYPER_NODE_GRADIENT_FOR_SUB_JOB),
    points.SUB_JOB_ORDER,
)
TasksBySubJob = dict[str, deque[Task]]


@dataclass(slots=True)
class _Attempt:
    """A way to place something: what to do, what is then left, and how good its hyper-node is."""

    hyper: TopologyDomain
    saved: list[Operation]
    left: Any
    score: float


def place_by_topology(
    ssn: Session, queue: Queue, job: Job, tasks_left: WaitingTasks, remember: bool
) -> Statement | None:
    """Place sub-jobs in order until the job is ready; the statement if it is or may wait, else None with all undone."""
    tree = ssn.hyper_nodes
    if job.has_topology and tree.problem:
        ssn.outcome.refuse(job, Stage.TOPOLOGY, tree.problem)
        return None
    by_sub_job = tasks_left.sub_jobs if job.policies else {job.uid: tasks_left.tasks}
    drops = bool(job.policies) and drops_sub_groups(ssn)
    if drops and tasks_left.required is None:
        tasks_left.required = required_of(ssn, job)
    placing = _Placing(ssn, queue, job, remember, tasks_left.required if drops else None, tree)
    done = placing.job(by_sub_job)
    if done is None:
        return None
    statement, left = done
    if job.policies:
        tasks_left.sub_jobs = left
    else:
        tasks_left.tasks = left[job.uid]
    return statement


def drops_sub_groups(ssn: Session) -> bool:
    """Is a sub-group without room given up, by allocate for the cycle, by the gang actions with the whole plan?"""
    return ssn.compat.dropped_sub_groups


class _Placing:
    """One visit of one job."""

    def __init__(
        self, ssn: Session, queue: Queue, job: Job, remember: bool, required: set[str] | None, tree: HyperNodeTree
    ) -> None:
        self._ssn, self._queue, self._job, self._remember, self._tree = ssn, queue, job, remember, tree
        self._required = required
        """What the job needs, where that is decided once; a sub-job that fails is then left out for the cycle."""
        self._whole = None if job.policies else job.whole()
        self._compares = False
        """Does it matter how good a hyper-node is for a sub-job: are several tried for the job?"""

    def job(self, by_sub_job: TasksBySubJob) -> tuple[Statement, TasksBySubJob] | None:
        """Place the job in the best hyper-node of the first group that will do: (statement, what is left)."""
        ssn, job = self._ssn, self._job
        groups = gradient(ssn, job, self._tree.top, "Allocate")
        promised = nominated_domain(ssn, job, by_sub_job)
        if promised is not None:
            groups = [[promised], *groups]
        for group in groups:
            attempts = []
            ranked = self._ranked(group)
            self._compares = ranked is None and len(group) > 1
            for hyper in group if ranked is None else ranked:
                self._forget_failures(job.tasks)
                left = {uid: deque(tasks) for uid, tasks in by_sub_job.items()}
                statement, score = self._sub_jobs(left, hyper)
                good = bool(statement.operations) and bool(ssn.job_ready(job) or ssn.job_pipelined(job))
                if good and (ranked is not None or len(group) == 1):
                    return statement, left
                saved = list(statement.operations)
                statement.discard()
                if good:
                    attempts.append(_Attempt(hyper, saved, left, score))
            for attempt in sorted(attempts, key=lambda a: (-a.score, a.hyper.name.encode())):
                statement = ssn.statement()
                if statement.replay(attempt.saved):
                    return statement, attempt.left
        if not groups:
            ssn.outcome.refusals.add(job, short_of_domains(ssn, job, by_sub_job))
        return None

    def _ranked(self, group: Sequence[TopologyDomain]) -> Iterator[TopologyDomain] | None:
        """The hyper-nodes of a group, best first, where that is known before anything is placed; None where not.

        It is known of a job that is one whole, if each hyper-node would be used as such: then its score does not depend
        on how the tasks are placed in it.
        """
        whole = self._whole
        if whole is None or len(group) == 1:
            return None
        ssn = self._ssn
        if not all(gradient(ssn, whole, h, "Allocate") == [[h]] for h in group if h.children):
            return None
        return _best_first(group, self._scores(whole, group))

    def _sub_jobs(self, by_sub_job: TasksBySubJob, hyper: TopologyDomain) -> tuple[Statement, float]:
        """Place sub-jobs inside a hyper-node until the job is ready; what was placed, and the sum of the scores."""
        ssn, job = self._ssn, self._job
        statement, total = ssn.statement(), 0.0
        queue = sub_job_queue(ssn, job, by_sub_job, self._whole, self._required)
        while queue:
            sub_job = queue.pop()
            own, score = self._sub_job(sub_job, by_sub_job, hyper)
            if own is None or not own.operations:
                if self._required is not None:
                    del by_sub_job[sub_job.uid]
                continue
            statement.merge(own)
            total += score
            if by_sub_job[sub_job.uid]:
                queue.push(sub_job)
            if ssn.job_ready(job):
                break
        return statement, total

    def _sub_job(
        self, sub_job: SubJob, by_sub_job: TasksBySubJob, inside: TopologyDomain
    ) -> tuple[Statement | None, float]:
        """Place a sub-job in the best hyper-node of the first group that will do."""
        ssn, uid = self._ssn, sub_job.uid
        for group in gradient(ssn, sub_job, inside, "Allocate"):
            attempts = []
            for hyper in group:
                tasks = deque(by_sub_job[uid])
                self._forget_failures(sub_job.tasks)
                alone = len(group) == 1
                score = self._scores(sub_job, group)[hyper.name] if alone and self._compares else 0.0
                statement = self._tasks(sub_job, tasks, hyper)
                if statement is None or not statement.operations:
                    continue
                if alone:
                    by_sub_job[uid] = tasks
                    return statement, score
                attempts.append(_Attempt(hyper, list(statement.operations), tasks, 0.0))
                statement.discard()
            scores = self._scores(sub_job, [a.hyper for a in attempts])
            for attempt in sorted(attempts, key=lambda a: (-scores[a.hyper.name], a.hyper.name.encode())):
                statement = ssn.statement()
                if statement.replay(attempt.saved):
                    by_sub_job[uid] = attempt.left
                    return statement, scores[attempt.hyper.name]
        return None, 0.0

    def _tasks(self, sub_job: SubJob, tasks: deque[Task], hyper: TopologyDomain) -> Statement | None:
        ssn = self._ssn
        domain = self._tree.rows(hyper, ssn.state.table.size)
        own = None if self._whole is not None else sub_job
        with within(ssn, hyper):
            return place_in_sets(ssn, self._queue, self._job, own, tasks, self._remember, domain)

    def _scores(self, sub_job: SubJob, hypers: Sequence[TopologyDomain]) -> dict[str, float]:
        if not hypers or not self._ssn.anybody(HYPER_NODE_ORDER):
            return dict.fromkeys((h.name for h in hypers), 0.0)
        scores: dict[str, float] = self._ssn.hyper_node_order(sub_job, {h.name: h.members for h in hypers})
        return scores

    def _forget_failures(self, tasks: TaskMap) -> None:
        """Another hyper-node is another chance: failures in the last say nothing, also of who has a place by now."""
        errors = self._ssn.outcome.fit_errors.get(self._job.uid)
        if errors:
            for uid in [uid for uid in errors if uid in tasks]:
                errors.pop(uid, None)


def _best_first(group: Sequence[TopologyDomain], scores: Mapping[str, float]) -> Iterator[TopologyDomain]:
    """The hyper-nodes of a group by score, then by name. The first is found without putting the others in order."""
    best = max([scores[h.name] for h in group])
    first = min([h for h in group if scores[h.name] == best], key=lambda h: h.name.encode())
    yield first
    for hyper in sorted(group, key=lambda h: (-scores[h.name], h.name.encode())):
        if hyper is not first:
            yield hyper


@contextmanager
def within(ssn: Session, hyper: TopologyDomain) -> Iterator[None]:
    """Within the block nodes are looked for in one hyper-node, and plugins can know it (`Session.domain`)."""
    before, ssn.domain = ssn.domain, hyper
    try:
        yield
    finally:
        ssn.domain = before


def nominated_domain(ssn: Session, job: Job, by_sub_job: TasksBySubJob) -> TopologyDomain | None:
    """The hyper-node in which room was freed for everything that waits of the job, if it may still be used.

    It follows from the nodes that the tasks are nominated for, so it outlives the cycle and a restart.
    """
    if not holds(ssn):
        return None
    nodes = {t.nominated_node for tasks in by_sub_job.values() for t in tasks}
    if not nodes or "" in nodes or any(n not in ssn.nodes for n in nodes):
        return None
    tree = ssn.hyper_nodes
    limit = tree.job_limit(job)
    if limit is None:
        return None
    found = tree.holders(nodes | places_of(job.tasks.values()), limit)
    return min(found, key=lambda h: (h.tier, len(h.nodes), h.name.encode())) if found else None


def gradient(ssn: Session, subject: Job | SubJob, inside: TopologyDomain, purpose: str) -> list[list[TopologyDomain]]:
    """The hyper-nodes to try, group by group; names that do not exist are left out."""
    if isinstance(subject, Job):
        groups = ssn.hyper_node_gradient_for_job(subject, inside, purpose)
    else:
        groups = ssn.hyper_node_gradient_for_sub_job(subject, inside, purpose)
    if groups is None:
        return [[inside]]
    found = []
    for group in groups:
        known = [
            h
            for item in group
            if (h := item if type(item) is TopologyDomain else ssn.hyper_nodes.get(item)) is not None
        ]
        if known:
            found.append(known)
    return found


def sub_job_queue(
    ssn: Session, job: Job, by_sub_job: TasksBySubJob, whole: SubJob | None = None, required: set[str] | None = None
) -> GoHeap[SubJob]:
    """Sub-jobs with tasks to place: those that the job needs to become ready first, then the rest, each in order."""
    if not job.policies:
        return GoHeap(ssn.orders.sub_job_less, [whole or job.whole()] if by_sub_job.get(job.uid) else [])
    needed = required_of(ssn, job) if required is None else required

    def less(left: SubJob, right: SubJob) -> bool:
        if (left.uid in needed) != (right.uid in needed):
            return left.uid in needed
        return ssn.orders.sub_job_less(left, right)

    return GoHeap(less, [s for s in job.sub_jobs.values() if by_sub_job.get(s.uid)])


def required_of(ssn: Session, job: Job) -> set[str]:
    """Sub-jobs that have to become ready for the job to have enough of each kind."""

    def compare(left: SubJob, right: SubJob) -> int:
        return -1 if ssn.orders.sub_job_less(left, right) else 1

    needed = {f"{job.uid}/{p.name}": p.min_sub_groups or 0 for p in job.policies}
    for sub_job in job.sub_jobs.values():
        if sub_job.is_ready and sub_job.group in needed:
            needed[sub_job.group] -= 1
    required = set()
    for sub_job in sorted(job.sub_jobs.values(), key=cmp_to_key(compare)):
        if not sub_job.is_ready and needed.get(sub_job.group, 0) > 0:
            needed[sub_job.group] -= 1
            required.add(sub_job.uid)
    return required
