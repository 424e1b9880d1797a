"""A node as plugins see it: a view of one row of the node table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

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
    """The part of the table of GPU devices that a node reads."""

    def held_on(self, row: int, request: GpuRequest | None = None, extra: int = 0) -> list[int]:
        """Thousandths that tasks hold of each device of a node; with *extra* more such requests."""

    def fits_on(self, row: int, request: GpuRequest, *, future: bool = False) -> bool:
        """Report whether a node has room for a request on its devices."""


class LedgerCells:
    """One ledger of the node table: an amount per resource and row."""

    __slots__ = ("cells",)

    cells: Any
    """A memory view of the amounts, resource then row; another one after the table grew."""


class NodeColumns(Protocol):
    """The part of the node table that a node reads: ledgers by resource and row."""

    idle: Amounts
    releasing: Amounts
    pipelined: Amounts
    ledgers: Mapping[str, LedgerCells]

    @property
    def devices(self) -> DeviceColumns | None:
        """The GPU devices of the nodes, where somebody counts them."""


class LedgerRow(Resources):
    """One node's column of a ledger, read from the table at each access."""

    __slots__ = ("_ledger", "_node", "_row")

    def __init__(self, ledger: LedgerCells, node: Node) -> None:
        self._ledger, self._node, self._row = ledger, node, node.row

    @property
    def _values(self) -> Mapping[int, Number]:  # type: ignore[override]
        return {d: self.get(d) for d in self._node._dims if d < len(self._ledger.cells)}

    @property
    def milli_cpu(self) -> Number:
        amount: int = self._ledger.cells[CPU, self._row]
        return amount

    @property
    def memory(self) -> Number:
        amount: int = self._ledger.cells[MEMORY, self._row]
        return amount

    def get(self, dimension: int, default: Number = 0) -> Number:
        cells = self._ledger.cells
        if dimension not in self._node._dims or dimension >= len(cells):
            return default
        amount: int = cells[dimension, self._row]
        return amount


_UNSEEN: Final = NodeObject()
"""A node before its object is applied."""


class Node(Sealed):
    """One node. Read-only: everything is changed by the state alone."""

    __slots__ = (
        *("_dims", "_table", "allocatable", "annotations", "capacity", "idle", "labels", "name", "object"),
        *("pipelined", "releasing", "row", "taints", "tasks", "used"),
    )

    name: Final[str]
    labels: Final[ReadOnlyMap[str, str]]
    annotations: Final[ReadOnlyMap[str, str]]
    taints: Final[tuple[Taint, ...]]
    tasks: Final[TaskMap]
    """Everything that is on it, by UID, pods of other schedulers included."""
    object: Final[NodeObject]
    row: Final[int]
    """Its row in the node table."""
    allocatable: Final[Resources]
    """The amounts that tasks can have in all."""
    capacity: Final[Resources]
    """The amounts of the machine."""
    idle: Final[Resources]
    """Free now. Negative where a node is over-committed."""
    used: Final[Resources]
    """Taken, by terminating tasks too."""
    releasing: Final[Resources]
    """The part of *used* that is being given back."""
    pipelined: Final[Resources]
    """Promised to tasks that wait for what is being released."""

    def __init__(self, table: NodeColumns, row: int, name: str) -> None:
        self._table, self.row, self.name = table, row, name
        self.labels = self.annotations = NOTHING
        self.taints = ()
        self.tasks = TaskMap()
        self.object = _UNSEEN
        self._dims: frozenset[int] = frozenset()
        ledgers = table.ledgers
        self.allocatable, self.capacity = LedgerRow(ledgers["allocatable"], self), LedgerRow(ledgers["capacity"], self)
        self.idle, self.used = LedgerRow(ledgers["idle"], self), LedgerRow(ledgers["used"], self)
        self.releasing, self.pipelined = LedgerRow(ledgers["releasing"], self), LedgerRow(ledgers["pipelined"], self)

    @property
    def future_idle(self) -> Resources:
        """The free amount when every release is done, less reservations."""
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
        """Report whether at least one GPU is wholly free."""
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
