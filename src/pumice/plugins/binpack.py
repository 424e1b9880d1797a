"""binpack: fill nodes up one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pumice.engine.offers import Offers
from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope
from pumice.engine.views import same_class
from pumice.framework.arguments import Arguments
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model.resources import dim
from pumice.model.task import Task, TaskClass

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_RESOURCES = "binpack.resources"


class Binpack(Plugin):
    """Prefers nodes that the task would fill up most, resource by resource and weighted.

    Arguments: ``binpack.weight`` (1; 0 turns it off), ``binpack.cpu`` (1), ``binpack.memory`` (1),
    ``binpack.resources`` (names of further resources) and ``binpack.resources.<name>`` (1).
    A negative weight counts as 1.
    """

    name = "binpack"
    steady = True
    arguments_read = ("binpack.weight", "binpack.cpu", "binpack.memory", _RESOURCES, f"{_RESOURCES}.*")

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._weight = _weight(arguments, "binpack.weight")
        weights = {"cpu": _weight(arguments, "binpack.cpu"), "memory": _weight(arguments, "binpack.memory")}
        for name in arguments.list(_RESOURCES):
            weights[name] = _weight(arguments, f"{_RESOURCES}.{name}")
        self._weights: Mapping[int, int] = {dim(name): w for name, w in weights.items()}
        self._plans: dict[int, _Plan] = {}

    def on_session_open(self, ssn: Session) -> None:
        self.on_session_reopen(ssn)
        if self._weight:
            ssn.add_batch_node_order_fn(self.name, self._score, scope=Scope.NODE, key=same_class, amounts_only=True)

    def on_session_reopen(self, ssn: Session) -> bool:
        self._offers = Offers.kept(ssn.runtime.kept, ssn.state.table)
        return True

    def _score(self, task: Task, rows: NodeRows) -> Floats:
        klass = task.klass
        plan = self._plans.get(klass.id)
        if plan is None:
            plan = self._plans[klass.id] = self._plan(klass)
        if not plan.divisor:
            return np.zeros(len(rows))
        offered, plain = self._offers.of(plan.dims, rows)
        after = rows.matrix(rows.table.used, plan.lines) + plan.requests
        if rows.extra is not None:
            after += plan.requests * rows.extra
        if not plain:
            return self._with_gaps(plan, after, rows)
        parts = after / offered
        over: Bools = np.maximum.reduce(parts, axis=0) > 1.0
        total: Floats = np.add.reduce(parts if plan.even else after * plan.weights / offered, axis=0)
        total /= plan.divisor
        total *= 100 * self._weight
        total[over] = 0.0
        return total

    def _with_gaps(self, plan: _Plan, after: npt.NDArray[np.int64], rows: NodeRows) -> Floats:
        """The same where some nodes do not offer some resource: it adds nothing there."""
        offered = rows.matrix(rows.table.allocatable, plan.lines)
        there = offered > 0
        parts = np.where(there, after * plan.weights / np.where(there, offered, 1), 0.0)
        total: Floats = np.add.reduce(parts, axis=0) / plan.divisor * (100 * self._weight)
        total[np.logical_or.reduce(there & (after > offered), axis=0)] = 0.0
        return total

    def _plan(self, klass: TaskClass) -> _Plan:
        """Which resources of a class count, in what order."""
        counted = [(d, v, self._weights[d]) for d, v in klass.items if v and d in self._weights]
        divisor = sum(w for _, _, w in counted)
        counted = [(d, v, w) for d, v, w in counted if w]
        dims = [d for d, _, _ in counted]
        return _Plan(
            tuple(dims),
            slice(0, len(dims)) if dims == list(range(len(dims))) else np.array(dims, dtype=np.intp),
            np.array([[v] for _, v, _ in counted], dtype=np.int64),
            np.array([[w] for _, _, w in counted], dtype=np.int64),
            all(w == 1 for _, _, w in counted),
            divisor,
        )


@dataclass(slots=True)
class _Plan:
    """What of a class counts: resources, what is asked of each, their weights, and the sum of all weights."""

    dims: tuple[int, ...]
    lines: slice | npt.NDArray[np.intp]
    requests: npt.NDArray[np.int64]
    weights: npt.NDArray[np.int64]
    even: bool
    divisor: int


def _weight(arguments: Arguments, key: str) -> int:
    value = arguments.int(key, 1)
    return 1 if value < 0 else value
