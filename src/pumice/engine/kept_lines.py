"""Lines of numbers that follow from what a row holds, worked out once for each kind of row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from pumice.engine.allocatable_floats import EXACT
from pumice.engine.rows import NodeRows, lines_of
from pumice.state.table import NodeTable

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
G = TypeVar("G", bound=np.generic)
_FEW: Final = 2
"""So many rows are looked at one by one."""


class Held:
    """What some or all rows of a table hold: lines of numbers with one for each row."""

    __slots__ = ("_rows", "_table")

    def __init__(self, table: NodeTable, rows: npt.NDArray[np.intp] | None = None) -> None:
        self._table, self._rows = table, rows

    def _of(self, ledger: npt.NDArray[G]) -> npt.NDArray[G]:
        return ledger[..., : self._table.size] if self._rows is None else ledger.take(self._rows, axis=-1)

    @property
    def nonzero_requested(self) -> Ints:
        """Cpu and memory as kube-scheduler counts them, a line each."""
        return self._of(self._table.nonzero_requested)

    def used(self, dims: tuple[int, ...]) -> Ints:
        """What is used of resources, a line each."""
        return self._of(self._table.used[lines_of(dims)])

    def offered(self, dims: tuple[int, ...]) -> Floats | None:
        """What is offered of resources; None where some node offers none of one, or too much for exactness."""
        if max(dims, default=0) >= self._table.width:
            return None
        lines: Floats = self._of(self._table.allocatable[lines_of(dims)]).astype(np.float64)
        valid = self._of(self._table.valid)
        if np.count_nonzero(valid) < len(valid):
            lines[:, ~valid] = 1.0
        if lines.size and not (
            np.minimum.reduce(lines, axis=None) > 0 and np.maximum.reduce(lines, axis=None) <= EXACT
        ):
            return None
        return lines


class HeldByOne:
    """What one row of a table holds, as numbers."""

    __slots__ = ("_free", "_offered", "_used", "nonzero_requested")

    def __init__(self, table: NodeTable, row: int) -> None:
        self._offered, self._used, self.nonzero_requested = table.held_by(row)
        self._free = not table.valid.item(row)

    def used(self, dims: tuple[int, ...]) -> list[int]:
        """What is used of resources."""
        return [self._used[d] for d in dims]

    def offered(self, dims: tuple[int, ...]) -> list[float] | None:
        """What is offered of resources; None as `Held.offered` says."""
        if max(dims, default=0) >= len(self._offered):
            return None
        numbers = [1.0] * len(dims) if self._free else [float(self._offered[d]) for d in dims]
        return numbers if min(numbers, default=1.0) > 0 and max(numbers, default=1.0) <= EXACT else None


class KeptLines:
    """Numbers that follow from rows of a table whose log of changes tells of every change, as the one of kinds does."""

    def __init__(
        self, lines: Callable[[Held], Floats | None], numbers: Callable[[HeldByOne], Sequence[float] | None]
    ) -> None:
        """*lines*: a line of numbers each, with one for each row; *numbers*: the same of one row, which is quicker.

        None where they cannot be made.
        """
        self._make, self._make_one = lines, numbers
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
        made: Floats | Sequence[float] | None
        if changed is None or len(changed) > size // 4 or size > self._lines.shape[1]:
            made = self._make(Held(table))
            if made is not None:
                self._lines = np.zeros((len(made), 2 * size))
                self._lines[:, :size] = made
            return made is not None
        if len(changed) > _FEW:
            rows = np.fromiter(changed, dtype=np.intp, count=len(changed))
            made = self._make(Held(table, rows))
            if made is not None:
                self._lines[:, rows] = made
            return made is not None
        for row in changed:
            made = self._make_one(HeldByOne(table, row))
            if made is None:
                return False
            self._lines[:, row] = made
        return True
