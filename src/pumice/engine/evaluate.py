"""Masks and scores per task class, evaluated again only for the rows that changed.

A `ClassView` holds, for one class of tasks, per node: the first objection (a reason number, 0 for none) of filters of
scope STATIC and NODE, and the sum of such scores. `Evaluator.view` brings it up to date: static parts for rows whose
node object changed, the rest for rows whose ledgers changed. Filters and scores of scope SESSION, and scores that
normalise over the candidates, are asked when a choice is made (`choose.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pumice.engine.fit_count import fit_count
from pumice.engine.guard import RowGuard
from pumice.engine.imagine import ImaginedNodes
from pumice.engine.rows import NodeRows, asked_lines
from pumice.engine.scope import Scope
from pumice.engine.static_answers import StaticAnswers
from pumice.engine.views import (
    SEVERITY,
    Answer,
    Bools,
    ClassView,
    Filter,
    Floats,
    Index,
    Reasons,
    Scorer,
    ViewCache,
)
from pumice.model.reason import Code, reason_id
from pumice.model.task import Task, TaskClass
from pumice.state.table import NodeTable

GONE: Final = reason_id("", "node is gone", Code.UNRESOLVABLE)
_NEG_INF: Final = float("-inf")
_NUMBERS: Final = count()
_FEW: Final = 4
"""Of so many rows it is looked up whether others held the same before."""
ScalarsAhead: TypeAlias = Callable[[int, int, float], float]
"""(row, more tasks of the class, its score without theirs) -> its score; minus infinity where one objects."""


class Evaluator(StaticAnswers):
    """Answers questions about all nodes for one session."""

    def __init__(
        self,
        table: NodeTable,
        filters: Sequence[Filter],
        scorers: Sequence[Scorer],
        cache: ViewCache,
        guard: RowGuard,
        *,
        unopposed: int = 0,
        unscored: float = 0.0,
        first_shortage: bool = False,
    ) -> None:
        """*unopposed*, *unscored*: the objection and the score of every node where nobody has any.

        *first_shortage*: a node counts among the reasons for the first resource that it lacks only.
        """
        super().__init__(table, filters, scorers, cache, guard, unopposed=unopposed, unscored=unscored)
        self._number = next(_NUMBERS)
        self.first_shortage = first_shortage

    # -- views ----------------------------------------------------------------------------------------------------
    def view(self, task: Task) -> ClassView:
        """The view of a task's class, up to date."""
        key = self.key_of(task)
        views = self.cache.views
        view = views.get(key)
        if view is None:
            view = views[key] = ClassView()
            self.cache.trim(self.table.size)
        else:
            views.move_to_end(key)
        if view.split_by != self._number:
            self.split(view, task)
            view.split_by = self._number
        view.task = task
        self._refresh(view, task)
        return view

    def _refresh(self, view: ClassView, task: Task) -> None:
        table = self.table
        size = table.size
        touched_at, changed_at = table.touched.position, table.changed.position
        if view.size == size and view.touched_at == touched_at and view.changed_at == changed_at:
            return
        touched = table.touched.since(view.touched_at) if view.size == size else None
        changed = set[int]() if view.changed_at == changed_at else table.changed.since(view.changed_at)
        if touched is None or changed is None or len(touched) + len(changed) > size // 2:
            self._evaluate_all(view, task)
        else:
            if changed:
                view.future_at = -1  # devices are told of nodes, not of ledgers
                self._evaluate_static(view, task, np.fromiter(changed, dtype=np.intp, count=len(changed)))
            rows = touched | changed if changed else touched
            if rows:
                self._evaluate_rows(view, task, np.fromiter(rows, dtype=np.intp, count=len(rows)))
        view.touched_at, view.changed_at = touched_at, changed_at

    def room(self, task: Task) -> int:
        """How many tasks of this class there is room for now, at most."""
        return fit_count(task.klass, self.table, np.flatnonzero(self.open_rows(task)))

    def open_rows(self, task: Task) -> Bools:
        """The rows of nodes to which no filter objects whatever is placed there."""
        view = self.view(task)
        valid, found = self.table.valid[: view.size], view.open_rows()
        return valid.copy() if found is None else valid & found

    def _evaluate_all(self, view: ClassView, task: Task) -> None:
        size = self.table.size
        view.size = size
        view.static_score = np.full(size, self.unscored)
        view.raws = [None if s.scope is Scope.STATIC else np.zeros(size) for s in view.normalized]
        view.flat = [False] * len(view.normalized)
        view.future_at = -1
        self._evaluate_static_all(view, task)
        view.code = np.zeros(size, dtype=np.int32)
        view.severity = np.zeros(size, dtype=np.int8)
        view.score = np.zeros(size)
        view.masked = np.full(size, _NEG_INF)
        view.stale = np.zeros(size, dtype=np.bool_)
        view.any_stale = view.opposed = False
        view.idle_ok = np.zeros(size, dtype=np.bool_)
        self._evaluate_rows(view, task, None)

    def _evaluate_rows(self, view: ClassView, task: Task, index: Index | None) -> None:
        """What follows the ledgers, for some rows or all."""
        rows, at = self._rows(index)
        size = len(rows)
        code, severity = self._objections(view, task, rows, at)
        fits = self._fits(task, rows)
        ok = fits if code is None else (code == 0) & fits
        open_rows = np.count_nonzero(ok)
        if open_rows:
            score = self._score_rows(view, task, rows, at)
            if view.any_stale:
                view.stale[at] = False
        else:  # scored if anybody asks: what fits nowhere now may be looked at once something is released
            score = view.score[at]
            view.stale[at] = view.any_stale = True
        if size < (self.table.size if index is None else len(index)):
            gone = index if index is not None else np.arange(self.table.size)
            view.code[gone], view.severity[gone] = GONE, 2
            view.masked[gone], view.idle_ok[gone] = _NEG_INF, False
            view.opposed = True
        if code is not None or view.opposed:
            view.code[at], view.severity[at] = (0, 0) if code is None or severity is None else (code, severity)
            view.opposed = True
        view.score[at], view.idle_ok[at] = score, fits
        view.masked[at] = score if open_rows == size else np.where(ok, score, _NEG_INF)

    def _objections(self, view: ClassView, task: Task, rows: NodeRows, at: slice | Index) -> Answer | tuple[None, None]:
        """First objection and its plugin's severity by row, plugin by plugin; None where nobody objects to any row."""
        code: Reasons | None = None
        severity: npt.NDArray[np.int8] | None = None
        for g, group in enumerate(view.groups):
            own: Reasons | None = None
            level: npt.NDArray[np.int8] | None = None
            if not view.clear[g]:
                own, level = view.static_code[g][at], view.static_severity[g][at]
            for f in group.node:
                if rows.extra is not None and not f.batch:
                    continue  # about imagined tasks scalar callbacks are asked one by one
                said = self.objections(f, task, rows)
                if said is None:
                    continue
                if own is None or level is None:
                    own, level = said, SEVERITY.of(said)
                else:
                    own, level = f.merge(own, said), np.maximum(level, SEVERITY.of(said))
            if own is None or level is None:
                continue
            if code is None or severity is None:
                code, severity = own, level
            else:
                severity = np.where(code == 0, level, severity)
                code = group.merge(code, own)
        if code is None or severity is None:
            return self._nobody_objects(len(rows)) if self._unopposed and not view.groups else (None, None)
        return code, severity

    def _score_rows(self, view: ClassView, task: Task, rows: NodeRows, at: slice | Index) -> Floats:
        """The scores of rows that need no look at the other candidates."""
        score = view.static_score[at] if view.static_scorers or not view.node_scorers else None
        if view.node_scorers:
            own = self._ask_scorers(view.node_scorers, task, rows)
            score = view.node_scorers[0].merge(self.unscored if score is None else score, own)
        for n, scorer in enumerate(view.normalized):
            raw = view.raws[n]
            if scorer.scope is Scope.NODE and raw is not None:
                raw[at] = self.ask_scorer(scorer, task, rows)
        assert score is not None
        return score

    def scores(self, view: ClassView, task: Task, index: Index) -> Floats:
        """The kept part of the scores of some rows; those that were put off are worked out now."""
        if view.any_stale:
            late = index[view.stale[index]]
            if len(late):
                view.score[late] = self._score_rows(view, task, NodeRows(self.table, late), late)
                view.stale[late] = False
        return view.score[index]

    def _fits(self, task: Task, rows: NodeRows) -> Bools:
        """Per row: is there room now, and will there be?"""
        klass, table = task.klass, self.table
        if not klass.fit_dims:
            fits = np.ones(len(rows), dtype=np.bool_)
        elif rows.extra is None and max(klass.fit_dims) < table.width:
            lines, wanted = asked_lines(klass)
            free = rows._matrix("idle", lines)
            enough = free >= wanted
            if table.in_flux:
                enough &= free + rows._matrix("releasing", lines) - rows._matrix("pipelined", lines) >= wanted
            fits = np.logical_and.reduce(enough, axis=0)
        else:
            fits = np.ones(len(rows), dtype=np.bool_)
            for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
                fits &= rows.idle[d] >= v
                if table.in_flux:
                    fits &= rows.future_idle(d) >= v
        if klass.gpu is not None and table.devices is not None and not self.room_by_amounts(klass):
            fits = fits & table.devices.fits(rows.index, klass.gpu, rows.extra)
        return fits

    def room_by_amounts(self, klass: TaskClass) -> bool:
        """Does it follow from a row's amounts alone whether there is room? Not where parts of devices are in use."""
        devices = self.table.devices
        return klass.gpu is None or devices is None or devices.follows_amounts(klass.gpu)

    # -- on demand ------------------------------------------------------------------------------------------------
    def future_ok(self, view: ClassView) -> Bools:
        """Per node: would the request fit once everything that is being released is gone?"""
        table = self.table
        if not table.in_flux:
            return view.idle_ok
        if view.future_at == view.touched_at:
            return view.future_ok
        klass, devices = view.task.klass, table.devices
        rows = table.touched.since(view.future_at) if view.future_at >= 0 else None
        if rows is not None and len(rows) <= _FEW:
            view.future_ok = view.future_ok.copy()
            for row in rows:
                roomy = all(table.free_soon(d, row) >= v for d, v in zip(klass.fit_dims, klass.fit_values, strict=True))
                if klass.gpu is not None and devices is not None:
                    roomy = roomy and devices.fits_on(row, klass.gpu, future=True)
                view.future_ok[row] = roomy
        else:
            fits: Bools | None = None
            for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
                free = table.idle[d, : view.size] + table.releasing[d, : view.size] - table.pipelined[d, : view.size]
                fits = free >= v if fits is None else fits & (free >= v)
            view.future_ok = np.ones(view.size, dtype=np.bool_) if fits is None else fits
            if klass.gpu is not None and devices is not None:
                view.future_ok = view.future_ok & devices.fits(np.arange(view.size), klass.gpu, future=True)
        view.future_at = view.touched_at
        return view.future_ok

    def imagine(self, view: ClassView, index: Index, extra: npt.NDArray[np.int64]) -> tuple[Bools, Floats]:
        """Rows as they would be after *extra* more tasks of the class: (fits, score), scalar callbacks left out."""
        task = view.task
        rows = NodeRows(self.table, index, extra, task.klass)
        code, _ = self._objections(view, task, rows, index)
        fits = np.ones(len(index), dtype=np.bool_) if code is None else code == 0
        if task.klass.gpu is not None and self.table.devices is not None and not self.room_by_amounts(task.klass):
            fits = fits & self.table.devices.fits(index, task.klass.gpu, extra)
        score = view.static_score[index]
        batch_scorers = view.node_scorers[: len(view.node_scorers) - len(view.scalar_scorers)]
        if batch_scorers:
            score = batch_scorers[0].merge(score, self._ask_scorers(batch_scorers, task, rows))
        return fits, score

    def scalars_ahead(self, view: ClassView) -> ScalarsAhead | None:
        """What scalar callbacks say of rows with more tasks of the class on them; None where there are none."""
        if not view.scalar_filters and not view.scalar_scorers:
            return None
        task, guard = view.task, self.guard
        imagined = ImaginedNodes(self.table.nodes, task).of
        filters, scorers = view.scalar_filters, view.scalar_scorers

        def ask(row: int, extra: int, score: float) -> float:
            node = imagined(row, extra)
            for f in filters:
                if guard.objection(f, task, node):
                    return _NEG_INF
            total: float | None = None
            for s in scorers:
                own = guard.score(s, task, node)
                total = own if total is None else s.merge(total, own)
            return score if total is None else float(scorers[0].merge(score, total))

        return ask
