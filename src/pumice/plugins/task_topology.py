"""task-topology: tasks of a job that belong together go to one node, those that disturb each other apart."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.engine.scope import SKIP
from pumice.framework.arguments import Argument
from pumice.framework.plugin import Plugin
from pumice.framework.points.callback import EventHandler
from pumice.framework.session.session import Session
from pumice.model import keys
from pumice.model.job import Job
from pumice.model.resources import MEMORY
from pumice.model.status import TaskStatus
from pumice.model.task import Task

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Pairs = frozenset[tuple[str, str]]

AFFINITY: Final = keys.TOPOLOGY_AFFINITY
ANTI_AFFINITY: Final = keys.TOPOLOGY_ANTI_AFFINITY
TASK_ORDER: Final = keys.TOPOLOGY_TASK_ORDER
_SELF_APART, _TOGETHER, _SELF_TOGETHER, _APART = 4, 3, 2, 1
"""How much a rule of each sort says about the role it names."""
_OF_THIS_SESSION: Final = (TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.PIPELINED)
"""The record of a task that the session placed, or took back."""


@dataclass(frozen=True, slots=True)
class RoleAffinities:
    """The rules of a job's annotations about its roles."""

    together: Pairs
    apart: Pairs
    weight: Mapping[str, int]
    """Role -> how much is said about it; roles that no rule names are not in it."""
    order: Mapping[str, int]
    """Role -> its place in the order that was given; the first has the highest number."""

    def claim(self, task: Task) -> tuple[int, int]:
        """The more, the sooner the task is dealt with."""
        return self.order.get(task.role, 0), self.weight.get(task.role, 0)

    def attraction(self, role: str, others: Mapping[str, int], *, apart_only: bool = False) -> int:
        """How many of the others the role wants to be with, less those it wants to be away from."""
        found = 0
        for other, count in others.items():
            if not apart_only and (role, other) in self.together:
                found += count
            if (role, other) in self.apart:
                found -= count
        return found


@dataclass(slots=True)
class Bucket:
    """Tasks that are to share a node."""

    index: int
    waiting: dict[str, Task] = field(default_factory=dict)
    roles: dict[str, int] = field(default_factory=dict)
    placed: dict[int, int] = field(default_factory=dict)
    """Row -> how many of its tasks are there."""
    size: float = 0.0
    """The requests of the pending tasks, in one number."""

    def add(self, task: Task, row: int) -> None:
        """A task that waits (*row* below 0) or has its place joins."""
        self.roles[task.role] = self.roles.get(task.role, 0) + 1
        if row >= 0:
            self.placed[row] = self.placed.get(row, 0) + 1
        else:
            self.waiting[task.uid] = task
            self.size += _size(task)

    def place(self, task: Task, row: int) -> None:
        """One of its tasks got a place."""
        if self.waiting.pop(task.uid, None) is not None:
            self.placed[row] = self.placed.get(row, 0) + 1
            self.size -= _size(task)

    def take_back(self, task: Task, row: int) -> None:
        """One of its tasks lost its place again."""
        if task.uid not in self.waiting and self.placed.get(row, 0) > 0:
            self.placed[row] -= 1
            self.waiting[task.uid] = task
            self.size += _size(task)


