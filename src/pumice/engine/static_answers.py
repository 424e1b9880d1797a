"""What does not change while node objects stay as they are: answers of scope STATIC, shared between classes by their
own keys."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from pumice.engine.row_questions import RowQuestions
from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope
from pumice.engine.views import ClassView, Filter, Floats, Index, Scorer
from pumice.model.task import Task

_MOST_KEPT: Final = 64
"""Answers about all nodes that are kept to be shared."""


class StaticAnswers(RowQuestions):
    """Puts the static answers about rows into views."""

    def _rows(self, index: Index | None) -> tuple[NodeRows, slice | Index]:
        if len(self.table.by_name) < self.table.size:  # some rows are free
            valid = self.table.valid[: self.table.size]
            index = np.flatnonzero(valid) if index is None else index[valid[index]]
        return NodeRows(self.table, index), (slice(None) if index is None else index)

    def _evaluate_static_all(self, view: ClassView, task: Task) -> None:
        """Static answers for all rows; those with a key of their own are shared between classes."""
        size, at = self.table.size, self.table.changed.position
        view.static_code, view.static_severity, view.clear = [], [], []
        keys: list[Hashable] = []
        for group in view.groups:
            keyed = group.static and all(f.static_key is not None for f in group.static)
            key: Hashable = None
            if keyed:
                key = tuple((f.plugin, _name(f), self.guard.static_key(f, task)) for f in group.static)
                keys.append(key)
                known = self.cache.static.get(key)
                if known is not None and known[0] == at and len(known[1]) == size:
                    view.static_code.append(known[1])
                    view.static_severity.append(known[2])
                    view.clear.append(known[3])
                    continue
            code = np.zeros(size, dtype=np.int32)
            severity = np.zeros(size, dtype=np.int8)
            if group.static:
                rows, where = self._rows(None)
                code[where], severity[where] = self._ask_filters(group.static, task, rows)
            view.static_code.append(code)
            view.static_severity.append(severity)
            view.clear.append(not np.count_nonzero(code))
            if keyed:
                if len(self.cache.static) >= _MOST_KEPT:
                    del self.cache.static[next(iter(self.cache.static))]
                self.cache.static[key] = (at, code, severity, view.clear[-1])
        view.static_key = tuple(keys) if len(keys) == sum(bool(group.static) for group in view.groups) else None
        self._evaluate_static_scores(view, task, None)

    def _evaluate_static(self, view: ClassView, task: Task, index: Index) -> None:
        rows, at = self._rows(index)
        for g, group in enumerate(view.groups):
            if group.static:  # shared with other classes, perhaps: never changed in place
                code, severity = view.static_code[g].copy(), view.static_severity[g].copy()
                code[at], severity[at] = self._ask_filters(group.static, task, rows)
                view.static_code[g], view.static_severity[g] = code, severity
                view.clear[g] = not np.count_nonzero(code)
        self._evaluate_static_scores(view, task, index)

    def _evaluate_static_scores(self, view: ClassView, task: Task, index: Index | None) -> None:
        static = [n for n, s in enumerate(view.normalized) if s.scope is Scope.STATIC]
        if not view.static_scorers and not static:
            return
        rows, at = self._rows(index)
        if view.static_scorers:
            view.static_score[at] = self.unscored + self._ask_scorers(view.static_scorers, task, rows)
        for n in static:
            view.raws[n], view.flat[n] = self._static_raw(view, view.normalized[n], task, n, rows, at, index)

    def _static_raw(
        self, view: ClassView, s: Scorer, task: Task, n: int, rows: NodeRows, at: slice | Index, index: Index | None
    ) -> tuple[Floats, bool]:
        """Raw values of a static score for all rows, and whether they are all equal; shared where it has a key."""
        key: Hashable = None
        now, size = self.table.changed.position, self.table.size
        if s.static_key is not None:
            key = (s.plugin, _name(s), self.guard.static_key(s, task))
            known = self.cache.raws.get(key)
            if known is not None and known[0] == now and len(known[1]) == size:
                return known[1], known[2]
        old = view.raws[n] if index is not None else None
        raw = np.zeros(size) if old is None else old.copy()
        raw[at] = self.ask_scorer(s, task, rows)
        valid = raw[self.table.valid[:size]]
        flat = bool(len(valid) == 0 or (valid == valid[0]).all())
        if key is not None:
            self.cache.raws[key] = (now, raw, flat)
        return raw, flat


def _name(c: Filter | Scorer) -> str:
    """What tells the callbacks of one plugin apart, as long as their answers are kept."""
    return getattr(c.call, "__qualname__", repr(c.call))
