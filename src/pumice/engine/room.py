"""How many tasks of a class there is room for, all nodes together: what a gang needs to know before it is tried."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.model.task import TaskClass
from pumice.state.table import NodeTable

_PLENTY: Final = 1 << 40
_MANY_ROWS: Final = 256
"""Beyond so many changed rows, counting anew is faster."""


class ClassRoom:
    """At most so many tasks of a class fit, by amounts and by what never changes; follows the rows that change."""

    __slots__ = ("_changed_at", "_dims", "_open", "_rows", "_touched_at", "total")

    def __init__(self, klass: TaskClass, table: NodeTable, open_rows: npt.NDArray[np.bool_]) -> None:
        self._dims = [(d, v) for d, v in zip(klass.fit_dims, klass.fit_values, strict=True) if v > 0]
        self._open = open_rows
        size = len(open_rows)
        rows = np.full(size, _PLENTY, dtype=np.int64)
        for d, v in self._dims:
            np.minimum(rows, table.idle[d, :size] // v, out=rows)
        rows[~open_rows] = 0
        np.maximum(rows, 0, out=rows)
        self._rows: list[int] = rows.tolist()
        self.total = sum(self._rows)
        self._touched_at, self._changed_at = table.touched.position, table.changed.position

    def follow(self, table: NodeTable) -> bool:
        """Take in what changed; False when too much did."""
        if self._changed_at != table.changed.position or len(self._open) != table.size:
            return False
        touched = table.touched.since(self._touched_at)
        if touched is None or len(touched) > _MANY_ROWS:
            return False
        idle, rows = table.idle, self._rows
        for row in touched:
            if self._open[row]:
                room = max(min((idle.item(d, row) // v for d, v in self._dims), default=_PLENTY), 0)
                self.total += room - rows[row]
                rows[row] = room
        self._touched_at = table.touched.position
        return True
