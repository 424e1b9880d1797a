"""Rows that are equal in every amount: what depends on amounts alone needs to be worked out once per kind of row."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from pumice.state.table import NodeTable

Index = npt.NDArray[np.intp]
_CLOSED = float("-inf")
_REMEMBERED = 4096
"""So many changes of the meaning of numbers, at least, can be followed."""


class RowKinds:
    """Numbers the rows so that rows of one number hold equal amounts (ledgers, pod counts, limits); free rows apart.

    Kept up to date from the table's log of touched rows; when most rows differ from each other it rests for a while. A
    kind of which there is no row any more may keep its number for some time: rows come back to what others were before.
    """

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.amounts = NodeTable()
        """A table with a row for each kind; its log of changes says which numbers got a meaning."""
        self.bar: npt.NDArray[np.float64] = np.zeros(0)
        """Per kind: 0 where a node is of it now, else minus infinity."""
        self._position = -1
        self._shape = (0, 0)
        self._ids: dict[bytes, int] = {}
        self._keys: list[bytes] = []
        self._counts: list[int] = []
        self._empty: set[int] = set()
        """The kinds of which there is no row."""
        self.most_empty = 0
        """So many of these are remembered: somebody else keeps what he found out about them."""
        self.forgotten = 0
        """How often numbers were given back, and may mean something else since."""
        self._free: list[int] = []
        self._rows: list[list[int]] = []
        """Per kind a heap of its rows; rows that left it may still be there."""
        self._kind: npt.NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._rest_until = -1

    def current(self) -> bool:
        """Bring the numbers up to date; False when it would not pay."""
        table = self.table
        at = table.touched.position
        if self._position == at and self._shape == (table.width, table.size):
            return True
        if at < self._rest_until:
            return False
        rows = table.touched.since(self._position) if self._shape == (table.width, table.size) else None
        if rows is None or len(rows) > table.size // 2:
            self._rebuild()
        else:
            self._update(rows)
        self._position = at
        if len(self._ids) - len(self._empty) > table.size // 2 + 16:
            self._rest_until = at + 4 * table.size
            self._shape = (0, 0)
            return False
        self.amounts.changed.trim(_REMEMBERED)
        if len(self._empty) > self.most_empty:
            self.make_room()
        return True

    def make_room(self, more: int = 0) -> None:
        """Give the numbers of kinds without a row back, if they and so many *more* are too many to be remembered."""
        if len(self._empty) + more > self.most_empty:
            for kind in self._empty:
                del self._ids[self._keys[kind]]
            self._free += self._empty
            self._empty.clear()
            self.forgotten += 1

    def __len__(self) -> int:
        """How many numbers are in use, those without a row included."""
        return len(self._counts)

    @property
    def of_rows(self) -> Index:
        """The kind of each row."""
        return self._kind

    def a_row_of_each(self) -> Index:
        """The first row of each kind; 0 where there is none."""
        reps = np.zeros(len(self._counts), dtype=np.intp)
        reps[self._kind[::-1]] = np.arange(len(self._kind) - 1, -1, -1)
        return reps

    def count(self, kind: int) -> int:
        """How many rows are of a kind."""
        return self._counts[kind]

    def expect(self, kinds: Sequence[int], added: npt.NDArray[np.int64]) -> list[int]:
        """The numbers of what rows of some kinds would be with that added (`NodeTable.added_by`).

        There need be no such rows yet. Where one comes to be, its kind is no new one.
        """
        columns = self.amounts.with_more(kinds, added)
        keys, step = columns.tobytes(), columns.strides[0]
        numbers: list[int] = []
        new: list[int] = []
        for at in range(len(kinds)):
            key = keys[at * step : (at + 1) * step]
            number = self._ids.get(key)
            if number is None:
                number = self._ids[key] = self._named(key)
                new.append(at)
            numbers.append(number)
        if new:
            self.amounts.hold([numbers[at] for at in new], columns[new])
        return numbers

    def first_row(self, kinds: Index) -> int:
        """The row of the smallest node name among those of some kinds, each of which has a row."""
        if self.table.rows_by_name:
            return min([self._first_of(kind) for kind in kinds.tolist()])
        rows = np.isin(self._kind, kinds).nonzero()[0]
        return int(rows[self.table.ranks()[rows].argmin()])

    def _first_of(self, kind: int) -> int:
        """The first row of a kind."""
        rows = self._rows[kind]
        if len(rows) > 2 * self._counts[kind] + _REMEMBERED:
            rows = self._rows[kind] = np.flatnonzero(self._kind == kind).tolist()
        while self._kind.item(rows[0]) != kind:
            heappop(rows)
        return rows[0]

    def _rebuild(self) -> None:
        table = self.table
        self._shape = (table.width, table.size)
        self._ids, self._keys, self._counts, self._free, self._rows = {}, [], [], [], []
        self.amounts = NodeTable()
        first, self._kind = table.alike()
        ends = np.cumsum(np.bincount(self._kind, minlength=len(first))).tolist()
        rows = np.argsort(self._kind, kind="stable").tolist()
        for begin, end, row in zip([0, *ends], ends, first.tolist(), strict=False):
            key = table.amounts_of(row)
            kind = self._ids[key] = self._named(key)
            self.amounts.hold_as(kind, table, row)
            self.bar[kind] = 0.0 if key else _CLOSED
            self._counts[kind] = end - begin
            self._rows[kind] = rows[begin:end]  # in order, so that it is a heap
        self._empty.clear()
        self.forgotten += 1

    def _update(self, rows: set[int]) -> None:
        for row in rows:
            key, old = self.table.amounts_of(row), self._kind.item(row)
            if self._keys[old] != key:
                self._counts[old] -= 1
                if not self._counts[old]:
                    self._empty.add(old)
                    self.bar[old] = _CLOSED
                self._join(row, key)

    def _join(self, row: int, key: bytes) -> None:
        kind = self._ids.get(key)
        if kind is None:
            kind = self._ids[key] = self._named(key)
            self.amounts.hold_as(kind, self.table, row)
        if not self._counts[kind]:
            self._empty.discard(kind)
            self.bar[kind] = 0.0 if key else _CLOSED
        self._counts[kind] += 1
        self._kind[row] = kind
        heappush(self._rows[kind], row)

    def _named(self, key: bytes) -> int:
        """A number for a new kind, of which there is no row yet."""
        if self._free:
            kind = self._free.pop()
            self._keys[kind], self._rows[kind] = key, []
            self._empty.add(kind)
            return kind  # its bar is down since it had no row any more
        self._keys.append(key)
        self._counts.append(0)
        self._rows.append([])
        kind = len(self._counts) - 1
        self._empty.add(kind)
        if kind >= len(self.bar):
            bar = np.full(max(64, 2 * kind), _CLOSED)
            bar[:kind] = self.bar[:kind]
            self.bar = bar
        self.bar[kind] = _CLOSED
        return kind
