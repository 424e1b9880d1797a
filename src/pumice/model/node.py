"""A node as plugins see it: a view of one row of the node table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from pumice.model.api import NodeObject, Taint
from pumice.model.gpu import GpuRequest
from pumice.model.mapping import NOTHING, ReadOnlyMap
from pumice.model.resources import CPU, MEMORY, Number, Resources, dim
from pumice.model.sealed import Sealed
from pumice.model.task import GPU_RESOURCES, Task, TaskMap

Amounts = npt.NDArray[np.int64]


class DeviceColumns(Protocol):
    """What a node reads of the table of GPU devices."""

    def held_on(self, row: int, request: GpuRequest | None = None, extra: int = 0) -> list[int]:
        """Thousandths that tasks hold of each device of a node; with *extra* more such requests."""

    def fits_on(self, row: int, request: GpuRequest, *, future: bool = False) -> bool:
        """Report whether a node has room for a request on its devices."""


class NodeColumns(Protocol):
    """What a node reads of the node table: ledgers by resource and row."""

    allocatable: Amounts
    capacity: Amounts
    idle: Amounts
    used: Amounts
    releasing: Amounts
    pipelined: Amounts

    @property
    def devices(self) -> DeviceColumns | None:
        """The GPU devices of the nodes, where somebody counts them."""


class LedgerRow(Resources):
    """One node's column of a ledger, read where it stands."""

    __slots__ = ("_dims", "_matrix", "_row")

    def __init__(self, matrix: Amounts, row: int, dims: frozenset[int]) -> None:
        self._matrix, self._row, self._dims = matrix, row, dims

    @property
    def _values(self) -> Mapping[int, Number]:  # type: ignore[override]
        return {d: int(self._matrix[d, self._row]) for d in self._dims if d < len(self._matrix)}

    @property
    def milli_cpu(self) -> Number:
        return int(self._matrix[CPU, self._row])

    @property
    def memory(self) -> Number:
        return int(self._matrix[MEMORY, self._row])

    def get(self, dimension: int, default: Number = 0) -> Number:
        if dimension not in self._dims or dimension >= len(self._matrix):
            return default
        return int(self._matrix[dimension, self._row])


_UNSEEN: Final = NodeObject()
"""What a node is before its object was taken over."""


class Node(Sealed):
    """One node. Read-only: everything is changed by the state alone."""

    __slots__ = ("_dims", "_table", "annotations", "labels", "name", "object", "row", "taints", "tasks")

    name: Final[str]
    labels: Final[ReadOnlyMap[str, str]]
    annotations: Final[ReadOnlyMap[str, str]]
    taints: Final[tuple[Taint, ...]]
    tasks: Final[TaskMap]
    """Everything that is on it, by UID, pods of other schedulers included."""
    object: Final[NodeObject]
    row: Final[int]
    """Its row in the node table."""

    def __init__(self, table: NodeColumns, row: int, name: str) -> None:
        self._table, self.row, self.name = table, row, name
        self.labels = self.annotations = NOTHING
        self.taints = ()
        self.tasks = TaskMap()
        self.object = _UNSEEN
        self._dims: frozenset[int] = frozenset()

    def _ledger(self, matrix: Amounts) -> LedgerRow:
        return LedgerRow(matrix, self.row, self._dims)

    @property
    def allocatable(self) -> Resources:
        """What tasks can have in all."""
        return self._ledger(self._table.allocatable)

    @property
    def capacity(self) -> Resources:
        """What the machine has."""
        return self._ledger(self._table.capacity)

    @property
    def idle(self) -> Resources:
        """Free now. Negative where a node is over-committed."""
        return self._ledger(self._table.idle)

    @property
    def used(self) -> Resources:
        """Taken, by terminating tasks too."""
        return self._ledger(self._table.used)

    @property
    def releasing(self) -> Resources:
        """The part of *used* that is being given back."""
        return self._ledger(self._table.releasing)

    @property
    def pipelined(self) -> Resources:
        """Promised to tasks that wait for what is being released."""
        return self._ledger(self._table.pipelined)

    @property
    def future_idle(self) -> Resources:
        """Free once everything that is being released is gone, less what is promised."""
        t, r = self._table, self.row
        return Resources({d: int(t.idle[d, r] + t.releasing[d, r] - t.pipelined[d, r]) for d in self._dims})

    @property
    def unschedulable(self) -> bool:
        """Cordoned."""
        return self.object.spec.unschedulable

    @property
    def gpus(self) -> Number:
        """How many GPUs tasks can have in all."""
        return sum(self.allocatable[name] for name in GPU_RESOURCES)

    def _held_of_devices(self) -> list[int]:
        """Thousandths that tasks hold of each GPU device."""
        devices = self._table.devices
        return devices.held_on(self.row) if devices is not None else []

    @property
    def idle_gpus(self) -> Number:
        """How many GPUs are wholly free: nobody has or shares them."""
        idle = sum(self.idle[name] for name in GPU_RESOURCES)
        held = self._held_of_devices()
        return min(idle, held.count(0)) if held else idle

    @property
    def gpu_utilization(self) -> float:
        """The part of its GPUs that is taken, shares of one counted as such, 0 to 1; 0 without GPUs."""
        total = sum(self.allocatable.get(dim(n)) for n in GPU_RESOURCES)
        if not total:
            return 0.0
        used = sum(self.used.get(dim(n)) for n in GPU_RESOURCES)
        return max(used, sum(self._held_of_devices())) / total

    def has_available_gpus(self) -> bool:
        """Is at least one GPU wholly free?"""
        return self.idle_gpus >= 1

    def has_gpus_for(self, task: Task) -> bool:
        """Report whether the GPUs, or parts of GPUs, that a task asks for are free."""
        request, devices = task.klass.gpu, self._table.devices
        return request is None or devices is None or devices.fits_on(self.row, request)

    def __repr__(self) -> str:
        return f"<Node {self.name}>"


class NodeMap(ReadOnlyMap[str, Node]):
    """Nodes by name."""

    __slots__ = ()
    holds = Node
    keyed_by = "name"