class BucketPlan:
    """The buckets of one job."""

    def __init__(self, topology: RoleAffinities, tasks: Iterable[Task], rows: Mapping[str, int]) -> None:
        """*rows*: where nodes stand, by name; a task that has ended still counts on its node."""
        self.topology = topology
        self.buckets: list[Bucket] = []
        self.of: dict[str, Bucket] = {}
        """Task -> its bucket; tasks of roles that no rule names have none."""
        self.largest = 0
        self.on_row: dict[int, dict[str, int]] = {}
        """Row -> role -> how many were placed there in this session."""
        named = [
            (t, rows.get(_node_name(t), -1))
            for t in tasks
            if t.role in topology.weight and (_node_name(t) or t.status is TaskStatus.PENDING)
        ]
        by_row: dict[int, Bucket] = {}
        for task, row in sorted(named, key=lambda pair: self._turn(pair[0])):
            bucket = by_row.get(row) if row >= 0 else self._best(task)
            if bucket is None:
                bucket = Bucket(len(self.buckets))
                self.buckets.append(bucket)
                if row >= 0:
                    by_row[row] = bucket
            bucket.add(task, row)
            self.of[task.uid] = bucket
            self.largest = max(self.largest, len(bucket.waiting) + sum(bucket.placed.values()))

    def _turn(self, task: Task) -> tuple[bool, str, int, int, str]:
        """Tasks that have a place first, then those about which most is said."""
        if _node_name(task):
            return False, _node_name(task), 0, 0, task.name
        order, weight = self.topology.claim(task)
        return True, "", -order, -weight, task.name

    def _best(self, task: Task) -> Bucket | None:
        """The bucket that the task wants most, of equal ones that which asks for least; None if it repels all."""
        wanted = [(self.topology.attraction(task.role, b.roles), b) for b in self.buckets]
        found = min(wanted, key=lambda pair: (-pair[0], pair[1].size, pair[1].index), default=(-1, None))
        return found[1] if found[0] >= 0 else None

    def place(self, task: Task, sign: int) -> None:
        """A task got its place (*sign* 1), or gave it back."""
        if task.node is None:
            return
        row = task.node.row
        roles = self.on_row.setdefault(row, {})
        roles[task.role] = roles.get(task.role, 0) + sign
        bucket = self.of.get(task.uid)
        if bucket is not None:
            (bucket.place if sign > 0 else bucket.take_back)(task, row)


class TaskTopology(Plugin):
    """Puts tasks of roles with affinity on one node, keeps those with anti-affinity apart, by PodGroup annotations."""

    name = "task-topology"
    persistent = True
    weight = Argument(1, "Weight of the score.", name="task-topology.weight")

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        self._plans: dict[str, BucketPlan | None] = {}
        ssn.add_task_order_key_fn(self.name, self._turn)
        ssn.add_batch_node_order_fn(self.name, self._score, key=self._bucketed)
        ssn.add_event_handler(
            EventHandler(
                allocate=lambda event: self._count([event.task], 1),
                deallocate=lambda event: self._count([event.task], -1),
                allocate_many=lambda tasks: self._count(tasks, 1),
                deallocate_many=lambda tasks: self._count(tasks, -1),
            )
        )

    def _plan(self, job: Job | None) -> BucketPlan | None:
        """The buckets of a job, made when first asked for; None if it has no such annotations or nothing waits."""
        if job is None:
            return None
        if job.uid not in self._plans:
            topology = read(job) if job.with_status(TaskStatus.PENDING) else None
            self._plans[job.uid] = None
            if topology is not None:
                rows = {n: node.row for t in job.tasks.values() if (node := self._ssn.nodes.get(n := _node_name(t)))}
                self._plans[job.uid] = BucketPlan(topology, job.tasks.values(), rows)
        return self._plans[job.uid]

    def _count(self, tasks: Sequence[Task], sign: int) -> None:
        """Follow what was placed and taken back in this session; who is evicted does not wait again."""
        for task in tasks:
            plan = self._plans.get(task.job_key)
            if plan is not None and task.status in _OF_THIS_SESSION:
                plan.place(task, sign)

    def _turn(self, task: Task) -> tuple[int, ...]:
        """Tasks of the biggest bucket first, then of the oldest, then those about which most is said."""
        plan = self._plan(task.job)
        bucket = plan.of.get(task.uid) if plan is not None else None
        if plan is None or bucket is None:
            return (1,)
        order, weight = plan.topology.claim(task)
        return 0, -len(bucket.waiting), bucket.index, -order, -weight

    def _bucketed(self, task: Task) -> Hashable:
        plan = self._plan(task.job)
        return task.uid if plan is not None and task.uid in plan.of else SKIP

    def _score(self, task: Task, rows: NodeRows) -> Floats:
        """How many of the bucket are on the node or fit there, less those on it that the task is to be away from.

        0 where the task itself does not fit into what is idle or being released.
        """
        plan = self._plan(task.job)
        bucket = plan.of.get(task.uid) if plan is not None else None
        if plan is None or bucket is None:
            return np.zeros(len(rows))
        score = len(bucket.waiting) - _left_over(task, bucket, rows)
        place = {int(row): n for n, row in enumerate(rows.index.tolist())}
        for row, count in bucket.placed.items():
            if row in place:
                score[place[row]] += count
        for row, roles in plan.on_row.items():
            if row in place:
                score[place[row]] += min(plan.topology.attraction(task.role, roles, apart_only=True), 0)
        for d, v in task.klass.items:
            score[rows.idle[d] + rows.releasing[d] < v] = 0
        return score.astype(np.float64) * (self.weight * 100.0 / max(plan.largest, 1))


