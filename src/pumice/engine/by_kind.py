"""The best node for a task by kinds of rows, where filters and scores follow from amounts alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial, reduce
from itertools import islice
from typing import Final, TypeAlias

import numpy as np

from pumice.engine.ahead import AT_ONCE, AskedAhead
from pumice.engine.evaluate import Evaluator
from pumice.engine.grid import KindGrid
from pumice.engine.rows import NodeRows, asked_lines
from pumice.engine.scope import Scope
from pumice.engine.side_by_side import ClassAmounts
from pumice.engine.views import Bools, ClassView, Filter, Floats, Index, Scorer, same_class
from pumice.model.task import Task
from pumice.state.kinds import RowKinds

_NEG_INF: Final = float("-inf")
_FEW: Final = 4 * AT_ONCE
"""So many kinds without a row are remembered while classes come once."""
_MOST: Final = 20_000
"""Of so many classes it is remembered how they are asked about."""


_MOST_WAYS: Final = 64
UNTOLD: Final = -1
"""Where a class goes does not follow from the amounts of rows alone, or a view that is up to date says it."""
NO_ROOM: Final = -2
"""No row has room for the class."""
_Found: TypeAlias = tuple[Floats, Index | None]
"""Scores, and of which kinds they are; None for all."""


@dataclass(slots=True)
class _Way:
    """How classes are asked about: whose answers follow from amounts, and what is known of such classes."""

    filters: list[Filter]
    scorers: list[Scorer]
    grid: KindGrid
    able: bool
    """Is the best row the one of the best kind?"""


class ByKind:
    """Finds the best row of a class by asking about each kind of row once."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        asked: list[Filter | Scorer] = [*evaluator.filters, *evaluator.scorers]
        self._conditional = [c for c in asked if c.applies is not None]
        static = {c.static_key: c for c in asked if c.scope is Scope.STATIC and c.static_key is not None}
        self._static = list(static.values())
        self._able = all(_answers_by_amounts(c) for c in asked if c.applies is None)
        self._at = -1
        self._ways: dict[Hashable, _Way] = {}
        self._way_of: dict[Hashable, _Way] = {}
        self._ahead = AskedAhead()

    def best_row(self, task: Task, coming: Iterable[Task] = ()) -> int:
        """The row of the highest score, and of those the one of the smallest name.

        *coming*: who is asked about next, perhaps; of classes that come once several are then asked about together.
        Where there is none it is `UNTOLD` or `NO_ROOM`.
        """
        known = self._known(task)
        if known is None:
            return UNTOLD
        key, way, kinds = known
        if not kinds.current():
            return UNTOLD
        cache, size = self._evaluator.cache, self._evaluator.table.size
        if not cache.first_use(key):
            return self._met_again(key, way, task, kinds, size)
        kinds.most_empty = max(_FEW, kinds.most_empty - _FEW // 4)
        found = self._in_turn(key, way, task, kinds, coming) or self._met_once(way, task, kinds)
        if found is None:
            way.able = False
            return UNTOLD
        return _best(*found, kinds)

    def again_and_again(self, task: Task) -> Callable[[], int]:
        """Says the best row as `best_row` does, again and again while tasks like this one are placed, and nothing else.

        What cannot change meanwhile is looked at once.
        """
        known = self._known(task)
        if known is None:
            return lambda: UNTOLD
        key, way, kinds = known
        self._evaluator.cache.first_use(key)
        size = self._evaluator.table.size
        return lambda: self._met_again(key, way, task, kinds, size) if way.able and kinds.current() else UNTOLD

    def _known(self, task: Task) -> tuple[Hashable, _Way, RowKinds] | None:
        """Under what a class is known, how it is asked about, and the kinds of rows; None where it is `UNTOLD`."""
        evaluator = self._evaluator
        table = evaluator.table
        if not self._able or not evaluator.many_rows or table.in_flux or not evaluator.room_by_amounts(task.klass):
            return None
        key = evaluator.key_of(task)
        view = evaluator.cache.views.get(key)
        if view is not None and view.touched_at == table.touched.position:
            return None
        way = self._way(key, task)
        return (key, way, evaluator.cache.kinds_of(table)) if way.able else None

    def _met_again(self, key: Hashable, way: _Way, task: Task, kinds: RowKinds, size: int) -> int:
        """The best row of a class of which scores by kind are kept."""
        kinds.most_empty = size // 2
        scores = way.grid.scores(key, task.klass, kinds, partial(self._ask, way))
        if scores is None:
            way.able = False
            return UNTOLD
        return _best(scores + kinds.bar[: len(scores)], None, kinds)

    def _in_turn(self, key: Hashable, way: _Way, task: Task, kinds: RowKinds, coming: Iterable[Task]) -> _Found | None:
        """Scores of all kinds for a class that comes once, asked about beside those that come next.

        None where it stands alone.
        """
        evaluator, ahead, ask = self._evaluator, self._ahead, partial(self._ask, way)
        if key not in ahead:
            if not ahead.pays():
                return None
            classes = {key: task.klass}
            for other in islice(coming, AT_ONCE - 1):
                its = evaluator.key_of(other)
                if evaluator.cache.is_new(its) and self._way(its, other) is way:
                    classes[its] = other.klass
            if len(classes) == 1 or not ahead.begin(classes, kinds, ask):
                return None
        scores = ahead.scores(key, kinds, ask)
        return None if scores is None else (scores + kinds.bar[: len(scores)], None)

    def _met_once(self, way: _Way, task: Task, kinds: RowKinds) -> _Found | None:
        """Scores of the kinds that have room for a class, and which these are; None where somebody cannot tell.

        Where all kinds have room, they are not listed.
        """
        klass, amounts = task.klass, kinds.amounts
        if max(klass.fit_dims, default=0) >= amounts.width:
            return None
        lines, wanted = asked_lines(klass)
        room = np.logical_and.reduce(amounts.idle[lines, : len(kinds)] >= wanted, axis=0)
        index = None if np.logical_and.reduce(room) else room.nonzero()[0]
        if index is not None and not len(index):
            return np.zeros(0), index
        scores = self._ask(way, ClassAmounts(klass), NodeRows(amounts, index), fits=True)
        if scores is None:
            return None
        bar = kinds.bar[: len(kinds)] if index is None else kinds.bar.take(index)
        return scores[0] + bar, index

    def _way(self, key: Hashable, task: Task) -> _Way:
        evaluator = self._evaluator
        at = evaluator.table.changed.position
        if at != self._at:
            self._ways.clear()
            self._way_of.clear()
            self._at = at
        way = self._way_of.get(key)
        if way is None:
            guard = evaluator.guard
            applies = tuple([guard.applies(c, task) for c in self._conditional])
            static = tuple([guard.static_key(c, task) for c in self._static])
            resources = tuple([d for d, v in task.klass.items if v])
            token = (applies, static, resources)
            way = self._ways.get(token)
            if way is None:
                way = self._ways[token] = self._new_way(token, task)
            if len(self._way_of) >= _MOST:
                self._way_of.clear()
            self._way_of[key] = way
        return way

    def _new_way(self, token: Hashable, task: Task) -> _Way:
        evaluator = self._evaluator
        view = ClassView()
        evaluator.split(view, task)
        filters = [f for group in view.groups for f in group.node]
        if len(evaluator.cache.grids) >= _MOST_WAYS:
            evaluator.cache.grids.clear()
            self._ways.clear()
            self._way_of.clear()
        grid = evaluator.cache.grids.setdefault(token, KindGrid())
        way = _Way(filters, view.node_scorers, grid, False)
        alike = not (view.session_filters or view.session_scorers or view.static_scorers)
        follow: list[Filter | Scorer] = [*filters, *view.node_scorers]
        by_amounts = view.by_amounts and all(_answers_by_amounts(c) for c in follow)
        static: list[Filter | Scorer] = [c for group in view.groups for c in group.static]
        static += view.normalized
        keyed = all(c.static_key is not None and c.scope is Scope.STATIC for c in static)
        way.able = alike and by_amounts and keyed and evaluator.indifferent(view, task)
        return way

    def _ask(self, way: _Way, classes: ClassAmounts, rows: NodeRows, fits: bool = False) -> Floats | None:
        """Scores by class and row, minus infinity where the class does not fit; None where somebody cannot tell.

        *fits*: there is room for every class on every row.
        """
        evaluator, guard = self._evaluator, self._evaluator.guard
        ok: Bools | None = None
        if not fits:
            if max(classes.first.fit_dims, default=0) >= rows.table.width:
                return None
            idle = rows.matrix(rows.table.idle, asked_lines(classes.first)[0])
            parts = classes.wanted_parts(len(rows))
            if len(parts) == 1:
                ok = np.logical_and.reduce(idle[:, None] >= parts[0], axis=0)
            else:
                ok = reduce(np.logical_and, [free >= part[0] for free, part in zip(idle, parts, strict=True)])
        for f in way.filters:
            code = guard.objections_of_classes(f, classes, rows)
            if code is None:
                return None
            if np.count_nonzero(code):
                ok = code == 0 if ok is None else ok & (code == 0)
        total: Floats | None = None
        for s in way.scorers:
            own = guard.scores_of_classes(s, classes, rows)
            if own is None:
                return None
            total = own if total is None else s.merge(total, own)
        if total is None:
            total = np.zeros((len(classes), len(rows)))
        elif not math.isfinite(np.add.reduce(total, axis=None)):
            return None
        elif evaluator.unscored:
            total = way.scorers[0].merge(evaluator.unscored, total)
        return total if ok is None or np.logical_and.reduce(ok, axis=None) else np.where(ok, total, _NEG_INF)


def _best(scores: Floats, index: Index | None, kinds: RowKinds) -> int:
    """The row of the best kind; *index*: of which kinds the scores are, None for all."""
    best = scores.item(scores.argmax()) if len(scores) else _NEG_INF
    if best == _NEG_INF:
        return NO_ROOM
    of_best = (scores == best).nonzero()[0]
    return kinds.first_row(of_best if index is None else index.take(of_best))


def _answers_by_amounts(c: Filter | Scorer) -> bool:
    """Does it say what it answers about many classes, or answer the same as long as no node changes?"""
    if c.scope is Scope.NODE:
        return c.across is not None and c.key is same_class
    return c.scope is Scope.STATIC
