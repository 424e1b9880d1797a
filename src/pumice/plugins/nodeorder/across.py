"""The scores by requests (`requests.py`) of many classes at once, about each kind of row.

Each resource is worked out for itself: where all classes ask for the same of one, once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from pumice.engine.kept_lines import Held, KeptLines
from pumice.engine.rows import NodeRows
from pumice.engine.side_by_side import ClassAmounts
from pumice.model.resources import CPU, MEMORY
from pumice.plugins.nodeorder.arithmetic import (
    GPU,
    MAX,
    asks_for_any,
    averaged,
    evenness_apart,
    evenness_of_three,
    evenness_of_two,
    gained,
)

Floats = npt.NDArray[np.float64]

_TWO = (CPU, MEMORY)
_AND_GPU = (CPU, MEMORY, GPU)


class ScoresAcross:
    """The three scores as one sum, for classes that ask for the same resources."""

    def __init__(self, least: int, most: int, balanced: int) -> None:
        self._least, self._most, self._balanced = least, most, balanced
        self._kept = {of: KeptLines(partial(lines, of)) for of in (_TWO, _AND_GPU)}

    def scores(self, classes: ClassAmounts, rows: NodeRows) -> Floats | None:
        """By class and row; None where not every node offers both resources, or too much for exactness."""
        of = _AND_GPU if classes.first.requests.get(GPU) else _TWO
        kept = self._kept[of].of(rows)
        if kept is None:
            return None
        n = len(of)
        free, offered, held, even = kept[:2], kept[2 : 2 + n], kept[2 + n : 2 + 2 * n], kept[-1]
        total: Floats | None = None
        if self._least or self._most:
            asked = classes.nonzero_request_lines()
            total = self._free([f - MAX * a for f, a in zip(free, asked, strict=True)], offered[:2])
        if self._balanced and asks_for_any(classes.first):
            asked = classes.request_lines(of)
            parts = [(h + a) / o for h, a, o in zip(held, asked, offered, strict=True)]
            gain = gained(even, _evenness(parts), self._balanced)
            total = gain if total is None else total + gain
        if total is None:
            return np.zeros((len(classes), len(rows)))
        return total if len(total) == len(classes) else np.repeat(total, len(classes), axis=0)

    def _free(self, left: Sequence[Floats], offered: Floats) -> Floats:
        """Least and most requested, each times its weight, where so many hundredths would be *left*; changes them."""
        for line in left:
            np.maximum(line, 0.0, out=line)
        taken = [MAX * o - line for o, line in zip(offered, left, strict=True)] if self._most else []
        total = averaged(_percents(left, offered), self._least) if self._least else None
        if taken:
            part = averaged(_percents(taken, offered), self._most)
            total = part if total is None else total + part
        assert total is not None
        return total


def lines(of: tuple[int, ...], held: Held) -> Floats | None:
    """A hundred times the cpu and memory that are free of requests; what is offered and used; how even that is.

    None where not every node offers each of the resources.
    """
    offered = held.offered(of)
    if offered is None:
        return None
    used = held.used(of)
    free = offered[:2] - held.nonzero_requested
    free *= MAX
    evenness = evenness_of_two if of == _TWO else evenness_of_three
    return np.concatenate((free, offered, used, evenness(used / offered)[None]))


def _percents(hundredths: Sequence[Floats], offered: Floats) -> Floats:
    """Of cpu and memory the percent, cut off, together. Changes *hundredths*."""
    for line, of in zip(hundredths, offered, strict=True):
        np.divide(line, of, out=line)
        np.floor(line, out=line)
    cpu, memory = hundredths
    return cpu + memory


def _evenness(parts: Sequence[Floats]) -> Floats:
    if len(parts) > 2:
        return evenness_of_three(np.array(np.broadcast_arrays(*parts)))
    cpu, memory = (np.minimum(part, 1.0, out=part) for part in parts)
    return evenness_apart(cpu - memory)
