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


def _nothing_short(klass: TaskClass) -> int:
    return NO_DEVICE if klass.gpu is not None else TAKEN
