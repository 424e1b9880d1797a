"""The rows of the node table, as callbacks see them, with what more tasks of a class would change of them.

`NodeRows` shows some rows, `ImaginedNode` one node with more tasks of a class on it, and `fit_count` says for how many
tasks of a class rows have room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from pumice.model.node import LedgerCells, LedgerRow, Node
from pumice.model.resources import CPU, MEMORY, Number, Resources, known_dim
from pumice.model.task import Task, TaskClass, TaskMap
from pumice.state.table import NodeTable

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
G = TypeVar("G", bound=np.generic)

_ONE: Final = slice(0, 1)
FEW_ROWS: Final = 64
"""The number of rows from which all ledgers are read at once."""


def read_only(array: npt.NDArray[G]) -> npt.NDArray[G]:
    """The array, as a view that cannot be written."""
    view = array.view()
    view.flags.writeable = False
    return view


def lines_of(dims: tuple[int, ...]) -> slice | npt.NDArray[np.intp]:
    """The lines of resources in a ledger: as a slice, if they are its first ones."""
    return slice(0, len(dims)) if dims == tuple(range(len(dims))) else np.array(dims, dtype=np.intp)


def asked_lines(klass: TaskClass) -> tuple[slice | npt.NDArray[np.intp], Ints]:
    """The requests of a class, side by side: the lines of a ledger, and the amounts, read-only."""
    known: tuple[slice | npt.NDArray[np.intp], Ints] | None = klass.memo.get("engine.asked")
    if known is None:
        amounts = read_only(np.array(klass.fit_values, dtype=np.int64)[:, None])
        known = klass.memo["engine.asked"] = lines_of(klass.fit_dims), amounts
    return known


def _dim(name: str | int) -> int | None:
    return known_dim(name) if isinstance(name, str) else name


class Columns:
    """One ledger of the rows: ``rows.idle["cpu"]`` (ledger units) or ``rows.idle[dim]``.

    Several names, ``rows.idle["cpu", "memory"]``, give a line for each.
    """

    __slots__ = ("_index", "_matrix", "_rows", "_sign")

    def __init__(self, rows: NodeRows, part: tuple[Ints, npt.NDArray[np.intp] | None], sign: int) -> None:
        self._rows, self._sign = rows, sign
        self._matrix, self._index = part

    def __getitem__(self, name: str | int | tuple[str | int, ...]) -> Ints:
        if isinstance(name, tuple):
            dims = tuple([-1 if (d := _dim(n)) is None else d for n in name])
            if self._rows._extra is None and dims and min(dims) >= 0 and max(dims) < len(self._matrix):
                lines = self._matrix[lines_of(dims)]
                return lines if self._index is None else lines.take(self._index, axis=1)
            return np.array([self[n] for n in name], dtype=np.int64).reshape(len(name), len(self._rows))
        d = _dim(name)
        if d is None or d >= len(self._matrix):
            return np.zeros(len(self._rows), dtype=np.int64)
        column = self._matrix[d]
        return self._rows._adjusted(column if self._index is None else column.take(self._index), d, self._sign)

    @property
    def milli_cpu(self) -> Ints:
        return self[CPU]

    @property
    def memory(self) -> Ints:
        return self[MEMORY]


class LabelColumns:
    """Labels of the rows."""

    __slots__ = ("_rows",)

    def __init__(self, rows: NodeRows) -> None:
        self._rows = rows

    def equals(self, key: str, value: str) -> Bools:
        """Per row: whether the label has that value."""
        codes, values = self._rows._table.label(key)
        code = values.get(value)
        taken = self._rows._take(codes)
        return taken == code if code is not None else np.zeros(len(taken), dtype=np.bool_)

    def apply(self, key: str, judge: Callable[[str | None], float]) -> npt.NDArray[Any]:
        """Per row: what *judge* says of the label's value, None without one. It is asked once for each value."""
        codes, values = self._rows._table.label(key)
        judged: npt.NDArray[Any] = np.array([judge(None), *map(judge, values)])
        return judged[self._rows._take(codes)]

    def has(self, key: str) -> Bools:
        """Per row: whether the label is there."""
        result: Bools = self._rows._take(self._rows._table.label(key)[0]) > 0
        return result

    def get(self, key: str) -> list[str | None]:
        """Per row: the value, or None."""
        return [node.labels.get(key) for node in self._rows.nodes]


