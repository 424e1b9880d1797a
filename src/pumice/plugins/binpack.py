"""binpack: fill nodes up one after the other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pumice.engine.evaluate import same_class
from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope
from pumice.framework.plugin import Arguments, Plugin
from pumice.framework.session import Session
from pumice.model.resources import dim
from pumice.model.task import Task

Floats = npt.NDArray[np.float64]

_RESOURCES = "binpack.resources"


class Binpack(Plugin):
    """Prefers nodes that the task would fill up most, resource by resource and weighted.

    Arguments: ``binpack.weight`` (1; 0 turns it off), ``binpack.cpu`` (1), ``binpack.memory`` (1),
    ``binpack.resources`` (names of further resources) and ``binpack.resources.<name>`` (1).
    A negative weight counts as 1.
    """

    name = "binpack"
    arguments_read = ("binpack.weight", "binpack.cpu", "binpack.memory", _RESOURCES, f"{_RESOURCES}.*")

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._weight = _weight(arguments, "binpack.weight")
        weights = {"cpu": _weight(arguments, "binpack.cpu"), "memory": _weight(arguments, "binpack.memory")}
        for name in arguments.list(_RESOURCES):
            weights[name] = _weight(arguments, f"{_RESOURCES}.{name}")
        self._weights: Mapping[int, int] = {dim(name): w for name, w in weights.items()}

    def on_session_open(self, ssn: Session) -> None:
        if self._weight:
            ssn.add_batch_node_order_fn(self.name, self._score, scope=Scope.NODE, key=same_class, amounts_only=True)

    def _score(self, task: Task, rows: NodeRows) -> Floats:
        total: Floats | None = None
        over: npt.NDArray[np.bool_] | None = None
        divisor = 0
        used, allocatable = rows.used, rows.allocatable
        for d, request in task._class.items:
            weight = self._weights.get(d)
            if weight is None or not request:
                continue
            divisor += weight
            offered = allocatable[d]
            after = used[d] + request
            if offered.all():
                part = after / offered
                too_much = part > 1.0
                if weight != 1:
                    part = after * weight / offered
            else:
                there = offered > 0
                part = np.where(there & (weight > 0), after * weight / np.where(there, offered, 1), 0.0)
                too_much = there & (after > offered) & (weight > 0)
            total = part if total is None else total + part
            over = too_much if over is None else over | too_much
        if total is None or over is None or not divisor:
            return np.zeros(len(rows))
        total = total / divisor * (100 * self._weight)
        total[over] = 0.0
        return total


def _weight(arguments: Arguments, key: str) -> int:
    value = arguments.int(key, 1)
    return 1 if value < 0 else value
