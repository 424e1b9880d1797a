"""The best places for many equal tasks at once: the best rows, each after so many more of them, and a heap."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.evaluate import Evaluator
from pumice.engine.views import Bools, ClassView, Floats, Index
from pumice.state.table import NodeTable

_NEG_INF: Final = float("-inf")
_FEW: Final = 16
"""For so many tasks as many of the best rows are looked at first, and what becomes of rows is kept."""
_BLOCK: Final = 256
"""Of so many rows the best alone stands for all, where only some of very many are wanted."""


def plan_rows(evaluator: Evaluator, view: ClassView, wanted: int, within: Bools | None = None) -> Sequence[int]:
    """Rows for up to *wanted* tasks of a class, in order, as choosing one by one would give on idle room.

    For where every answer depends on the class and the one row alone. *within* limits the search.
    """
    inside = None if within is None else np.flatnonzero(within[: view.size])
    if wanted <= _FEW:
        return _plan_within(evaluator, view, inside, wanted, (wanted, wanted)) or []
    for reach in dict.fromkeys((view.reach, (_FEW, wanted), (wanted, wanted))):
        rows = _plan_within(evaluator, view, inside, wanted, reach)
        if rows is not None:
            on_each = Counter(rows).values()
            view.reach = wanted if len(on_each) > _FEW else _FEW, 2 * max(on_each, default=1)
            return rows
    return []


def _plan_within(
    evaluator: Evaluator, view: ClassView, inside: Index | None, wanted: int, reach: tuple[int, int]
) -> list[int] | None:
    """The plan if so many of the best rows suffice to make it, with so many tasks on one; None where they do not."""
    table, (most, deep) = evaluator.table, reach
    top, outside = best_rows(evaluator.table, view.masked, most, inside)
    if not len(top):
        return []
    ranks = table.ranks()[top].tolist()
    first = view.masked[top].tolist()
    ahead = later(evaluator, view, top, min(deep, wanted))
    heap = [(-s, ranks[i], i, 0) for i, s in enumerate(first)]
    heapq.heapify(heap)
    rows: list[int] = []
    top_rows = top.tolist()
    scalars = evaluator.scalars_ahead(view)
    for _ in range(wanted):
        if not heap:
            break
        cost, rank, i, used = heap[0]
        if outside is not None and outside < (cost, rank):
            return None
        rows.append(top_rows[i])
        soon = ahead[i]
        used += 1
        if used <= len(soon):
            score_next = soon[used - 1]
            if scalars is not None and score_next > _NEG_INF:
                score_next = scalars(top_rows[i], used, score_next)
            if score_next > _NEG_INF:
                heapq.heapreplace(heap, (-score_next, rank, i, used))
                continue
        elif used == deep < wanted:
            return None
        heapq.heappop(heap)
    if len(rows) < wanted and outside is not None:
        return None
    return rows


def later(evaluator: Evaluator, view: ClassView, top: Index, wanted: int) -> list[list[float]]:
    """Per row the scores after one more task, two more and so on, as far as there may be room for yet another.

    Minus infinity where a filter objects.
    """
    table, klass = evaluator.table, view.task.klass
    room = np.full(len(top), wanted, dtype=np.int64)
    for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
        if v > 0:
            room = np.minimum(room, table.idle[d, top] // v)
            if table.in_flux:
                future = table.idle[d, top] + table.releasing[d, top] - table.pipelined[d, top]
                room = np.minimum(room, future // v)
    more = np.maximum(room, 1) - 1
    ends = np.cumsum(more)
    total = int(ends[-1])
    if not total:
        return [[]] * len(top)
    owner = np.repeat(np.arange(len(top)), more)
    extra = np.arange(total) - (ends - more)[owner] + 1
    fits, score = evaluator.imagine(view, top[owner], extra)
    scores = np.where(fits, score, -np.inf).tolist()
    return [scores[end - n : end] for end, n in zip(ends.tolist(), more.tolist(), strict=True)]


def best_rows(
    table: NodeTable, masked: Floats, most: int, inside: Index | None = None
) -> tuple[Index, tuple[float, int] | None]:
    """The *most* best rows (ties by name) and the key of the next one, if there is any; of those *inside* only."""
    ranks = table.ranks()
    if inside is not None:
        top, following = _top_of(table, masked[inside], most, ranks[inside])
        return inside[top], following
    return _top_of(table, masked, most, ranks)


def _top_of(
    table: NodeTable, masked: Floats, most: int, ranks: npt.NDArray[np.int64]
) -> tuple[Index, tuple[float, int] | None]:
    if most + 1 >= len(masked):
        index = np.flatnonzero(masked > -np.inf)
        return index, None
    threshold = _at_least(masked, most + 1)
    above = np.flatnonzero(masked > threshold)
    if len(above) > most:  # it was only a bound
        own = masked[above]
        threshold = float(np.partition(own, len(own) - most - 1)[len(own) - most - 1])
        at = above
        above, equal = at[own > threshold], at[own == threshold]
    elif threshold == -np.inf:
        return above, None
    elif table.rows_by_name:
        equal = _first_equal(masked, threshold, most + 1 - len(above))
    else:
        equal = np.flatnonzero(masked == threshold)
    if not table.rows_by_name:
        equal = equal[np.argsort(ranks[equal])]
    take = most - len(above)
    next_row = int(equal[take])
    return np.concatenate((above, equal[:take])), (-threshold, int(ranks[next_row]))


def _at_least(masked: Floats, many: int) -> float:
    """A score that at least so many rows have: the one of the last of them, or less. One look at all rows."""
    blocks = len(masked) // _BLOCK
    if many <= blocks:
        best = masked[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
        return float(np.partition(best, blocks - many)[blocks - many])
    return float(np.partition(masked, len(masked) - many)[len(masked) - many])


def _first_equal(masked: Floats, score: float, many: int) -> Index:
    """The first so many rows of a score that at least so many have."""
    end = _BLOCK
    while True:
        end *= 8
        found = np.flatnonzero(masked[:end] == score)
        if len(found) >= many or end >= len(masked):
            return found[:many]
