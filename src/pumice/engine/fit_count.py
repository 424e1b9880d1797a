"""How much room there is for tasks of a class, and what is short where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.model.reason import TOGETHER, reason_id
from pumice.model.resources import dim_name
from pumice.model.task import TaskClass
from pumice.state.table import NodeTable

Ints = npt.NDArray[np.int64]
NO_DEVICE: Final = reason_id("resources", "Insufficient free GPU devices")
TAKEN: Final = reason_id("resources", "had no room when it was asked for")
"""Of a node on which nothing is short any more: what the task did not get was given back later in the cycle."""
_PLENTY: Final = 1 << 40
_FEW_ROWS: Final = 16
"""Up to so many changed rows are counted one by one."""
_MANY_ROWS: Final = 256
"""Beyond so many changed rows, counting anew is faster."""


class FitCount:
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
        self._rows = rows
        self.total = int(rows.sum())
        self._touched_at, self._changed_at = table.touched.position, table.changed.position

    def follow(self, table: NodeTable) -> bool:
        """Take in what changed; False when too much did."""
        if self._changed_at != table.changed.position or len(self._open) != table.size:
            return False
        touched = table.touched.since(self._touched_at)
        if touched is None or len(touched) > _MANY_ROWS:
            return False
        if len(touched) > _FEW_ROWS:
            self._count_anew(table, np.fromiter(touched, dtype=np.intp, count=len(touched)))
        else:
            self._count_one_by_one(table, touched)
        self._touched_at = table.touched.position
        return True

    def _count_anew(self, table: NodeTable, touched: npt.NDArray[np.intp]) -> None:
        at = touched[self._open[touched]]
        room = np.full(len(at), _PLENTY, dtype=np.int64)
        for d, v in self._dims:
            np.minimum(room, table.idle[d, at] // v, out=room)
        np.maximum(room, 0, out=room)
        self.total += int(room.sum() - self._rows[at].sum())
        self._rows[at] = room

    def _count_one_by_one(self, table: NodeTable, touched: Iterable[int]) -> None:
        cells, first, rows = table.cells, table.line_of_idle, self._rows
        for row in touched:
            if self._open[row]:
                room = _PLENTY
                for d, v in self._dims:
                    fits = cells[first + d, row] // v
                    if fits < room:
                        room = fits
                room = max(room, 0)
                self.total += room - rows.item(row)
                rows[row] = room


def fit_count(klass: TaskClass, table: NodeTable, rows: npt.NDArray[np.intp]) -> int:
    """How many tasks of a class fit on these rows by amounts."""
    each = [table.idle[d, rows] // v for d, v in zip(klass.fit_dims, klass.fit_values, strict=True) if v > 0]
    return int(np.maximum(np.minimum.reduce(each), 0).sum()) if each else _PLENTY


def fit_each(klass: TaskClass, free: Callable[[int], Ints], most: Ints) -> Ints:
    """For how many tasks of a class each row has room, where *free* is what rows have of a resource; up to *most*."""
    for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
        if v > 0:
            most = np.minimum(most, free(d) // v)
    return np.maximum(most, 0)


def insufficient(short: Iterable[int]) -> int:
    """The reason number for too little of each of some resources."""
    return reason_id("resources", TOGETHER.join([f"Insufficient {dim_name(d)}" for d in short]))


def shortages(
    klass: TaskClass, table: NodeTable, index: npt.NDArray[np.intp], *, full: bool = False
) -> npt.NDArray[np.int32]:
    """For rows that do not fit even in future: the reason naming every resource that is short.

    *full*: after as many tasks of the class were put there as fit.
    """
    asked = list(zip(klass.fit_dims, klass.fit_values, strict=True))
    frees = [table.idle[d, index] for d, _ in asked]
    if table.in_flux:
        frees = [table.releasing[d, index] - table.pipelined[d, index] + frees[n] for n, (d, _) in enumerate(asked)]
    if full:
        rooms = [f // v for f, (_, v) in zip(frees, asked, strict=True) if v > 0]
        most = np.maximum(np.minimum.reduce(rooms), 0) if rooms else 0
        frees = [f - most * v for f, (_, v) in zip(frees, asked, strict=True)]
    lacks = np.array([free < v for free, (_, v) in zip(frees, asked, strict=True)])
    kinds, which = np.unique(lacks, axis=1, return_inverse=True)
    dims = [[d for (d, _), short in zip(asked, kind, strict=True) if short] for kind in kinds.T.tolist()]
    codes = [insufficient(short) if short else _nothing_short(klass) for short in dims]
    return np.array(codes, dtype=np.int32)[which.ravel()]


def shortage_on(klass: TaskClass, table: NodeTable, row: int) -> int:
    """What `shortages` says of one row."""
    return amount_short_on(klass, table, row) or _nothing_short(klass)


def amount_short_on(klass: TaskClass, table: NodeTable, row: int) -> int:
    """The reason naming every resource of which a row has too little, even in future; 0 where it has enough."""
    cells, first, in_flux = table.cells, table.line_of_idle, table.in_flux
    short = [
        d
        for d, v in zip(klass.fit_dims, klass.fit_values, strict=True)
        if (table.free_soon(d, row) if in_flux else cells[first + d, row]) < v
    ]
    return insufficient(short) if short else 0


def _nothing_short(klass: TaskClass) -> int:
    return NO_DEVICE if klass.gpu is not None else TAKEN
