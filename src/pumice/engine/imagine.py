"""A node as it would be after some more tasks: what scalar callbacks of scope NODE are asked about ahead of time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pumice.model.node import LedgerRow, Node
from pumice.model.resources import Resources
from pumice.model.task import Task


class ImaginedNode(Node):
    """A node with *extra* more tasks like *task* on it. Everything else is the node's own."""

    __slots__ = ("_extra", "_task")

    def __init__(self, node: Node, task: Task, extra: int) -> None:
        for slot in Node.__slots__:
            setattr(self, slot, getattr(node, slot))
        self._extra, self._task = extra, task

    def _ledger(self, matrix: npt.NDArray[np.int64]) -> LedgerRow:
        table = self._table
        if matrix is table.used:
            sign = 1
        elif matrix is table.idle:
            sign = -1
        else:
            return super()._ledger(matrix)
        column = matrix[:, self._row : self._row + 1].copy()
        for d, v in self._task.klass.items:
            column[d, 0] += sign * self._extra * v
        return LedgerRow(column, 0, self._dims)

    @property
    def future_idle(self) -> Resources:
        return super().future_idle - self._task.requests.scaled(self._extra)

    @property
    def tasks(self) -> Mapping[str, Task]:  # type: ignore[override]
        """The node's tasks and so many more like the one that is asked about."""
        more = {f"{self._task.uid}+{n}": self._task for n in range(self._extra)}
        return {**self._tasks, **more}