class NodeRows:
    """Some rows of the node table. With *extra*, each row as it would be after so many more tasks of *klass*."""

    __slots__ = ("_extra", "_few", "_index", "_klass", "_size", "_table")

    def __init__(
        self,
        table: NodeTable,
        index: npt.NDArray[np.intp] | None = None,
        extra: Ints | None = None,
        klass: TaskClass | None = None,
    ) -> None:
        self._table = table
        self._index, self._extra, self._klass = index, extra, klass
        self._size = table.size if index is None else len(index)
        self._few: Ints | None = None
        """All ledgers of the rows, where the rows are few: taken once for every callback that reads them."""

    def __len__(self) -> int:
        return self._size

    @property
    def size(self) -> int:
        """How many rows."""
        return self._size

    @property
    def index(self) -> npt.NDArray[np.intp]:
        """The row numbers."""
        return np.arange(self._table.size) if self._index is None else read_only(self._index)

    @property
    def extra(self) -> Ints | None:
        """How many more tasks each row is imagined to hold, or None."""
        return read_only(self._extra) if self._extra is not None else None

    def _take(self, column: npt.NDArray[G]) -> npt.NDArray[G]:
        """The rows' part of a column of the table."""
        return read_only(column[: self._size]) if self._index is None else column.take(self._index)

    def _part(self, matrix: Ints) -> tuple[Ints, npt.NDArray[np.intp] | None]:
        """(ledger, rows to take) of a whole ledger."""
        return (read_only(matrix[:, : self._size]), None) if self._index is None else (matrix, self._index)

    def _matrix(self, ledger: str, dims: slice | npt.NDArray[np.intp]) -> Ints:
        """The rows' part of some dimensions of a ledger, one line each, as it stands (imagined tasks not added)."""
        first = self._table.first_line[ledger]
        lines = slice(first + dims.start, first + dims.stop) if isinstance(dims, slice) else dims + first
        block = self._table.block
        if self._index is None:
            return read_only(block[lines, : self._size])
        if self._size > FEW_ROWS:
            return block[lines].take(self._index, axis=1)
        if self._few is None:
            self._few = block.take(self._index, axis=1)
            self._few.flags.writeable = False
        return self._few[lines]

    def _offered(self, dims: slice | npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
        """The offers of the rows in some dimensions, one line each, to divide by."""
        lines = self._table.offered[dims]
        return read_only(lines[:, : self._size]) if self._index is None else lines.take(self._index, axis=1)

    def _adjusted(self, column: Ints, d: int, sign: int) -> Ints:
        """The rows' part of a ledger column of one dimension with imagined tasks added."""
        base: Ints = column
        if self._extra is not None and sign and self._klass is not None:
            request = int(self._klass.requests.get(d))
            if request:
                return base + sign * request * self._extra
        return base

    @property
    def idle(self) -> Columns:
        return Columns(self, self._part(self._table.idle), -1)

    @property
    def used(self) -> Columns:
        return Columns(self, self._part(self._table.used), 1)

    @property
    def releasing(self) -> Columns:
        return Columns(self, self._part(self._table.releasing), 0)

    @property
    def pipelined(self) -> Columns:
        return Columns(self, self._part(self._table.pipelined), 0)

    @property
    def allocatable(self) -> Columns:
        return Columns(self, self._part(self._table.allocatable), 0)

    @property
    def capacity(self) -> Columns:
        return Columns(self, self._part(self._table.capacity), 0)

    def future_idle(self, d: int) -> Ints:
        """The free amounts when every release is done, less promised ones."""
        t = self._table
        return self.idle[d] + self.releasing[d] - self.pipelined[d] if d < t.width else self.idle[d]

    def requested(self, d: int) -> Ints:
        """The counts of kube-scheduler for the rows: used and promised, less pods evicted in this session."""
        t = self._table
        if d >= t.width:
            return np.zeros(self._size, dtype=np.int64)
        base = self.used[d] + self._take(t.pipelined[d]) - self._take(t.evicted[d])
        return np.asarray(base, dtype=np.int64)

    def nonzero_requested(self, which: int) -> Ints:
        """Cpu (0) or memory (1) as kube-scheduler counts it, with defaults for containers that ask for none."""
        base = self._matrix("nonzero_requested", slice(which, which + 1))[0]
        if self._extra is not None and self._klass is not None:
            amount = self._klass.nonzero_cpu if which == 0 else self._klass.nonzero_memory
            base = base + amount * self._extra
        return np.asarray(base, dtype=np.int64)

    @property
    def pod_count(self) -> Ints:
        """Pods on the rows as kube-scheduler counts them."""
        base: Ints = self._matrix("pod_count", _ONE)[0]
        return base if self._extra is None else base + self._extra

    @property
    def max_pods(self) -> Ints:
        most: Ints = self._matrix("max_pods", _ONE)[0]
        return most

    @property
    def labels(self) -> LabelColumns:
        return LabelColumns(self)

    @property
    def nodes(self) -> list[Node]:
        """The nodes behind the rows (rows of removed nodes are never asked about)."""
        nodes = self._table.nodes
        return [n for i in self.index.tolist() if (n := nodes[i]) is not None]

    @property
    def names(self) -> list[str]:
        return [n.name for n in self.nodes]


_PLENTY: Final = 1 << 40


def fit_count(klass: TaskClass, table: NodeTable, rows: npt.NDArray[np.intp]) -> int:
    """How many tasks of a class fit on these rows by amounts."""
    each = [table.idle[d, rows] // v for d, v in zip(klass.fit_dims, klass.fit_values, strict=True) if v > 0]
    return int(np.maximum(np.minimum.reduce(each), 0).sum()) if each else _PLENTY


def fit_each(klass: TaskClass, free: Callable[[int], Ints], most: Ints) -> Ints:
    """For how many tasks of a class each row has room, where *free* is what rows have of a resource; up to *most*."""
    for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
        if v > 0:
            most = np.minimum(most, free(d) // v)
    return np.maximum(most, 0)


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
