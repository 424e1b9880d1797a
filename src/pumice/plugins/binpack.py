"""binpack: fill nodes up one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows, lines_of
from pumice.engine.scope import Scope
from pumice.engine.views import same_class
from pumice.framework.arguments import Argument, ArgumentMap, Arguments
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model.resources import dim
from pumice.model.task import Task, TaskClass

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Binpack(Plugin):
    """Prefers nodes that the task would fill up most, resource by resource and weighted."""

    name = "binpack"
    persistent = True
    weight = Argument(1, "Weight of the whole score; 0 turns it off.", name="binpack.weight", minimum=0, lenient=True)
    cpu = Argument(1, "Weight of cpu.", name="binpack.cpu", minimum=0, lenient=True)
    memory = Argument(1, "Weight of memory.", name="binpack.memory", minimum=0, lenient=True)
    resources = Argument[list[str]]([], "Further resources that count.", name="binpack.resources", read=Arguments.names)
    weights = ArgumentMap(1, "Weight of one of them.", name="binpack.resources.<name>", minimum=0, lenient=True)

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        others = {name: self.weights.get(name, 1) for name in self.resources}
        weights = {"cpu": self.cpu, "memory": self.memory, **others}
        self._weights: Mapping[int, int] = {dim(name): w for name, w in weights.items()}
        self._plans: dict[tuple[int, ...], _Plan] = {}
        self._requests: dict[int, npt.NDArray[np.int64]] = {}

    def on_session_open(self, ssn: Session) -> None:
        if self.weight:
            ssn.add_batch_node_order_fn(self.name, self._score, scope=Scope.NODE, key=same_class)

    def _score(self, task: Task, rows: NodeRows) -> Floats:
        plan = self._plan(task.klass)
        if not plan.divisor:
            return np.zeros(len(rows))
        requests = self._asked(task.klass, plan)
        after = rows._matrix("used", plan.lines) + requests
        if rows.extra is not None:
            after += requests * rows.extra
        if not rows._table.all_offer(plan.dims):
            return self._with_gaps(plan, after, rows._matrix("allocatable", plan.lines))
        return self._filled(plan, after, rows._offered(plan.lines))

    def _filled(self, plan: _Plan, after: npt.NDArray[np.int64] | Floats, offered: Floats) -> Floats:
        """How full nodes would be *after* it."""
        parts = after / offered
        over: Bools = np.maximum.reduce(parts, axis=0) > 1.0
        if not plan.even:
            parts = after * plan.weights.reshape(-1, *(1,) * (after.ndim - 1)) / offered
        return self._total(plan, parts, over)

    def _total(self, plan: _Plan, parts: Sequence[Floats] | Floats, over: Bools) -> Floats:
        """The score by what is filled of each resource; 0 where one would be *over* full."""
        total: Floats = parts[0] + parts[1] if len(parts) == 2 else _added(parts)
        total /= plan.divisor
        total *= 100 * self.weight
        if np.count_nonzero(over):
            total[over] = 0.0
        return total

    def _with_gaps(self, plan: _Plan, after: npt.NDArray[np.int64], offered: npt.NDArray[np.int64]) -> Floats:
        """The same where some nodes do not offer some resource: it adds nothing there."""
        there = offered > 0
        parts = np.where(there, after * plan.weights / np.where(there, offered, 1), 0.0)
        total: Floats = np.add.reduce(parts, axis=0) / plan.divisor * (100 * self.weight)
        total[np.logical_or.reduce(there & (after > offered), axis=0)] = 0.0
        return total

    def _plan(self, klass: TaskClass) -> _Plan:
        """Which resources of classes like this count, in what order."""
        weights = self._weights
        asked = tuple([d for d, v in klass.items if v and d in weights])
        plan = self._plans.get(asked)
        if plan is None:
            plan = self._plans[asked] = _plan_of([(d, weights[d]) for d in asked])
        return plan

    def _asked(self, klass: TaskClass, plan: _Plan) -> npt.NDArray[np.int64]:
        """What a class asks for of the resources that count."""
        known = self._requests.get(klass.id)
        if known is None:
            known = np.array([[klass.requests.get(d)] for d in plan.dims], dtype=np.int64)
            self._requests[klass.id] = known
        return known


@dataclass(slots=True)
class _Plan:
    """What of a class counts: resources, their weights, and the sum of all weights."""

    dims: tuple[int, ...]
    lines: slice | npt.NDArray[np.intp]
    weights: npt.NDArray[np.int64]
    even: bool
    divisor: int


def _plan_of(counted: Sequence[tuple[int, int]]) -> _Plan:
    dims = tuple([d for d, w in counted if w])
    return _Plan(
        dims,
        lines_of(dims),
        np.array([[w] for _, w in counted if w], dtype=np.int64),
        all(w == 1 for _, w in counted if w),
        sum(w for _, w in counted),
    )


def _added(parts: Sequence[Floats] | Floats) -> Floats:
    """The sum of the lines, one after the other."""
    total: Floats = parts[0].copy()
    for part in parts[1:]:
        total = total + part
    return total
