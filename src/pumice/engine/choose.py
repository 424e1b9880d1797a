"""The best node for a task, and the best rows for many equal tasks at once."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.diagnosis import FitError, WhyNot
from pumice.engine.evaluate import Evaluator
from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope
from pumice.engine.views import SEVERITY, Bools, ClassView, Floats, Index
from pumice.model.node import Node
from pumice.model.reason import Reason, Unfit
from pumice.model.task import Task
from pumice.state.table import NodeTable

_NEG_INF: Final = float("-inf")
_FEW: Final = 16
"""For so many tasks as many of the best rows are looked at first, and what becomes of rows is kept."""
_BLOCK: Final = 256
"""The number of rows for which the best alone stands for all, if only some of very many are wanted."""


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


BestNode = Callable[[Task, dict[str, float]], Node | None]
Reduce = Callable[[Task, NodeRows, Floats], Floats]
_ASKED_FIRST: Final = 16
"""Filters of scope SESSION are asked about so many rows at once: about fewer, the call costs more than the rows."""


@dataclass(slots=True)
class NodeChoice:
    """A node for a task: room there now, or only once something is released."""

    node: Node
    idle: bool


class Chooser:
    """Chooses nodes for tasks, with ties settled by the smallest node name or by a seeded generator."""

    def __init__(
        self,
        evaluator: Evaluator,
        *,
        best_node: BestNode | None = None,
        reduce: Reduce | None = None,
        rng: random.Random | None = None,
        score_single: bool = True,
        pre_order: Callable[[Task, NodeRows], None] | None = None,
    ) -> None:
        self.evaluator = evaluator
        self.why_not = WhyNot(evaluator)
        self._best_node, self._reduce, self._rng = best_node, reduce, rng
        self._score_single = score_single
        self._pre_order = pre_order
        self._plain = best_node is None and reduce is None and rng is None and pre_order is None
        """Whether filters and scores alone decide, and the smallest name between equals."""

    # -- filtering ------------------------------------------------------------------------------------------------
    def feasible(self, view: ClassView, task: Task, mask: Bools, severity: int = 0) -> Index:
        """Rows of *mask* that every filter of scope SESSION lets pass as well, or objects to no worse than that."""
        return self._passing(view, task, np.flatnonzero(mask), severity)

    def _passing(self, view: ClassView, task: Task, index: Index, severity: int = 0) -> Index:
        for f in view.session_filters:
            if not len(index):
                break
            codes = self.evaluator.ask_filter(f, task, NodeRows(self.evaluator.table, index))
            index = index[SEVERITY.of(codes) <= severity] if severity else index[codes == 0]
        return index

    def scores(self, view: ClassView, task: Task, index: Index) -> Floats:
        """The total score of candidate rows.

        :raises Unfit: a score refuses to let the task be placed.
        """
        total = self.evaluator.scores(view, task, index)
        rows: NodeRows | None = None
        evaluator = self.evaluator
        if self._pre_order is not None:
            rows = NodeRows(evaluator.table, index)
            self._pre_order(task, rows)
        if view.session_scorers:
            rows = rows or NodeRows(evaluator.table, index)
            for s in view.session_scorers:
                total = s.merge(total, evaluator.ask_scorer(s, task, rows))
        for n, s in enumerate(view.normalized):
            raw = view.raws[n]
            if s.scope is Scope.SESSION or raw is None:
                rows = rows or NodeRows(evaluator.table, index)
                part = evaluator.ask_scorer(s, task, rows)
            else:
                part = raw[index]
            scaled = evaluator.guard.normalized(s, task, part, np.ones(len(index), dtype=np.bool_))
            total = s.merge(total, scaled)
        if self._reduce is not None:
            rows = rows or NodeRows(evaluator.table, index)
            total = total + self._reduce(task, rows, total)
        return total

    # -- choosing -------------------------------------------------------------------------------------------------
    def choose(self, task: Task, within: Bools | None = None, soft: Bools | None = None) -> NodeChoice | FitError:
        """The best node: with room now, else with room that is being released.

        *within* limits the search; nodes outside *soft* are taken only when none inside will do.
        """
        view = self.evaluator.view(task)
        limits = [within] if soft is None else [_and(within, soft), _and(within, ~soft)]
        for future in (False, True):
            for limit in limits:
                if future:
                    mask = (view.code == 0) & self.evaluator.future_ok(view) & ~view.idle_ok
                elif not self.needs_table(view):
                    masked = view.masked if limit is None else np.where(limit[: view.size], view.masked, -np.inf)
                    row = self._best_passing(view, task, masked)
                    if row >= 0:
                        return NodeChoice(self._node(row), True)
                    continue
                else:
                    mask = view.masked > -np.inf
                if limit is not None:
                    mask = mask & limit[: view.size]
                index = self.feasible(view, task, mask)
                if not len(index):
                    continue
                try:
                    node = self._pick(view, task, index)
                except Unfit as no:
                    return FitError({Reason("score", no.text, no.code): 1}, len(index), no.text)
                if node is not None:
                    return NodeChoice(node, not future)
        return self.why_not.error(task, view, within)

    def choose_despite(self, task: Task, within: Bools | None, soft: Bools | None) -> Node | None:
        """As `choose`, objections aside that evictions may heal; None where no node will do even then."""
        view = self.evaluator.view(task)
        no_worse = view.severity <= 1
        for room in (no_worse & view.idle_ok, no_worse & self.evaluator.future_ok(view) & ~view.idle_ok):
            for limit in [within] if soft is None else [_and(within, soft), _and(within, ~soft)]:
                mask = room if limit is None else room & limit[: view.size]
                index = self.feasible(view, task, mask, severity=1)
                node = self._pick(view, task, index) if len(index) else None
                if node is not None:
                    return node
        return None

    def choose_there(self, task: Task, node: Node) -> NodeChoice | FitError:
        """The node, with room now or with room that is being released, or why it will not do."""
        view, row = self.evaluator.view(task), node.row
        if self.can_plan(view):
            if view.masked.item(row) > -np.inf:
                return NodeChoice(node, True)
            if not view.code.item(row) and self.evaluator.future_ok(view).item(row):
                return NodeChoice(node, False)
        only = np.zeros(view.size, dtype=np.bool_)
        only[row] = True
        return self.choose(task, only)

    def nowhere_idle(self, task: Task) -> bool:
        """Report whether no node certainly has idle room for the task."""
        view = self.evaluator.view(task)
        return not view.session_filters and not view.masked.max(initial=-np.inf) > -np.inf

    def needs_table(self, view: ClassView) -> bool:
        """Report whether a score of a row depends on the other rows, or on more than the class."""
        return bool(view.session_scorers or not self._plain or self._varies(view))

    @staticmethod
    def _varies(view: ClassView) -> bool:
        """Report whether normalised scores tell nodes apart."""
        for n, s in enumerate(view.normalized):
            if view.flat[n]:
                continue
            raw = view.raws[n]
            if s.scope is Scope.SESSION or raw is None or (len(raw) and raw.min() != raw.max()):
                return True
        return False

    def _pick(self, view: ClassView, task: Task, index: Index) -> Node | None:
        if len(index) == 1 and not self._score_single:
            return self._node(int(index[0]))
        scores = self.scores(view, task, index)
        if self._best_node is not None:
            nodes = self.evaluator.table.nodes
            table = {n.name: float(s) for n, s in zip((nodes[i] for i in index.tolist()), scores, strict=True) if n}
            chosen = self._best_node(task, table)
            if chosen is not None:
                return chosen
        at = self._best_of(index, scores)
        return None if at < 0 else self._node(at)

    def _node(self, row: int) -> Node:
        node = self.evaluator.table.nodes[row]
        assert node is not None
        return node

    def _best_of(self, index: Index, scores: Floats) -> int:
        best = scores.max(initial=-np.inf)
        if best == -np.inf:
            return -1
        ties = index[scores == best]
        if len(ties) == 1:
            return int(ties[0])
        ranks = self.evaluator.table.ranks()[ties]
        if self._rng is not None:
            order = ties[np.argsort(ranks)]
            return int(order[self._rng.randrange(len(order))])
        return int(ties[ranks.argmin()])

    def best_row(self, masked: Floats) -> int:
        """The row of the highest score above minus infinity, -1 for none."""
        if not len(masked):
            return -1
        first = int(masked.argmax())
        best = masked[first]
        if best == -np.inf:
            return -1
        table = self.evaluator.table
        if table.rows_by_name:
            return first
        ties = np.flatnonzero(masked == best)
        return first if len(ties) == 1 else int(ties[table.ranks()[ties].argmin()])

    def _best_passing(self, view: ClassView, task: Task, masked: Floats) -> int:
        """The row of the highest score that every filter of scope SESSION lets pass, -1 for none.

        Those filters are asked about the best rows first, and about more only if they reject all of these.
        """
        row, asked = self.best_row(masked), _ASKED_FIRST
        if row < 0 or not view.session_filters:
            return row
        while True:
            best, following = best_rows(self.evaluator.table, masked, asked)
            passed = self._passing(view, task, best)
            if len(passed) or following is None:
                return self._best_of(passed, masked[passed])
            masked = masked.copy()
            masked[best] = -np.inf
            asked *= 4

    def can_plan(self, view: ClassView) -> bool:
        """Report whether equal tasks can be placed in bulk: every answer depends on the class and the one row alone."""
        return not view.session_filters and not self.needs_table(view)

    def plan(self, task: Task, wanted: int, within: Bools | None = None) -> Sequence[int]:
        """Rows for up to *wanted* tasks of a class, in order, as choosing one by one would give on idle room.

        *within* limits the search.
        """
        view = self.evaluator.view(task)
        return plan_rows(self.evaluator, view, wanted, within) if self.can_plan(view) else []


def _and(left: Bools | None, right: Bools) -> Bools:
    return right if left is None else left & right
