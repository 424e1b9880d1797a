"""The scores by requests (`requests.py`) of many classes at once, about each kind of row.

Each resource is worked out for itself: where all classes ask for the same of one, once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from pumice.engine.kept_lines import Held, HeldByOne, KeptLines
from pumice.engine.rows import NodeRows
from pumice.engine.side_by_side import ClassAmounts
from pumice.model.resources import CPU, MEMORY
from pumice.plugins.nodeorder.arithmetic import (
    GPU,
    asks_for_any,
    averaged,
    evenness_apart,
    evenness_of_one,
    evenness_of_three,
    evenness_of_two,
    gained,
    percents,
    requested,
)

Floats = npt.NDArray[np.float64]

_TWO = (CPU, MEMORY)
_AND_GPU = (CPU, MEMORY, GPU)


class ScoresAcross:
    """The three scores as one sum, for classes that ask for the same resources."""

    def __init__(self, least: int, most: int, balanced: int) -> None:
        self._least, self._most, self._balanced = least, most, balanced
        self._kept = {of: KeptLines(partial(lines, of), partial(numbers, of)) for of in (_TWO, _AND_GPU)}

    def scores(self, classes: ClassAmounts, rows: NodeRows) -> Floats | None:
        """By class and row; None where not every node offers both resources, or too much for exactness."""
        of = _AND_GPU if classes.first.requests.get(GPU) else _TWO
        kept = self._kept[of].of(rows)
        if kept is None:
            return None
        n, balances = len(of), bool(self._balanced) and asks_for_any(classes.first)
        free, offered, held = kept[:2], kept[2 : 2 + n], kept[2 + n : 2 + 2 * n]
        total: Floats | None = None
        if self._least or self._most:
            asked = classes.nonzero_request_parts(len(rows))
            if len(asked) == 1:
                total = requested(free[:, None] - asked[0], offered[:2, None], self._least, self._most)
            else:
                total = self._requested(free, asked, offered[:2])
        if balances:
            asked = classes.request_parts(of, len(rows))
            if len(asked) == 1:
                after = held[:, None] + asked[0]
                after /= offered[:, None]
                even = _evenness(after)
            else:
                even = _evenness_cut([(h + a[0]) / o for h, a, o in zip(held, asked, offered, strict=True)])
            gain = gained(kept[-1], even, self._balanced)
            total = gain if total is None else total + gain
        if total is None:
            return np.zeros((len(classes), len(rows)))
        return total if len(total) == len(classes) else np.repeat(total, len(classes), axis=0)

    def _requested(self, free: Floats, asked: Sequence[Floats], offered: Floats) -> Floats:
        """As `requested` says, each resource for itself."""
        left = [np.maximum(f - a[0], 0.0) for f, a in zip(free, asked, strict=True)]
        taken = [of - line for of, line in zip(offered, left, strict=True)] if self._most else []
        total: Floats | None = None
        for amounts, weight in ((left, self._least), (taken, self._most)):
            if weight:
                for line, of in zip(amounts, offered, strict=True):
                    percents(line, of)
                own = averaged(amounts[0] + amounts[1], weight)
                total = own if total is None else total + own
        assert total is not None
        return total


def lines(of: tuple[int, ...], held: Held) -> Floats | None:
    """Cpu and memory that are free of requests; of each resource what is offered and used; how even that is.

    None where not every node offers each of the resources.
    """
    offered = held.offered(of)
    if offered is None:
        return None
    used = held.used(of)
    free = offered[:2] - held.nonzero_requested
    return np.concatenate((free, offered, used, _evenness(used / offered)[None]))


def numbers(of: tuple[int, ...], held: HeldByOne) -> list[float] | None:
    """The same of one row."""
    offered = held.offered(of)
    if offered is None:
        return None
    used = held.used(of)
    free = [o - a for o, a in zip(offered, held.nonzero_requested, strict=False)]
    return [*free, *offered, *used, evenness_of_one([u / o for u, o in zip(used, offered, strict=True)])]


def _evenness(parts: Floats) -> Floats:
    return evenness_of_two(parts) if len(parts) == 2 else evenness_of_three(parts)


def _evenness_cut(parts: Sequence[Floats]) -> Floats:
    """The same of lines that need not be of equal height; changes them."""
    if len(parts) > 2:
        return evenness_of_three(np.array(np.broadcast_arrays(*parts)))
    cpu, memory = parts
    return evenness_apart(np.minimum(cpu, 1.0, out=cpu) - np.minimum(memory, 1.0, out=memory))
