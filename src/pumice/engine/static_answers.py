"""Answers of scope STATIC: they do not change while node objects stay as they are."""

from __future__ import annotations

import numpy as np

from pumice.engine.row_questions import RowQuestions
from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope
from pumice.engine.views import ClassView, Index
from pumice.model.task import Task


class StaticAnswers(RowQuestions):
    """Puts the static answers about rows into views."""

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
