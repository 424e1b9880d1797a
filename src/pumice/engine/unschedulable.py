"""Classes that fit no node: the one verdict that lasts from cycle to cycle.

Key: the key of a class. Value: the log positions at which it fitted no node, and the rows that were open to it then.
Valid until a row changes that is open to the class and has room for it, now or once what is being released is gone. A
row is open as long as no filter of scope STATIC rejects it; a row whose node object changed since counts as open.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.model.task import TaskClass
from pumice.state.table import NodeTable

Bools = npt.NDArray[np.bool_]

_FEW_ROWS: Final = 16
"""Up to so many changed rows are looked at one by one; beyond, arrays are faster."""
_MOST_CLASSES: Final = 50_000
"""Beyond so many classes all verdicts are dropped: they take about 300 bytes each."""


@dataclass(slots=True)
class _Verdict:
    asks: tuple[tuple[int, int], ...]
    size: int
    open_rows: bytes | None
    """A bit for each row; None: all are open."""
    noted: int
    """Position of `NodeTable.changed` when every node was looked at."""
    touched: int
    changed: int
    """Positions up to which rows were looked at."""


class UnschedulableClasses:
    """The classes that fit no node."""

    def __init__(self) -> None:
        self._verdicts: dict[Hashable, _Verdict] = {}
        self._masks: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._verdicts)

    def clear(self) -> None:
        """Drop all verdicts."""
        self._verdicts.clear()
        self._masks.clear()

    def add(self, key: Hashable, klass: TaskClass, table: NodeTable, open_rows: Bools | None = None) -> None:
        """The class fits no node as they are now; *open_rows*: those that no static filter rejects, None: all."""
        if len(self._verdicts) >= _MOST_CLASSES:
            self.clear()
        bits = None
        if open_rows is not None:
            bits = np.packbits(open_rows).tobytes()
            bits = self._masks.setdefault(bits, bits)  # many classes have the same open rows
        asks = tuple(zip(klass.fit_dims, klass.fit_values, strict=True))
        at = table.changed.position
        self._verdicts[key] = _Verdict(asks, table.size, bits, at, table.touched.position, at)

    def discard(self, key: Hashable) -> None:
        """The class fits some node."""
        self._verdicts.pop(key, None)

    def contains(self, key: Hashable, table: NodeTable) -> bool:
        """Report whether the class still fits no node."""
        verdict = self._verdicts.get(key)
        if verdict is None:
            return False
        touched, changed = table.touched.position, table.changed.position
        if verdict.touched == touched and verdict.changed == changed:
            return True
        if _may_fit(verdict, table):
            del self._verdicts[key]
            return False
        verdict.touched, verdict.changed = touched, changed
        return True


def _may_fit(verdict: _Verdict, table: NodeTable) -> bool:
    """Report whether a row that changed since the verdict was last looked at may take the class."""
    rows, replaced = table.touched.since(verdict.touched), set[int]()
    if verdict.noted != table.changed.position:
        seen = table.changed.since(verdict.noted)
        if seen is None or len(seen) > max(table.size // 4, 1):
            return True
        replaced = seen
        rows = rows | (table.changed.since(verdict.changed) or set()) if rows is not None else None
    if rows is None or table.size != verdict.size:
        return True
    bits, asks = verdict.open_rows, verdict.asks
    if len(rows) > _FEW_ROWS:
        index = np.fromiter(rows, dtype=np.intp, count=len(rows))
        fits = np.ones(len(index), dtype=np.bool_)
        for d, v in asks:
            free = table.idle[d, index]
            if table.in_flux:
                free = free + table.releasing[d, index] - table.pipelined[d, index]
            fits &= free >= v
        rows = set(index[fits].tolist())
    cells, first, in_flux = table.cells, table.line_of_idle, table.in_flux
    for row in rows:
        for d, v in asks:
            if (table.free_soon(d, row) if in_flux else cells[first + d, row]) < v:
                break
        else:
            if bits is None or row in replaced or bits[row >> 3] >> (7 - (row & 7)) & 1:
                return True
    return False
