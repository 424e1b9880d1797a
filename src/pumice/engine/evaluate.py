"""Masks and scores per task class, evaluated again only for the rows that changed.

A `ClassView` holds, for one class of tasks, per node: the first objection (a reason number, 0 for none) of filters of
scope STATIC and NODE, and the sum of such scores. `Evaluator.view` brings it up to date: static parts for rows with a
changed node object, the rest for rows with changed ledgers. Filters and scores of scope SESSION, and scores that
normalise over the candidates, are asked when a choice is made (`choose.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from itertools import count
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import ImaginedNode, ImaginedNodes, NodeRows, asked_lines, fit_count
from pumice.engine.scope import Scope
from pumice.engine.views import (
    SEVERITY,
    Answer,
    Bools,
    ClassView,
    Filter,
    Floats,
    Group,
    Index,
    Reasons,
    RowGuard,
    Scorer,
    ViewCache,
    same_class,
)
from pumice.model.node import Node
from pumice.model.reason import Code, reason_id
from pumice.model.task import Task, TaskClass
from pumice.state.table import NodeTable

GONE: Final = reason_id("", "node is gone", Code.UNRESOLVABLE)
_NEG_INF: Final = float("-inf")
_NUMBERS: Final = count()
_FEW: Final = 4
"""The largest number of rows for which it is looked up whether others held the same before."""
ScalarsAhead: TypeAlias = Callable[[int, int, float], float]
"""(row, more tasks of the class, its score without theirs) -> its score; minus infinity where one objects."""


class Evaluator:
    """Answers questions about all nodes: what the filters and scores of one session say, through one guard.

    Key of a view: the class, and what the callbacks' own keys say of the task. Static answers are valid until a node's
    object changes, the others until its ledgers do.
    """

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
        """*unopposed*, *unscored*: the objection and the score of every node if no callback has any.

        *first_shortage*: a node counts among the reasons for the first resource that it lacks only.
        """
        self.table, self.filters, self.scorers, self.cache = table, filters, scorers, cache
        self.guard, self.first_shortage = guard, first_shortage
        self._unopposed, self.unscored = unopposed, unscored
        self._number = next(_NUMBERS)
        self.fits_by_class = all(f.key is same_class for f in filters if f.scope is not Scope.SESSION)
        """Whether tasks of one class fit the same nodes, whatever their job. (Filters of scope SESSION aside.)"""
        asked: list[Filter | Scorer] = [*filters, *scorers]
        asked.sort(key=lambda c: c.scope is Scope.SESSION)
        extra = {c.key: c for c in reversed(asked) if c.key is not None and c.key is not same_class}
        self._extra_keys = list(reversed(extra.values()))
        self._noted_keys = [c for c in self._extra_keys if not getattr(c.key, "of_labels", False)]

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
        """The parts that follow the ledgers, for some rows or all."""
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
        """Per row: whether there is room now, and whether there will be."""
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
        """Report whether the room of a row follows from its amounts alone. Not where parts of devices are in use."""
        devices = self.table.devices
        return klass.gpu is None or devices is None or devices.follows_amounts(klass.gpu)

    # -- static answers -----------------------------------------------------------------------------------------------
    def _rows(self, index: Index | None) -> tuple[NodeRows, slice | Index]:
        if len(self.table.by_name) < self.table.size:  # some rows are free
            valid = self.table.valid[: self.table.size]
            index = np.flatnonzero(valid) if index is None else index[valid[index]]
        return NodeRows(self.table, index), (slice(None) if index is None else index)

    def _evaluate_static_all(self, view: ClassView, task: Task) -> None:
        """Static answers for all rows."""
        size = self.table.size
        view.static_code, view.static_severity, view.clear = [], [], []
        for group in view.groups:
            code = np.zeros(size, dtype=np.int32)
            severity = np.zeros(size, dtype=np.int8)
            if group.static:
                rows, where = self._rows(None)
                code[where], severity[where] = self._ask_filters(group.static, task, rows)
            view.static_code.append(code)
            view.static_severity.append(severity)
            view.clear.append(not np.count_nonzero(code))
        self._evaluate_static_scores(view, task, None)

    def _evaluate_static(self, view: ClassView, task: Task, index: Index) -> None:
        rows, at = self._rows(index)
        for g, group in enumerate(view.groups):
            if group.static:
                view.static_code[g][at], view.static_severity[g][at] = self._ask_filters(group.static, task, rows)
                view.clear[g] = not np.count_nonzero(view.static_code[g])
        self._evaluate_static_scores(view, task, index)

    def _evaluate_static_scores(self, view: ClassView, task: Task, index: Index | None) -> None:
        static = [n for n, s in enumerate(view.normalized) if s.scope is Scope.STATIC]
        if not view.static_scorers and not static:
            return
        rows, at = self._rows(index)
        if view.static_scorers:
            view.static_score[at] = self.unscored + self._ask_scorers(view.static_scorers, task, rows)
        for n in static:
            raw = view.raws[n]
            if raw is None:
                raw = view.raws[n] = np.zeros(self.table.size)
            raw[at] = self.ask_scorer(view.normalized[n], task, rows)
            valid = raw[self.table.valid[: self.table.size]]
            view.flat[n] = bool(len(valid) == 0 or (valid == valid[0]).all())

    # -- on demand ------------------------------------------------------------------------------------------------
    def future_ok(self, view: ClassView) -> Bools:
        """Per node: whether the request fits once everything that is being released is gone."""
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
        """The answers of scalar callbacks for rows with more tasks of the class; None without scalar callbacks."""
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

    # -- keys and kinds ---------------------------------------------------------------------------------------------
    def key_of(self, task: Task) -> Hashable:
        """Tasks of equal keys get equal kept answers."""
        key: Hashable = task.klass.id
        if self._extra_keys:
            key = (key, *(self.guard.key(c, task) for c in self._extra_keys))
        return key

    def alike(self, one: Task, other: Task) -> bool:
        """Report whether two tasks of a job get equal answers, as far as these are kept."""
        if one.klass is not other.klass or (one.labels is not other.labels and one.labels != other.labels):
            return False
        if one.annotations is other.annotations:
            return True
        return all(self.guard.key(c, one) == self.guard.key(c, other) for c in self._noted_keys)

    def split(self, view: ClassView, task: Task) -> None:
        """Sort this session's callbacks by how they are asked for this class."""
        groups: dict[int, Group] = {}
        session: list[Filter] = []
        for f in self.filters:
            if not self.guard.applies(f, task):
                continue
            if f.scope is Scope.SESSION:
                session.append(f)
            else:
                group = groups.setdefault(f.group, Group([], [], f.merge))
                (group.static if f.scope is Scope.STATIC else group.node).append(f)
        view.groups = [groups[g] for g in sorted(groups)]
        view.session_filters = session
        view.static_scorers, view.node_scorers, view.session_scorers, view.normalized = [], [], [], []
        for s in self.scorers:
            if not self.guard.applies(s, task):
                continue
            if s.normalize is not None:
                view.normalized.append(s)
            elif s.scope is Scope.SESSION:
                view.session_scorers.append(s)
            else:
                (view.static_scorers if s.scope is Scope.STATIC else view.node_scorers).append(s)
        view.node_scorers.sort(key=lambda s: not s.batch)
        view.scalar_scorers = [s for s in view.node_scorers if not s.batch]
        view.scalar_filters = [f for group in view.groups for f in group.node if not f.batch]
        if len(view.raws) != len(view.normalized):
            view.raws = [None] * len(view.normalized)
            view.flat = [False] * len(view.normalized)
            view.size = -1

    # -- asking ---------------------------------------------------------------------------------------------------
    def _ask_filters(self, filters: Sequence[Filter], task: Task, rows: NodeRows) -> Answer:
        code: Reasons | None = None
        severity: npt.NDArray[np.int8] | None = None
        for f in filters:
            own = self.ask_filter(f, task, rows)
            level = SEVERITY.of(own)
            if code is None or severity is None:
                code, severity = own, level
            else:
                code, severity = f.merge(code, own), np.maximum(severity, level)
        if code is None or severity is None:
            return self._nobody_objects(len(rows))
        return code, severity

    def first_objection(self, task: Task, rows: NodeRows) -> Reasons:
        """The answer of all filters together for some rows, also of filters that look at the whole session."""
        code: Reasons | None = None
        for f in self.filters:
            if self.guard.applies(f, task):
                own = self.ask_filter(f, task, rows)
                code = own if code is None else f.merge(code, own)
        return code if code is not None else np.full(len(rows), self._unopposed, dtype=np.int32)

    def ask_filter(self, f: Filter, task: Task, rows: NodeRows) -> Reasons:
        """One filter about some rows: a reason number per row, 0 where it has no objection."""
        return self.guard.objections(f, task, rows, () if f.batch else _nodes(rows, task))

    def objections(self, f: Filter, task: Task, rows: NodeRows) -> Reasons | None:
        """The same; None where it has no objection to any row."""
        return self.guard.objections_or_none(f, task, rows, () if f.batch else _nodes(rows, task))

    def _ask_scorers(self, scorers: Sequence[Scorer], task: Task, rows: NodeRows) -> Floats:
        total = self._ask(scorers[0], task, rows)
        for s in scorers[1:]:
            total = s.merge(total, self._ask(s, task, rows))
        if not math.isfinite(np.add.reduce(total)) and not np.isfinite(total).all():
            total = self.ask_scorer(scorers[0], task, rows)
            for s in scorers[1:]:
                total = s.merge(total, self.ask_scorer(s, task, rows))
        return total

    def ask_scorer(self, s: Scorer, task: Task, rows: NodeRows) -> Floats:
        """One score about some rows; what is no number is a failure, and is told.

        :raises Unfit: a batch score refuses to let the task be placed at all.
        """
        return self.guard.finite(s, task, self._ask(s, task, rows))

    def _ask(self, s: Scorer, task: Task, rows: NodeRows) -> Floats:
        return self.guard.scores(s, task, rows, () if s.batch else _nodes(rows, task))

    def _nobody_objects(self, size: int) -> Answer:
        code = np.full(size, self._unopposed, dtype=np.int32)
        return code, SEVERITY.of(code) if self._unopposed else np.zeros(size, dtype=np.int8)


def _nodes(rows: NodeRows, task: Task) -> Sequence[Node]:
    if rows.extra is None:
        return rows.nodes
    return [ImaginedNode(n, task, k) for n, k in zip(rows.nodes, rows.extra.tolist(), strict=True)]
