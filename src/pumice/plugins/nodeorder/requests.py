"""Scores by what is requested of cpu, memory and GPUs: least and most requested, balanced.

Whole-number arithmetic as kube-scheduler does it: every division cuts off, every score is 0 to 100.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows, lines_of
from pumice.model.resources import CPU, MEMORY
from pumice.model.task import Task, TaskClass
from pumice.plugins.nodeorder.arithmetic import (
    GPU,
    MAX,
    asks_for_any,
    evenness_of_three,
    evenness_of_two,
    gained,
    requested,
)
from pumice.state.table import NodeTable

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_TWO: Final = (CPU, MEMORY)
_AND_GPU: Final = (CPU, MEMORY, GPU)
_THREE: Final = lines_of(_AND_GPU)
_BOTH: Final[slice | npt.NDArray[np.intp]] = slice(CPU, MEMORY + 1)


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
    requested: Ints
    states: Ints
    """The amounts added to a row: none, and the class's requests; resource by state."""
    dims: tuple[int, ...]
    balanced: bool
    """Whether it asks for any of the balanced resources. The score is left out for others."""


def _asked_of(klass: TaskClass) -> _Asked:
    dims = _AND_GPU if klass.requests.get(GPU) else _TWO
    requested = np.array([[int(klass.requests.get(d))] for d in dims], dtype=np.int64)
    nonzero = np.array([[klass.nonzero_cpu], [klass.nonzero_memory]], dtype=np.int64)
    made = klass.memo["nodeorder.asked"] = _Asked(
        nonzero, requested, requested[:, None] * np.array([[0], [1]]), dims, asks_for_any(klass)
    )
    return made


