"""A node as it would be after some more tasks: what scalar callbacks of scope NODE are asked about ahead of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pumice.model.node import LedgerCells, LedgerRow, Node
from pumice.model.resources import CPU, MEMORY, Number, Resources
from pumice.model.task import Task, TaskMap


class ImaginedRow(LedgerRow):
    """A ledger of an imagined node: with (1) or without (-1) what its further tasks ask for."""

    __slots__ = ("_asked", "_sign")
    _node: ImaginedNode

    def __init__(self, ledger: LedgerCells, node: ImaginedNode, sign: int) -> None:
        self._ledger, self._node, self._row = ledger, node, node.row
        self._sign, self._asked = sign, node._task.klass.requests.amounts

    @property
    def milli_cpu(self) -> Number:
        now: int = self._ledger.cells[CPU, self._row]
        return now + self._sign * self._node._extra * self._asked.get(CPU, 0)

    @property
    def memory(self) -> Number:
        now: int = self._ledger.cells[MEMORY, self._row]
        return now + self._sign * self._node._extra * self._asked.get(MEMORY, 0)

    def get(self, dimension: int, default: Number = 0) -> Number:
        cells = self._ledger.cells
        if dimension not in self._node._dims or dimension >= len(cells):
            return default
        now: int = cells[dimension, self._row]
        return now + self._sign * self._node._extra * self._asked.get(dimension, 0)


class ImaginedNode(Node):
    """A node with *extra* more tasks like *task* on it, to be asked about at once. All else is the node's own."""

    __slots__ = ("_extra", "_node", "_task")

    _extra: int
    _node: Node
    _task: Task

    def __init__(self, node: Node, task: Task, extra: int) -> None:
        draft: Any = self
        draft._table, draft.row, draft.name = node._table, node.row, node.name
        draft.labels, draft.annotations, draft.taints = node.labels, node.annotations, node.taints
        draft.object, draft._dims = node.object, node._dims
        draft.allocatable, draft.capacity = node.allocatable, node.capacity
        draft.releasing, draft.pipelined = node.releasing, node.pipelined
        draft._node, draft._extra, draft._task = node, extra, task
        ledgers = node._table.ledgers
        draft.used, draft.idle = ImaginedRow(ledgers["used"], self, 1), ImaginedRow(ledgers["idle"], self, -1)

    def _held_of_devices(self) -> list[int]:
        devices = self._table.devices
        return devices.held_on(self.row, self._task.klass.gpu, self._extra) if devices is not None else []

    @property
    def future_idle(self) -> Resources:
        return super().future_idle - self._task.requests.scaled(self._extra)

    @property  # type: ignore[misc]
    def tasks(self) -> TaskMap:
        """The node's tasks and so many more like the one that is asked about."""
        more = {f"{self._task.uid}+{n}": self._task for n in range(self._extra)}
        return TaskMap({**self._node.tasks, **more})


_set_extra: Final = ImaginedNode.__dict__["_extra"].__set__


class ImaginedNodes:
    """Nodes with more tasks like *task* on them, each made once and then asked about with ever more."""

    __slots__ = ("_made", "_nodes", "_task")

    def __init__(self, nodes: Sequence[Node | None], task: Task) -> None:
        self._nodes, self._task = nodes, task
        self._made: dict[int, ImaginedNode] = {}

    def of(self, row: int, extra: int) -> ImaginedNode:
        """The node of a row with so many more, until the row is asked for again."""
        made = self._made.get(row)
        if made is None:
            node = self._nodes[row]
            assert node is not None
            made = self._made[row] = ImaginedNode(node, self._task, extra)
        else:
            _set_extra(made, extra)
        return made
