"""A node as it would be after some more tasks: what scalar callbacks of scope NODE are asked about ahead of time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from pumice.model.node import LedgerRow, Node
from pumice.model.resources import CPU, MEMORY, Number, Resources
from pumice.model.task import Task, TaskMap


class ImaginedRow(LedgerRow):
    """A ledger of a node with *times* more requests on it."""

    __slots__ = ("_request", "_times")

    def __init__(
        self, matrix: npt.NDArray[np.int64], row: int, dims: frozenset[int], request: Resources, times: int
    ) -> None:
        self._matrix, self._row, self._dims = matrix, row, dims
        self._request, self._times = request, times

    @property
    def _values(self) -> Mapping[int, Number]:  # type: ignore[override]
        matrix, row, times, asked = self._matrix, self._row, self._times, self._request.amounts
        return {d: int(matrix[d, row]) + times * asked.get(d, 0) for d in self._dims if d < len(matrix)}

    @property
    def milli_cpu(self) -> Number:
        return int(self._matrix[CPU, self._row]) + self._times * self._request.get(CPU)

    @property
    def memory(self) -> Number:
        return int(self._matrix[MEMORY, self._row]) + self._times * self._request.get(MEMORY)

    def get(self, dimension: int, default: Number = 0) -> Number:
        if dimension not in self._dims or dimension >= len(self._matrix):
            return default
        return int(self._matrix[dimension, self._row]) + self._times * self._request.get(dimension)


class ImaginedNode(Node):
    """A node with *extra* more tasks like *task* on it. Everything else is the node's own."""

    __slots__ = ("_extra", "_node", "_request", "_task")

    def __init__(self, node: Node, task: Task, extra: int) -> None:
        self._table, self.row, self.name = node._table, node.row, node.name
        self.labels, self.annotations, self.taints = node.labels, node.annotations, node.taints
        self.object, self._dims = node.object, node._dims
        self._node, self._extra, self._task, self._request = node, extra, task, task.klass.requests

    def _ledger(self, matrix: npt.NDArray[np.int64]) -> LedgerRow:
        if matrix is self._table.used:
            return ImaginedRow(matrix, self.row, self._dims, self._request, self._extra)
        if matrix is self._table.idle:
            return ImaginedRow(matrix, self.row, self._dims, self._request, -self._extra)
        return super()._ledger(matrix)

    def _held_of_devices(self) -> list[int]:
        devices = self._table.devices
        return devices.held_on(self.row, self._task.klass.gpu, self._extra) if devices is not None else []

    @property
    def future_idle(self) -> Resources:
        return super().future_idle - self._task.requests.scaled(self._extra)

    @property
    def tasks(self) -> TaskMap:  # type: ignore[override]
        """The node's tasks and so many more like the one that is asked about."""
        more = {f"{self._task.uid}+{n}": self._task for n in range(self._extra)}
        return TaskMap({**self._node.tasks, **more})
