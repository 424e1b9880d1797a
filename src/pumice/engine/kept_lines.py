"""Lines of numbers that follow from what a row holds, worked out once for each kind of row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pumice.engine.allocatable_floats import EXACT
from pumice.engine.rows import NodeRows
from pumice.state.table import NodeTable

Floats = npt.NDArray[np.float64]
Number: TypeAlias = Any
"""A number, or a line of numbers with one for each row: the arithmetic is the same."""
Numbers: TypeAlias = Sequence[Number] | npt.NDArray[Any]
_FEW: Final = 2
"""So many rows are looked at one by one."""


class Held:
    """What one row of a table holds, as numbers, or what some or all of them do, as lines of numbers."""

    __slots__ = ("_free", "_offered", "nonzero_requested", "used")

    def __init__(self, table: NodeTable, rows: int | npt.NDArray[np.intp] | None = None) -> None:
        if isinstance(rows, int):
            self._offered: Numbers
            self.used: Numbers
            self.nonzero_requested: Numbers
            self._offered, self.used, self.nonzero_requested = table.held_by(rows)
            self._free: Any = not table.valid.item(rows)
        else:
            of = slice(0, table.size) if rows is None else rows
            self._offered, self.used, self.nonzero_requested = (
                table.allocatable[:, of],
                table.used[:, of],
                table.nonzero_requested[:, of],
            )
            self._free = ~table.valid[of]

    def offered(self, dims: Sequence[int]) -> Numbers | None:
        """What is offered of resources; None where some node offers none of one, or too much for exactness."""
        if max(dims, default=0) >= len(self._offered):
            return None
        if isinstance(self._free, bool):
            numbers = [1.0 if self._free else float(self._offered[d]) for d in dims]
            return numbers if all(0 < v <= EXACT for v in numbers) else None
        lines = np.array([self._offered[d] for d in dims], dtype=np.float64)
        lines[:, self._free] = 1.0
        return lines if not lines.size or (lines.min() > 0 and lines.max() <= EXACT) else None


class KeptLines:
    """What *make* says of the rows of a table whose log of changes tells of every change, as the one of kinds does."""

    def __init__(self, make: Callable[[Held], Sequence[Number] | None]) -> None:
        """*make*: so many numbers for a row, or lines of them for all rows; None where they cannot be made."""
        self._make = make
        self._table: NodeTable | None = None
        self._at = -1
        self._lines: Floats = np.zeros((0, 0))

    def of(self, rows: NodeRows) -> Floats | None:
        """The lines of some rows, not to be written; None where they cannot be made."""
        table = rows.table
        if table is not self._table or table.changed.position != self._at:
            self._table, self._at = (table, table.changed.position) if self._follow(table) else (None, -1)
        return None if self._table is None else rows.matrix(self._lines, slice(None))

    def _follow(self, table: NodeTable) -> bool:
        size = table.size
        changed = table.changed.since(self._at) if table is self._table else None
        if changed is None or len(changed) > size // 4 or size > self._lines.shape[1]:
            made = self._make(Held(table))
            if made is not None:
                self._lines = np.zeros((len(made), 2 * size))
                self._lines[:, :size] = made
            return made is not None
        few = len(changed) <= _FEW
        for rows in changed if few else [np.fromiter(changed, dtype=np.intp, count=len(changed))]:
            made = self._make(Held(table, rows))
            if made is None:
                return False
            self._lines[:, rows] = made
        return True
