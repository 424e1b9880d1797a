"""Scores by what is requested of cpu, memory and GPUs: least and most requested, balanced.

kube-scheduler's arithmetic: every division cuts off, every score is 0 to 100. A resource that a node does not offer
does not count there. Floating point is exact up to amounts of 2**46, 64 TiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows, lines_of
from pumice.model.resources import CPU, MEMORY, dim
from pumice.model.task import Task, TaskClass
from pumice.state.table import NodeTable

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MAX: Final = 100
GPU: Final = dim("nvidia.com/gpu")
_TWO: Final = (CPU, MEMORY)
_THREE: Final = (CPU, MEMORY, GPU)


@dataclass(slots=True)
class Frozen:
    """The amounts on nodes when the session opened."""

    nonzero_requested: Ints
    requested: Ints

    @classmethod
    def of(cls, table: NodeTable) -> Frozen:
        """A copy of what the table holds now."""
        return cls(table.nonzero_requested.copy(), table.used + table.pipelined - table.evicted)


class _Asked(NamedTuple):
    """The requests of a class, as the scores count them."""

    nonzero: Ints
    """Cpu and memory, with defaults for containers that ask for none."""
    balanced: Ints
    """Per balanced resource what is added to a node: nothing, and the request."""


def _asked(klass: TaskClass) -> _Asked:
    """The requests of a class. Key: class; value: its arrays; valid as long as the class."""
    known: _Asked | None = klass.memo.get("nodeorder.asked")
    if known is None:
        balanced = np.array([[[0], [int(klass.requests.get(d))]] for d in _THREE])
        nonzero = np.array([[klass.nonzero_cpu], [klass.nonzero_memory]])
        known = klass.memo["nodeorder.asked"] = _Asked(nonzero, balanced)
    return known


class RequestScores:
    """The three scores as one sum. With *frozen*, placements of this session are not seen."""

    def __init__(self, least: int, most: int, balanced: int, frozen: Frozen | None = None) -> None:
        self._least, self._most, self._balanced = least, most, balanced
        self._frozen = frozen

    def score(self, task: Task, rows: NodeRows) -> Floats:
        """Least, most and balanced, each times its weight."""
        klass = task.klass
        total = np.zeros(len(rows))
        if self._least or self._most:
            total = self._by_free(klass, rows)
        requests = klass.requests
        if self._balanced and (requests.get(CPU) or requests.get(MEMORY) or requests.get(GPU)):
            total += self._balance(klass, rows)
        return total

    def _by_free(self, klass: TaskClass, rows: NodeRows) -> Floats:
        """The free part, and the used part, of cpu and memory after the task, averaged."""
        offered = rows._offered(lines_of(_TWO))
        free = offered - self._nonzero_requested(klass, rows)
        np.maximum(free, 0.0, out=free)
        counted = np.maximum(np.add.reduce(offered > 0, dtype=np.intp), 1)
        least = self._least * _average(free, offered, counted) if self._least else 0.0
        if not self._most:
            return np.asarray(least, dtype=np.float64)
        return least + self._most * _average(offered - free, offered, counted)

    def _balance(self, klass: TaskClass, rows: NodeRows) -> Floats:
        """How much more evenly the node would be used with the task: 50, and a quarter of a hundred up or down."""
        dims = _THREE if klass.requests.get(GPU) and rows._table.width > GPU else _TWO
        held = self._requested(klass, rows, dims)[:, None] + _asked(klass).balanced[: len(dims)]
        before, after = evenness(held, rows._offered(lines_of(dims))[:, None])
        gain: Floats = np.floor((after - before + 150.0) * 0.5)  # 50 + (50 + gain) / 2, cut off
        return gain if self._balanced == 1 else gain * self._balanced

    def _nonzero_requested(self, klass: TaskClass, rows: NodeRows) -> Ints:
        """Cpu and memory as kube-scheduler counts them, with the task."""
        if self._frozen is None:
            held = rows._matrix("nonzero_requested", slice(0, 2))
        else:
            held = self._frozen.nonzero_requested[:, rows.index]
        own = _asked(klass).nonzero
        if rows.extra is not None and self._frozen is None:
            own = own * (rows.extra + 1)
        return held + own

    def _requested(self, klass: TaskClass, rows: NodeRows, dims: tuple[int, ...]) -> Ints:
        """Used and promised amounts without the task."""
        if self._frozen is not None:
            amounts = self._frozen.requested
            return np.array([amounts[d, rows.index] if d < len(amounts) else rows.index * 0 for d in dims])
        lines = lines_of(dims)
        held = rows._matrix("used", lines)
        if rows._table.in_flux:
            held = held + rows._matrix("pipelined", lines) - rows._matrix("evicted", lines)
        if rows.extra is not None:
            held = held + _asked(klass).balanced[: len(dims), 1] * rows.extra
        return held


def _average(amounts: Floats, offered: Floats, counted: npt.NDArray[np.intp]) -> Floats:
    """The amounts in percent of what is offered, averaged over the resources that count."""
    percent = np.floor(amounts * MAX / np.maximum(offered, 1.0))
    average: Floats = np.floor((percent[0] + percent[1]) / counted)
    return average


def evenness(used: Ints, offered: Floats) -> Floats:
    """100 less the standard deviation of the used parts of the resources that a node offers, cut off."""
    there = offered > 0
    parts = np.minimum(used / np.maximum(offered, 1.0), 1.0) * there
    counted = np.add.reduce(there, dtype=np.intp)
    apart: Floats = np.abs(parts[0] - parts[1]) * (counted == 2) / 2
    if len(parts) > 2:  # of two resources the third is taken out of the difference
        third = parts[2] * (counted == 2)
        apart = np.where(there[0] & there[1], apart, np.abs((parts[0] + parts[1]) * (counted == 2) - third) / 2)
        mean = np.add.reduce(parts) / 3
        squares = (parts - mean) * (parts - mean)
        apart = np.where(counted == 3, np.sqrt(np.add.reduce(squares) / 3), apart)
    evened: Floats = np.floor((1.0 - apart) * MAX)
    return evened
