"""The node table: a column of numbers per resource, a row per node; label and taint indexes; logs of changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from pumice.model.api import Taint
from pumice.model.node import LedgerCells, Node, NodeMap
from pumice.model.resources import dim_count
from pumice.model.task import TaskClass
from pumice.state.writing import put, take

if TYPE_CHECKING:
    from pumice.state.devices import DeviceTable

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

_ODD: Final = 0x9E3779B97F4A7C15
"""Its powers are spread evenly over all numbers."""
LEDGERS: Final = ("allocatable", "capacity", "idle", "used", "releasing", "pipelined", "evicted")
_ALL: Final = len(LEDGERS)
EXACT: Final = 2.0**46
"""Up to here 100 times an amount, divided and cut off, is the same in floating point as in whole numbers."""
_IDLE, _USED, _RELEASING, _PIPELINED = (LEDGERS.index(name) for name in ("idle", "used", "releasing", "pipelined"))


class RowLog:
    """Rows in the order in which they changed. A reader remembers a position and asks what came after it."""

    __slots__ = ("_base", "_rows", "position")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._base = 0
        self.position = 0
        """The current end of the log; read only."""

    def get_position(self) -> int:
        """The current end of the log, for a later question."""
        return self.position

    def add(self, row: int) -> None:
        """One row changed."""
        self._rows.append(row)
        self.position += 1

    def extend(self, rows: Iterable[int]) -> None:
        """Several rows changed."""
        self._rows.extend(rows)
        self.position = self._base + len(self._rows)

    def since(self, position: int) -> set[int] | None:
        """The rows that changed after *position*; None when the log no longer reaches back that far."""
        start = position - self._base
        if start < 0:
            return None
        return set(self._rows[start:])

    def trim(self, keep: int) -> None:
        """Forget all but the last *keep* entries."""
        surplus = len(self._rows) - keep
        if surplus > keep:
            del self._rows[:surplus]
            self._base += surplus


class NodeTable:
    """Nodes as rows of column-major matrices (resource by row), so that one resource of all nodes is contiguous.

    ``idle``, ``used``, ``releasing``, ``pipelined`` are the ledgers; ``evicted`` is the part of ``releasing`` that this
    session evicted. ``pod_count`` and ``nonzero_requested`` (cpu and memory, with defaults for containers without
    requests) count what kube-scheduler would see on the node: present and promised pods, less pods evicted in this
    session. Only the first ``size`` rows are in use; rows of removed nodes are reused and meanwhile not ``valid``.
    """

    allocatable: Ints
    capacity: Ints
    idle: Ints
    used: Ints
    releasing: Ints
    pipelined: Ints
    evicted: Ints
    nonzero_requested: Ints
    pod_count: Ints
    max_pods: Ints

    def __init__(self) -> None:
        self.size = 0
        self._cap = 64
        self.width = max(8, dim_count())
        self.offered: npt.NDArray[np.float64] = np.zeros((self.width, self._cap))
        """`allocatable` as floating-point numbers, which scores divide by."""
        self.ledgers: Mapping[str, LedgerCells] = {name: LedgerCells() for name in LEDGERS}
        """The table from which nodes read their amounts."""
        self._lay_out(np.zeros((len(LEDGERS) * self.width + 4, self._cap), dtype=np.int64))
        self.valid: npt.NDArray[np.bool_] = np.zeros(self._cap, dtype=np.bool_)
        self.unschedulable: npt.NDArray[np.bool_] = np.zeros(self._cap, dtype=np.bool_)
        self.taint_set: Codes = np.zeros(self._cap, dtype=np.int32)
        self.rank: Ints = np.zeros(self._cap, dtype=np.int64)
        self.in_flux = 0
        """How many tasks are being released or wait for what is released."""
        self.nodes: list[Node | None] = []
        self.by_name = NodeMap()
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self._taint_ids: dict[tuple[tuple[str, str, str], ...], int] = {(): 0}
        self._labels: dict[str, tuple[Codes, dict[str, int]]] = {}
        self._label_keys: set[str] = set()
        """Keys of labels that some node has or had."""
        self._free: list[int] = []
        self._sorted = True
        self._rank_stale = False
        self.devices: DeviceTable | None = None
        """The GPU devices of the nodes, where somebody counts them."""
        self._offers: dict[tuple[int, ...], bool] = {}
        self._offers_at = -1
        self.touched = RowLog()
        """Rows whose ledgers changed."""
        self.changed = RowLog()
        """Rows whose node object changed: labels, taints, allocatable; also new and removed nodes."""

    # -- shape ----------------------------------------------------------------------------------------------------
    def _lay_out(self, block: Ints) -> None:
        """Let all amounts be lines of one *block*, so that those of a row are one column of it."""
        self.block = block
        self.cells = memoryview(cast(Any, block))
        """The same, for who writes single amounts: at a third of the cost. Line, then row."""
        for n, name in enumerate(LEDGERS):
            lines = block[n * self.width : (n + 1) * self.width]
            setattr(self, name, lines)
            self.ledgers[name].cells = memoryview(cast(Any, lines))
        last = len(LEDGERS) * self.width
        self.nonzero_requested, self.pod_count, self.max_pods = block[last : last + 2], block[last + 2], block[last + 3]
        self.first_line = {name: n * self.width for n, name in enumerate(LEDGERS)}
        """The first line of each ledger in `block`."""
        self.first_line |= {"nonzero_requested": last, "pod_count": last + 2, "max_pods": last + 3}

    def all_offer(self, dims: tuple[int, ...]) -> bool:
        """Report whether every node offers some of each resource, and none more than floating point divides exactly.

        Key: resources; value: that; valid until a node object changes.
        """
        if self._offers_at != self.changed.position:
            self._offers, self._offers_at = {}, self.changed.position
        known = self._offers.get(dims)
        if known is None:
            known = max(dims, default=0) < self.width
            if known and self.size:
                amounts = self.allocatable[list(dims), : self.size][:, self.valid[: self.size]]
                known = not amounts.size or bool(amounts.min() > 0 and amounts.max() <= EXACT)
            self._offers[dims] = known
        return known

    @property
    def line_of_idle(self) -> int:
        """The first line of idle amounts in `cells`."""
        return _IDLE * self.width

    def ensure_width(self) -> None:
        """Make room for every resource name seen so far."""
        want = dim_count()
        if want <= self.width:
            return
        old, before = self.block, self.width
        self.width = want + 8
        block = np.zeros((len(LEDGERS) * self.width + 4, self._cap), dtype=np.int64)
        for n in range(len(LEDGERS)):
            block[n * self.width : n * self.width + before] = old[n * before : (n + 1) * before]
        block[-4:] = old[-4:]
        self._lay_out(block)
        self.offered = self.allocatable.astype(np.float64)

    def _grow(self) -> None:
        cap = self._cap * 2
        block = np.zeros((len(self.block), cap), dtype=np.int64)
        block[:, : self._cap] = self.block
        self._lay_out(block)
        self.offered = self.allocatable.astype(np.float64)
        for name in ("valid", "unschedulable", "taint_set", "rank"):
            column = getattr(self, name)
            wider = np.zeros(cap, dtype=column.dtype)
            wider[: self._cap] = column
            setattr(self, name, wider)
        for key, (codes, values) in self._labels.items():
            wider = np.zeros(cap, dtype=np.int32)
            wider[: self._cap] = codes
            self._labels[key] = (wider, values)
        self._cap = cap

    def add(self, name: str) -> Node:
        """A new, empty row for a node."""
        if self._free:
            row = self._free.pop()
        else:
            if self.size == self._cap:
                self._grow()
            row = self.size
            self.size += 1
            self.nodes.append(None)
        node = Node(self, row, name)
        self.nodes[row] = node
        put(self.by_name, name, node)
        self.valid[row] = True
        self._rank_stale = True
        self.changed.add(row)
        self.touched.add(row)
        return node

    def remove(self, node: Node) -> None:
        """Free a node's row."""
        row = node.row
        self.block[:, row] = 0
        self.offered[:, row] = 0.0
        self.taint_set[row] = 0
        self.valid[row] = self.unschedulable[row] = False
        for codes, _ in self._labels.values():
            codes[row] = 0
        self.nodes[row] = None
        take(self.by_name, node.name)
        self._free.append(row)
        self._rank_stale = True
        self.changed.add(row)
        self.touched.add(row)

    # -- amounts --------------------------------------------------------------------------------------------------
    def amounts_of(self, row: int) -> bytes:
        """Equal for rows that hold equal amounts; that of a free row is like no other."""
        return self.block[:, row].tobytes() if self.valid[row] else b""

    def free_soon(self, d: int, row: int) -> int:
        """The future idle amount of a row: free when every release is done, less reservations."""
        cells, width = self.cells, self.width
        soon: int = (
            cells[_IDLE * width + d, row] + cells[_RELEASING * width + d, row] - cells[_PIPELINED * width + d, row]
        )
        return soon

    # -- order ----------------------------------------------------------------------------------------------------
    def _rerank(self) -> None:
        order = sorted((node.name.encode(), node.row) for node in self.by_name.values())
        rows = [row for _, row in order]
        self.rank[: self.size] = len(order)
        self.rank[rows] = np.arange(len(rows))
        self._sorted = rows == sorted(rows)
        self._rank_stale = False

    @property
    def rows_by_name(self) -> bool:
        """Do rows stand in the order of node names? (Then the first of equals is the smallest name.)"""
        if self._rank_stale:
            self._rerank()
        return self._sorted

    def ranks(self) -> Ints:
        """Per row its place in the order of node names."""
        if self._rank_stale:
            self._rerank()
        return self.rank[: self.size]

    # -- indexes --------------------------------------------------------------------------------------------------
    def set_labels(self, row: int, labels: Mapping[str, str]) -> None:
        """Index a node's labels under every key that somebody asked about."""
        for key, (codes, values) in self._labels.items():
            text = labels.get(key)
            codes[row] = 0 if text is None else values.setdefault(text, len(values) + 1)
        self._label_keys.update(labels)

    def label(self, key: str) -> tuple[Codes, dict[str, int]]:
        """(code per row, value -> code) of one label; code 0 where a node lacks it. Built when first asked for.

        A key that no node ever had is not kept, because any user who creates pods can make up selectors.
        """
        found = self._labels.get(key)
        if found is None:
            if key not in self._label_keys:
                return np.zeros(self._cap, dtype=np.int32), {}
            codes = np.zeros(self._cap, dtype=np.int32)
            values: dict[str, int] = {}
            for node in self.by_name.values():
                text = node.labels.get(key)
                if text is not None:
                    codes[node.row] = values.setdefault(text, len(values) + 1)
            found = self._labels[key] = (codes, values)
        return found

    def set_taints(self, row: int, taints: tuple[Taint, ...]) -> None:
        """Index a node's taints."""
        key = tuple((t.key, t.value, t.effect) for t in taints)
        number = self._taint_ids.get(key)
        if number is None:
            number = self._taint_ids[key] = len(self.taint_sets)
            self.taint_sets.append(taints)
        self.taint_set[row] = number

    # -- ledgers --------------------------------------------------------------------------------------------------
    def offer(self, row: int, amounts: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]]:
        """Let a row have so much of resources (which, for tasks, in all); of which tasks can have how much more."""
        cells, width = self.cells, self.width
        grown = []
        for d, allocatable, capacity in amounts:
            more: int = allocatable - cells[d, row]
            if more:
                cells[d, row] = self.offered[d, row] = allocatable
                cells[_IDLE * width + d, row] += more
                grown.append((d, more))
            cells[width + d, row] = capacity
        return grown

    def book(
        self, row: int, items: tuple[tuple[int, int], ...], idle: int, used: int, releasing: int, pipelined: int
    ) -> None:
        """Change a row's ledgers by so many requests each."""
        cells, width = self.cells, self.width
        if idle:
            for d, v in items:
                cells[_IDLE * width + d, row] += idle * v
        if used:
            for d, v in items:
                cells[_USED * width + d, row] += used * v
        self.in_flux += releasing + pipelined
        if releasing:
            for d, v in items:
                cells[_RELEASING * width + d, row] += releasing * v
        if pipelined:
            for d, v in items:
                cells[_PIPELINED * width + d, row] += pipelined * v

    def book_many(self, tasks: Mapping[int, int], klass: TaskClass, counts: Sequence[int]) -> None:
        """Put tasks of a class on rows. *tasks*: row -> how many; *counts*: in idle, used, releasing and pipelined."""
        rows, each = list(tasks), list(tasks.values())
        width, last = self.width, _ALL * self.width
        lines, by = [last, last + 1, last + 2], [klass.nonzero_cpu, klass.nonzero_memory, 1]
        for ledger, times in zip((_IDLE, _USED, _RELEASING, _PIPELINED), counts, strict=True):
            if times:
                lines += [ledger * width + d for d, _ in klass.items]
                by += [times * v for _, v in klass.items]
        at = np.array(lines)[:, None] * self._cap + np.array(rows)  # as one line, which is the quickest to write
        self.block.reshape(-1)[at.ravel()] += (np.array(by)[:, None] * np.array(each)).ravel()
        self.in_flux += (counts[2] + counts[3]) * sum(each)
        self.touched.extend(rows)

    def place(self, row: int, klass: TaskClass, times: int) -> None:
        """Let so many more tasks of a class, or fewer, have their place on a row: they hold it, and are seen there."""
        cells, width = self.cells, self.width
        idle, used, last = _IDLE * width, _USED * width, _ALL * width
        for d, v in klass.items:
            cells[idle + d, row] -= times * v
            cells[used + d, row] += times * v
        cells[last, row] += times * klass.nonzero_cpu
        cells[last + 1, row] += times * klass.nonzero_memory
        cells[last + 2, row] += times
        self.touched.add(row)

    def show(self, row: int, cpu: int, memory: int, sign: int) -> None:
        """Count (+1) or no longer count (-1) a pod, with the *cpu* and *memory* that kube-scheduler assumes for it."""
        cells, last = self.cells, _ALL * self.width
        cells[last, row] += sign * cpu
        cells[last + 1, row] += sign * memory
        cells[last + 2, row] += sign
