"""Classes that fit nowhere: remembered apart from their views, in a few bytes each, by one rule of expiry.

A verdict stands until a row changes that has room for the class and is open to it: no filter rejects the row as long
as its node object is the same. A row whose node object changed counts as open to every class. Only changed rows are
looked at, for all classes at once, so the cost of a pending class does not depend on the number of nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.open_rows import Bools, OpenRows
from pumice.model.task import TaskClass
from pumice.state.table import NodeTable

_MOST: Final = 1 << 22
"""Beyond so many pairs of a class and a changed row the classes are looked at as a whole."""
_FEW: Final = 64
"""Up to so many pairs are looked at one by one."""
_MOST_KNOWN: Final = 50_000
_NOTHING: Final = np.iinfo(np.int64).min
"""Less than any row has: what a class asks of a resource that it does not need."""
_FREE: Final = ((0, int(np.iinfo(np.int64).max)),)
"""What a slot asks for that no class has: it fits nowhere either."""


class FitsNowhere:
    """The classes that are known to fit nowhere, by their keys, as of a place in the logs of the node table."""

    __slots__ = (*("_asks", "_at", "_free", "_keys", "_needs", "_open", "_slots", "_unwritten"),)

    def __init__(self) -> None:
        self._slots: dict[Hashable, int] = {}
        self._keys: list[Hashable] = []
        self._asks: list[tuple[tuple[int, int], ...]] = []
        self._free: list[int] = []
        self._needs: npt.NDArray[np.int64] = np.full((0, 0), _NOTHING, dtype=np.int64)
        """What each asks for, as lines of numbers, but for those that are `_unwritten`."""
        self._unwritten: set[int] = set()
        self._open = OpenRows()
        self._at = (-1, -1, -1)

    def __len__(self) -> int:
        return len(self._slots)

    def clear(self) -> None:
        """Know nothing."""
        self._slots.clear()
        self._keys, self._asks, self._free = [], [], []
        self._needs = self._needs[:0]
        self._unwritten.clear()
        self._open = OpenRows()

    def note(self, key: Hashable, klass: TaskClass, table: NodeTable, open_rows: Bools | None = None) -> None:
        """The class was looked at on all nodes as they are now, and fits none.

        *open_rows*: the rows that no filter rejects as long as their node objects are the same; None: all.
        """
        self.catch_up(table)
        if key not in self._slots:
            self._open.put(self._take_slot(key, klass), len(self._keys), open_rows)

    def _take_slot(self, key: Hashable, klass: TaskClass) -> int:
        if len(self._slots) >= _MOST_KNOWN:
            self.clear()
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self._slots[key], self._keys[slot] = slot, key
        self._asks[slot] = tuple(zip(klass.fit_dims, klass.fit_values, strict=True))
        self._unwritten.add(slot)
        return slot

    def forget(self, key: Hashable) -> None:
        """The class was found to fit somewhere."""
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._asks[slot] = _FREE
            self._unwritten.add(slot)
            self._free.append(slot)

    def stands(self, key: Hashable, table: NodeTable) -> bool:
        """Is it certain that the class still fits nowhere?"""
        self.catch_up(table)
        return key in self._slots

    def catch_up(self, table: NodeTable) -> None:
        """Forget the classes for which a row that changed has room."""
        size, changed, touched = self._at
        now = (table.size, table.changed.position, table.touched.position)
        if now == self._at:
            return
        self._at = now
        if not self._slots:
            return
        rows = table.touched.since(touched) if size == now[0] else None
        others = table.changed.since(changed) if changed != now[1] else set()
        if rows is None or others is None or len(others) > max(size // 4, 1):
            self.clear()
            return
        if others:
            self._open.open_up(others)
        for key in self._that_may_fit(rows | others, table):
            self.forget(key)

    def _that_may_fit(self, rows: set[int], table: NodeTable) -> list[Hashable]:
        """The classes to which one of the rows is open that has room now, or once what is being released is gone."""
        if not rows:
            return []
        if len(rows) * len(self._keys) > _MOST:
            return list(self._slots)
        if len(rows) * len(self._slots) <= _FEW:
            return self._one_by_one(rows, table)
        self._write(table.width)
        index = np.fromiter(rows, dtype=np.intp, count=len(rows))
        width = self._needs.shape[1]
        free = table.idle[:width, index]
        if table.in_flux:
            free = free + table.releasing[:width, index] - table.pipelined[:width, index]
        asked = np.flatnonzero((self._needs != _NOTHING).any(axis=0))
        might = self._open.at(index, len(self._needs))
        for d in asked.tolist():
            might &= self._needs[:, d, None] <= free[d]
        return [self._keys[slot] for slot in np.flatnonzero(might.any(axis=1)).tolist()]

    def _one_by_one(self, rows: Iterable[int], table: NodeTable) -> list[Hashable]:
        cells, first, in_flux, found = table.cells, table.line_of_idle, table.in_flux, []
        for key, slot in self._slots.items():
            asks = self._asks[slot]
            for row in rows:
                for d, v in asks:
                    if (table.free_soon(d, row) if in_flux else cells[first + d, row]) < v:
                        break
                else:
                    if self._open.is_open(slot, row):
                        found.append(key)
                        break
        return found

    def _grow(self) -> None:
        """Room for as many classes again."""
        old = len(self._keys)
        more = max(8, old)
        self._keys += [None] * more
        self._asks += [_FREE] * more
        self._unwritten.update(range(old, old + more))
        self._free += range(old + more - 1, old - 1, -1)

    def _write(self, width: int) -> None:
        """Put down as numbers what changed since the classes were last looked at as a whole."""
        old = self._needs
        if len(old) < len(self._keys) or old.shape[1] < width:
            self._needs = np.full((len(self._keys), width), _NOTHING, dtype=np.int64)
            self._needs[: len(old), : old.shape[1]] = old
        for slot in self._unwritten:
            line = self._needs[slot]
            line[:] = _NOTHING
            for d, v in self._asks[slot]:
                line[d] = v
        self._unwritten.clear()
