"""Why no node takes a task: nodes by reason, where eviction could help, the nearest miss, the one objection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pumice.engine.diagnosis import FitError, shortages
from pumice.engine.rows import NodeRows
from pumice.engine.views import Bools
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.limit import shown
from pumice.model.reason import parts_of, reason_of
from pumice.model.resources import PODS, Number, dim_name, unit
from pumice.model.status import TaskStatus
from pumice.model.task import Task, TaskClass


@dataclass(frozen=True, slots=True)
class NodeReason:
    """One reason and for how many nodes it stands."""

    text: str
    plugin: str
    nodes: int
    eviction_helps: bool | None
    """Whether an eviction could help on at least one of them. None: not known."""
    helps_on: int = 0
    """On how many of them."""


@dataclass(frozen=True, slots=True)
class SoleObjection:
    """Nodes that would take a task but for this one objection."""

    text: str
    plugin: str
    nodes: int
    example: str


@dataclass(frozen=True, slots=True)
class NearMiss:
    """The node that comes nearest to taking a task: what it lacks, or the one objection it has."""

    node: str
    lacks: dict[str, str]
    """Resource -> how much more must be free, as a manifest writes it."""
    objection: str = ""


class Nodes:
    """All nodes, seen by a task that none of them took."""

    def __init__(self, ssn: Session, task: Task, error: FitError) -> None:
        self._ssn, self._task, self._error = ssn, task, error
        self._table, self._view = ssn.state.table, ssn.search.evaluator.view(task)
        self._valid: Bools = self._table.valid[: self._view.size]

    @property
    def everywhere(self) -> bool:
        """Report whether all nodes were looked at, and not only those that a topology or a shard leaves."""
        return self._error.nodes >= int(self._valid.sum())

    def reasons(self) -> tuple[list[NodeReason], list[int]]:
        """Nodes by reason, most frequent first, and the rows on which eviction could help."""
        told = self._error.reasons()
        by_reason: dict[tuple[str, str], list[int]] = {}
        for row, number in self._helped():
            for reason in parts_of(reason_of(number), first=self._error.first):
                by_reason.setdefault((reason.plugin, reason.text), []).append(row)
        rows: dict[int, None] = {}
        out = []
        for reason, nodes in told:
            helped = by_reason.get((reason.plugin, reason.text), [])[:nodes] if reason.evictable else []
            rows.update(dict.fromkeys(helped))
            out.append(NodeReason(reason.text, reason.plugin, nodes, bool(helped), len(helped)))
        return out, list(rows)

    def _helped(self) -> Iterable[tuple[int, int]]:
        """Rows on which evictions could make room, with what stands in the way there now.

        They would be large enough if they were empty, hold a preemptable pod, and have no lasting objection.
        """
        view, table, task = self._view, self._table, self._task
        large = self._valid & _large_enough(task.klass, self._ssn, view.size) & ~(view.idle_ok & (view.code == 0))
        index = np.flatnonzero(large)
        short = shortages(task.klass, table, index)
        for row, code, shortage, idle in zip(
            index.tolist(), view.code[index].tolist(), short.tolist(), view.idle_ok[index].tolist(), strict=True
        ):
            node = table.nodes[row]
            if (code and not reason_of(code).evictable) or node is None:
                continue
            if any(t.preemptible and t.job is not task.job for t in node.tasks.values()):
                yield row, code if idle else shortage

    def nearest(self) -> NearMiss | None:
        """The node that lacks least among those without an objection, each filled with as many such tasks as fit.

        Among equal ones, a node that would have room if it were empty comes first, and then one that lacks fewer
        things.
        """
        view, table, klass = self._view, self._table, self._task.klass
        rows = self._ssn.search.chooser.feasible(view, self._task, self._valid & (view.code == 0))
        needs = [(d, v) for d, v in zip(klass.fit_dims, klass.fit_values, strict=True) if v > 0]
        if self._objected_late():
            rows = rows[~view.idle_ok[rows]]
        if not len(rows) or not needs or not any(r.plugin == "resources" for r, _ in self._error.reasons()):
            return None
        idle = {d: np.maximum(table.idle[d, rows], 0) for d, _ in needs}
        room = np.min([idle[d] // v for d, v in needs], axis=0)
        lacking = {d: np.maximum(v - (idle[d] - room * v), 0) for d, v in needs}
        short = np.array([lacking[d] / v for d, v in needs])
        never = ~_large_enough(klass, self._ssn, view.size)[rows]
        order = list(zip(short.max(axis=0).tolist(), never.tolist(), short.sum(axis=0).tolist(), strict=True))
        names = [node.name for row in rows.tolist() if (node := table.nodes[row]) is not None]
        best = min(range(len(names)), key=lambda i: (order[i], names[i]))
        return NearMiss(names[best], written((d, int(a[best])) for d, a in lacking.items() if a[best] > 0))

    def _objected_late(self) -> bool:
        """Report whether a plugin objected to nodes only because of placements for the job itself."""
        objections = sum(n for reason, n in self._error.reasons() if reason.plugin != "resources")
        return objections > int((self._valid & (self._view.code != 0)).sum())

    def protected(self, rows: Iterable[int]) -> dict[str, int]:
        """The protections of running pods on these rows, with their counts."""
        found: dict[str, int] = {}
        for row in rows if self._ssn.budgets.watched else ():
            node = self._table.nodes[row]
            for victim in node.tasks.values() if node is not None else ():
                if victim.preemptible and (why := self._ssn.budgets.spent(victim)):
                    found[why] = found.get(why, 0) + 1
        return dict(sorted(found.items()))

    def but_for(self) -> list[SoleObjection]:
        """The objections that are the only one of some nodes with room, asking every filter about every node."""
        evaluator, table, task = self._ssn.search.evaluator, self._table, self._task
        index = np.flatnonzero(self._valid & self._view.idle_ok)
        rows = NodeRows(table, index)
        objections = np.zeros(len(index), dtype=np.int64)
        last = np.zeros(len(index), dtype=np.int64)
        for f in evaluator.filters:
            if len(index) and evaluator.guard.applies(f, task):
                codes = evaluator.ask_filter(f, task, rows)
                objections += codes != 0
                last = np.where(codes != 0, codes, last)
        found: dict[int, list[str]] = {}
        for row in np.flatnonzero(objections == 1).tolist():
            node = table.nodes[int(index[row])]
            if node is not None:
                found.setdefault(int(last[row]), []).append(node.name)
        out = [SoleObjection(reason_of(c).text, reason_of(c).plugin, len(n), min(n)) for c, n in found.items()]
        return sorted(out, key=lambda o: (-o.nodes, o.text))


FitsEmpty: TypeAlias = dict[int, bool]
"""Id of a class -> whether an empty node has room for a task of it."""


def never_fits(ssn: Session, job: Job, fits: FitsEmpty | None = None) -> str | None:
    """Why the job cannot have all the tasks that it needs, however empty the nodes were; None if it could."""
    waiting, known = job.with_status(TaskStatus.PENDING).values(), {} if fits is None else fits
    for task in waiting:
        if id(task.klass) not in known:
            known[id(task.klass)] = _fits_an_empty_node(ssn, task.klass)
    large = sorted((t for t in waiting if not known[id(t.klass)]), key=lambda t: t.name)
    others = job.ready_count + len(waiting) - len(large)
    if not large or not ssn.nodes or others >= max(job.min_available, 1):
        return None
    task = large[0]
    table = ssn.state.table
    for d, v in task.klass.items:
        rows = np.flatnonzero(table.valid)
        most = int(table.allocatable[d, rows].max())
        if most < v:
            asked, has = _amount(d, v), _amount(d, most)
            return f"{task.name} asks for {asked} {dim_name(d)}, and no node has more than {has}"
    asked = " and ".join(f"{amount} {name}" for name, amount in written(task.klass.items).items())
    return f"{task.name} asks for {asked}, and no node has all of it"


def _fits_an_empty_node(ssn: Session, klass: TaskClass) -> bool:
    table = ssn.state.table
    return bool((table.valid & _large_enough(klass, ssn, len(table.valid))).any())


def _large_enough(klass: TaskClass, ssn: Session, size: int) -> Bools:
    """The rows that would have room for a task of the class if they were empty."""
    allocatable = ssn.state.table.allocatable
    fits = np.ones(size, dtype=np.bool_)
    for d, v in klass.items:
        fits &= allocatable[d, :size] >= v
    return fits


def written(items: Iterable[tuple[int, Number]]) -> dict[str, str]:
    """Amounts as a manifest would write them, the pod slot left out."""
    return {dim_name(d): _amount(d, v) for d, v in items if d != PODS and v}


def _amount(d: int, v: Number) -> str:
    return shown(dim_name(d), v / unit(d))
