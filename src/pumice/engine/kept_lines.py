"""Lines of numbers that follow from what a row holds, worked out once for each kind of row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pumice.engine.allocatable_floats import EXACT
from pumice.engine.rows import NodeRows, lines_of
from pumice.state.table import NodeTable

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Held:
    """What some or all rows of a table hold: lines of numbers with one for each row."""

    __slots__ = ("_offered", "_used", "_valid", "nonzero_requested")

    def __init__(self, table: NodeTable, rows: npt.NDArray[np.intp] | None = None) -> None:
        self._offered, self._used, self.nonzero_requested = table.held_by(rows)
        self._valid = table.valid[: table.size] if rows is None else table.valid.take(rows)

    def used(self, dims: tuple[int, ...]) -> Ints:
        """What is used of resources, a line each."""
        found: Ints = self._used[lines_of(dims)]
        return found

    def offered(self, dims: tuple[int, ...]) -> Floats | None:
        """What is offered of resources; None where some node offers none of one, or too much for exactness."""
        if max(dims, default=0) >= len(self._offered):
            return None
        lines: Floats = self._offered[lines_of(dims)].astype(np.float64)
        if np.count_nonzero(self._valid) < len(self._valid):
            lines[:, ~self._valid] = 1.0
        if lines.size and not (
            np.minimum.reduce(lines, axis=None) > 0 and np.maximum.reduce(lines, axis=None) <= EXACT
        ):
            return None
        return lines


class KeptLines:
    """What *make* says of the rows of a table whose log of changes tells of every change, as the one of kinds does."""

    def __init__(self, make: Callable[[Held], Floats | None]) -> None:
        """*make*: lines of numbers with one for each row; None where they cannot be made."""
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
        rows = np.fromiter(changed, dtype=np.intp, count=len(changed))
        made = self._make(Held(table, rows))
        if made is not None:
            self._lines[:, rows] = made
        return made is not None
