"""Lines of numbers that follow from what a row holds, worked out once for each kind of row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.state.table import NodeTable

Floats = npt.NDArray[np.float64]
_FEW: Final = 64


class KeptLines:
    """What *make* says of the rows of a table whose log of changes tells of every change, as the one of kinds does."""

    def __init__(self, make: Callable[[NodeRows], Floats | None]) -> None:
        """*make*: lines with a number for each row; None where they cannot be made."""
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
        if changed is None or len(changed) > _FEW or size > self._lines.shape[1]:
            made = self._make(NodeRows(table))
            if made is not None:
                self._lines = np.zeros((len(made), 2 * size))
                self._lines[:, :size] = made
            return made is not None
        index = np.fromiter(changed, dtype=np.intp, count=len(changed))
        made = self._make(NodeRows(table, index))
        if made is not None:
            self._lines[:, index] = made
        return made is not None
