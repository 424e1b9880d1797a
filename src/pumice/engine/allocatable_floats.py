"""What nodes offer, as floating-point lines that scores divide by; made anew only when a node changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows, lines_of
from pumice.state.table import NodeTable

Floats = npt.NDArray[np.float64]

EXACT: Final = 2.0**46
"""Up to here 100 times an amount, divided and cut off, is the same in floating point as in whole numbers."""


@dataclass(slots=True)
class _Lines:
    position: int
    size: int
    amounts: Floats
    plain: bool


class AllocatableFloats:
    """Allocatable amounts of a table by resource."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._known: dict[tuple[int, ...], _Lines] = {}

    @classmethod
    def kept(cls, store: dict[str, Any], table: NodeTable) -> AllocatableFloats:
        """The one of a table that *store* keeps, made when first asked for."""
        found = store.get("offers")
        if not isinstance(found, cls) or found.table is not table:
            found = store["offers"] = cls(table)
        return found

    def of(self, dims: tuple[int, ...], rows: NodeRows) -> tuple[Floats, bool]:
        """(one line per resource for the rows, whether every node offers some of each and none too much for exactness).

        Where the second is False the lines must not be used.
        """
        table = self.table
        lines = self._known.get(dims)
        if lines is None or lines.position != table.changed.position or lines.size != table.size:
            lines = self._known[dims] = _read(table, dims)
        return rows.matrix(lines.amounts, slice(None)), lines.plain


def _read(table: NodeTable, dims: tuple[int, ...]) -> _Lines:
    position, size = table.changed.position, table.size
    if max(dims, default=0) >= table.width:
        return _Lines(position, size, np.zeros((len(dims), size)), False)
    amounts = table.allocatable[lines_of(dims), :size].astype(np.float64)
    free = ~table.valid[:size]
    if np.count_nonzero(free):
        amounts[:, free] = 1.0
    plain = not amounts.size or bool(amounts.min() > 0 and amounts.max() <= EXACT)
    return _Lines(position, size, amounts, plain)