class RequestScores:
    """The three scores as one sum. With *frozen*, placements of this session are not seen."""

    def __init__(self, least: int, most: int, balanced: int, frozen: Frozen | None = None) -> None:
        self._least, self._most, self._balanced = least, most, balanced
        self._frozen = frozen

    def score(self, task: Task, rows: NodeRows) -> Floats:
        """Least, most and balanced, each times its weight."""
        klass = task.klass
        own: _Asked = klass.memo.get("nodeorder.asked") or _asked_of(klass)
        asks = own.balanced and bool(self._balanced)
        if self._frozen is None and rows._table.all_offer(own.dims if asks else _TWO):
            return self._fast(own, rows, asks)
        total: Ints | None = None
        if self._least or self._most:
            total = self._by_free(klass, rows)
        if asks:
            part = self._balanced * self._balance(klass, rows)
            total = part if total is None else total + part
        if total is None:
            return np.zeros(len(rows))
        return total.astype(np.float64)

    def _fast(self, own: _Asked, rows: NodeRows, asks: bool) -> Floats:
        """The same with the resources side by side, in floating point where it is exact: fewer, quicker steps."""
        extra = rows.extra
        offered = rows._offered(_BOTH)
        total: Floats | None = None
        if self._least or self._most:
            after = rows._matrix("nonzero_requested", _BOTH) + own.nonzero
            if extra is not None:
                after += own.nonzero * extra
            total = requested(offered - after, offered, self._least, self._most)
        if asks:
            three = len(own.dims) == 3
            lines = _THREE if three else _BOTH
            held = rows._matrix("used", lines)
            if rows._table.in_flux:
                held = held + rows._matrix("pipelined", lines) - rows._matrix("evicted", lines)
            if extra is not None:
                held = held + own.requested * extra
            parts = (held[:, None] + own.states) / (rows._offered(_THREE) if three else offered)[:, None]
            before, after = evenness_of_three(parts) if three else evenness_of_two(parts)
            gain = gained(before, after, self._balanced)
            total = gain if total is None else np.add(total, gain, out=total)
        return np.zeros(len(rows)) if total is None else total

    def _by_free(self, klass: TaskClass, rows: NodeRows) -> Ints:
        cpu, memory = rows.allocatable[CPU], rows.allocatable[MEMORY]
        after_cpu = self._nonzero_requested(rows, 0) + klass.nonzero_cpu
        after_memory = self._nonzero_requested(rows, 1) + klass.nonzero_memory
        if not (cpu.all() and memory.all()):
            return self._by_free_with_gaps(rows, (cpu, after_cpu), (memory, after_memory))
        total: Ints | None = None
        if self._least:
            left = np.maximum(cpu - after_cpu, 0) * MAX // cpu + np.maximum(memory - after_memory, 0) * MAX // memory
            total = np.asarray(left // 2 * self._least, dtype=np.int64)
        if self._most:
            taken = np.minimum(after_cpu, cpu) * MAX // cpu + np.minimum(after_memory, memory) * MAX // memory
            part = np.asarray(taken // 2 * self._most, dtype=np.int64)
            total = part if total is None else total + part
        assert total is not None
        return total

    def _by_free_with_gaps(self, rows: NodeRows, *pairs: tuple[Ints, Ints]) -> Ints:
        """The same where some nodes offer no cpu or no memory: the other alone counts there."""
        least = np.zeros(len(rows), dtype=np.int64)
        most = np.zeros(len(rows), dtype=np.int64)
        count = np.zeros(len(rows), dtype=np.int64)
        for offered, after in pairs:
            there = offered > 0
            divisor = np.where(there, offered, 1)
            least += np.where(there, np.maximum(offered - after, 0) * MAX // divisor, 0)
            most += np.where(there, np.minimum(after, offered) * MAX // divisor, 0)
            count += there
        count = np.maximum(count, 1)
        return least // count * self._least + most // count * self._most

    def _balance(self, klass: TaskClass, rows: NodeRows) -> Ints:
        dims = [CPU, MEMORY, GPU] if klass.requests.get(GPU) else [CPU, MEMORY]
        offered = [rows.allocatable[d] for d in dims]
        before = [self._requested(rows, d) for d in dims]
        after = [b + int(klass.requests.get(d)) for b, d in zip(before, dims, strict=True)]
        gain = _evenness(offered, after) - _evenness(offered, before)
        return 50 + (50 + gain) // 2

    def _nonzero_requested(self, rows: NodeRows, which: int) -> Ints:
        if self._frozen is None:
            return rows.nonzero_requested(which)
        return np.asarray(rows._take(self._frozen.nonzero_requested[which]), dtype=np.int64)

    def _requested(self, rows: NodeRows, d: int) -> Ints:
        if self._frozen is None:
            return rows.requested(d)
        held = self._frozen.requested
        if d >= len(held):
            return np.zeros(len(rows), dtype=np.int64)
        return np.asarray(rows._take(held[d]), dtype=np.int64)


def _evenness(offered: list[Ints], used: list[Ints]) -> Ints:
    """100 less the standard deviation of the used parts; resources that a node does not offer are left out."""
    there = [o > 0 for o in offered]
    parts = [
        np.where(t, np.minimum(u / np.where(t, o, 1), 1.0), 0.0) for o, u, t in zip(offered, used, there, strict=True)
    ]
    count = np.maximum(sum(t.astype(np.int64) for t in there), 1)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    mean = total / count
    squares = np.zeros(len(count))
    for part, t in zip(parts, there, strict=True):
        squares = squares + np.where(t, (part - mean) * (part - mean), 0.0)
    deviation = np.sqrt(squares / count)
    if len(offered) >= 2:
        deviation = np.where(count == 2, _half_difference(parts, there), deviation)
    result: Ints = ((1.0 - deviation) * MAX).astype(np.int64)
    return result


def _half_difference(parts: list[Floats], there: list[npt.NDArray[np.bool_]]) -> Floats:
    """Half the difference of the two parts that are there (exact where exactly two are)."""
    difference = np.zeros(len(parts[0]))
    sign = np.ones(len(parts[0]))
    for part, t in zip(parts, there, strict=True):
        difference = np.where(t, difference + sign * part, difference)
        sign = np.where(t, -sign, sign)
    result: Floats = np.abs(difference / 2)
    return result
