"""Classes that fit nowhere: remembered apart from their views, in a few bytes each, by one rule of expiry.

What was found stands while no row that changed since is open to the class (no filter objects to it as long as its node
is the same one) and has room for it. A row whose node object changed is taken to be open to every class from then on.
Only those rows are looked at, for all classes at once. So a class that waits costs a cycle next to nothing, however
many classes there are and whether or not its view is kept.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.model.task import TaskClass
from pumice.state.table import NodeTable

Bools = npt.NDArray[np.bool_]

_MOST: Final = 1 << 22
"""Beyond so many pairs of a class and a changed row the classes are looked at as a whole."""
_FEW: Final = 64
"""Up to so many pairs are looked at one by one."""
_MOST_KNOWN: Final = 50_000
_MOST_FELL: Final = 10_000
_MOST_BYTES: Final = 1 << 25
"""Of what is remembered of rows that are open to classes."""
_NOTHING: Final = np.iinfo(np.int64).min
"""Less than any row has: what a class asks of a resource that it does not need."""
_FREE: Final = ((0, int(np.iinfo(np.int64).max)),)
"""What a slot asks for that no class has: it fits nowhere either."""


class FitsNowhere:
    """The classes that are known to fit nowhere, by their keys, as of a place in the logs of the node table."""

    __slots__ = ("_asks", "_at", "_free", "_keys", "_needs", "_open", "_slots", "_unwritten", "doubtful", "fell")

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
        self.fell: list[Hashable] | None = None
        """The classes that may fit somewhere since somebody last looked; None: perhaps all."""
        self.doubtful: set[Hashable] = set()
        """Those of them that may only because a node changed which has room, and which perhaps may not be used."""

    def __len__(self) -> int:
        return len(self._slots)

    def clear(self) -> None:
        """Know nothing."""
        self._slots.clear()
        self._keys, self._asks, self._free = [], [], []
        self._needs = self._needs[:0]
        self._unwritten.clear()
        self._open = OpenRows()
        self.fell = None
        self.doubtful.clear()

    def note(self, key: Hashable, klass: TaskClass, table: NodeTable, open_rows: Bools | None = None) -> None:
        """The class was looked at on all nodes as they are now, and fits none.

        *open_rows*: those to which no filter objects whatever is placed there; None: all.
        """
        self.catch_up(table)
        if key in self._slots:
            return
        if len(self._slots) >= _MOST_KNOWN:
            self.clear()
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self._slots[key], self._keys[slot] = slot, key
        self._asks[slot] = tuple(zip(klass.fit_dims, klass.fit_values, strict=True))
        self._unwritten.add(slot)
        self._open.put(slot, len(self._keys), open_rows)

    def forget(self, key: Hashable) -> None:
        """The class was found to fit somewhere."""
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._asks[slot] = _FREE
            self._unwritten.add(slot)
            self._free.append(slot)
            if self.fell is not None:
                self.fell.append(key)
                if len(self.fell) > _MOST_FELL:  # nobody looks
                    self.fell = None

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
        for key in self._that_may_fit(rows - others, table):
            self.forget(key)
        if others:
            self._open.open_up(others)
            for key in self._that_may_fit(others, table):
                self.forget(key)
                self.doubtful.add(key)

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


class OpenRows:
    """Which rows are open to which class, in a bit for each row; classes to which the same rows are open share them."""

    __slots__ = ("_bits", "_known", "_lines", "_of")

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}
        self._lines = 0
        self._bits: npt.NDArray[np.uint8] = np.zeros((0, 0), dtype=np.uint8)
        self._of: npt.NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        """Class -> its line, counted from 1; 0: all rows are open to it."""

    def put(self, slot: int, slots: int, open_rows: Bools | None) -> None:
        """Remember which rows are open to one of so many classes; None: all."""
        if len(self._of) < slots:
            self._of = np.concatenate([self._of, np.zeros(slots - len(self._of), dtype=np.intp)])
        self._of[slot] = 0 if open_rows is None else self._line(np.packbits(open_rows))

    def _line(self, bits: npt.NDArray[np.uint8]) -> int:
        known = self._known.get(bits.tobytes())
        if known is not None:
            return known
        count = self._lines
        if (count + 1) * len(bits) > _MOST_BYTES:
            return 0
        if count == len(self._bits):
            more = np.zeros((max(4, count), len(bits)), dtype=np.uint8)
            self._bits = np.concatenate([self._bits.reshape(count, len(bits)), more])
        self._bits[count] = bits
        self._lines = self._known[bits.tobytes()] = count + 1
        return count + 1

    def open_up(self, rows: Iterable[int]) -> None:
        """Let rows be open to every class."""
        if not self._lines:
            return
        lines = self._bits[: self._lines]
        for row in rows:
            lines[:, row >> 3] |= 128 >> (row & 7)
        self._known = {line.tobytes(): number for number, line in enumerate(lines, 1)}

    def is_open(self, slot: int, row: int) -> bool:
        """Is a row open to a class?"""
        line = self._of.item(slot)
        return not line or bool(self._bits.item(line - 1, row >> 3) >> (7 - (row & 7)) & 1)

    def at(self, rows: npt.NDArray[np.intp], slots: int) -> Bools:
        """Per class and row: is it open?"""
        if not self._lines:
            return np.ones((slots, len(rows)), dtype=np.bool_)
        lines = np.ones((self._lines + 1, len(rows)), dtype=np.bool_)
        lines[1:] = (self._bits[: self._lines, rows >> 3] >> (7 - (rows & 7))) & 1
        return lines[self._of[:slots]]