def _left_over(task: Task, bucket: Bucket, rows: NodeRows) -> Ints:
    """Per row, how many tasks of the bucket beside this one do not fit there."""
    others = [bucket.waiting[uid] for uid in sorted(bucket.waiting) if uid != task.uid]
    members = [task, *others] if task.uid in bucket.waiting else others
    dims = sorted({d for t in members for d, _ in t.klass.items})
    out = np.zeros(len(rows), dtype=np.int64)
    for d in dims:
        total = sum(int(t.klass.requests.get(d)) for t in members)
        without = total - np.cumsum([0, *(int(t.klass.requests.get(d)) for t in others)])
        free = rows.idle[d] + rows.releasing[d]
        # `without` falls: the first place at which it fits into what is free
        need = len(without) - np.searchsorted(without[::-1], free, side="right")
        out = np.maximum(out, need)
    return np.minimum(out, len(others))


def _node_name(task: Task) -> str:
    return task.node.name if task.node is not None else task.pod.spec.node_name


def _size(task: Task) -> float:
    """A request in one number: a thousandth of a core weighs as much as a MiB."""
    return sum(v / 2**20 if d == MEMORY else float(v) for d, v in task.klass.items)


# -- annotations ----------------------------------------------------------------------------------------------------
def read(job: Job) -> RoleAffinities | None:
    """The rules of a job's annotations; None without any, or if they repeat a role in a group or name a missing one."""
    notes = job.annotations
    if not any(key in notes for key in (AFFINITY, ANTI_AFFINITY, TASK_ORDER)):
        return None
    roles = {t.role for t in job.tasks.values()}
    near, far = _groups(notes.get(AFFINITY)), _groups(notes.get(ANTI_AFFINITY))
    order = [role for role in notes.get(TASK_ORDER, "").split(",") if role]
    for group in (*near, *far, order):
        if len(set(group)) != len(group) or not roles.issuperset(group):
            return None
    weight: dict[str, int] = {}
    for groups, alone, joined in ((near, _SELF_TOGETHER, _TOGETHER), (far, _SELF_APART, _APART)):
        for group in groups:
            for role in group:
                weight[role] = max(weight.get(role, 0), alone if len(group) == 1 else joined)
    places = {role: len(order) - n for n, role in enumerate(order)}
    return RoleAffinities(_pairs(near), _pairs(far), weight, places)


def _groups(text: str | None) -> list[list[str]]:
    return [[role for role in group.split(",") if role] for group in (text or "").split(";")]


def _pairs(groups: Iterable[Sequence[str]]) -> Pairs:
    """Every two roles of a group, both ways; a role alone in its group is paired with itself."""
    return frozenset((a, b) for group in groups for a in group for b in group if a != b or len(group) == 1)
