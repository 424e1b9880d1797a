"""Asking filters and scores about rows: by which keys answers are kept, how callbacks are asked for a class, and how
their answers come together."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from pumice.engine.guard import RowGuard
from pumice.engine.imagine import ImaginedNode
from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope
from pumice.engine.views import (
    SEVERITY,
    Answer,
    ClassView,
    Filter,
    Floats,
    Group,
    Reasons,
    Scorer,
    ViewCache,
    same_class,
)
from pumice.model.node import Node
from pumice.model.task import Task
from pumice.state.table import NodeTable


class RowQuestions:
    """The filters and scores of one session, asked through one guard."""

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
    ) -> None:
        """*unopposed*, *unscored*: the objection and the score of every node where nobody has any."""
        self.table, self.filters, self.scorers, self.cache = table, filters, scorers, cache
        self.guard = guard
        self._unopposed, self.unscored = unopposed, unscored
        asked: list[Filter | Scorer] = [*filters, *scorers]
        self.fits_by_class = all(f.key is same_class for f in filters if f.scope is not Scope.SESSION)
        """Do tasks of one class fit the same nodes, whatever their job? (Filters of scope SESSION aside.)"""
        asked.sort(key=lambda c: c.scope is Scope.SESSION)
        extra = {c.key: c for c in reversed(asked) if c.key is not None and c.key is not same_class}
        self._extra_keys = list(reversed(extra.values()))
        self._noted_keys = [c for c in self._extra_keys if not getattr(c.key, "of_labels", False)]

    # -- keys and kinds ---------------------------------------------------------------------------------------------
    def key_of(self, task: Task) -> Hashable:
        """Tasks of equal keys get equal kept answers."""
        key: Hashable = task.klass.id
        if self._extra_keys:
            key = (key, *(self.guard.key(c, task) for c in self._extra_keys))
        return key

    def alike(self, one: Task, other: Task) -> bool:
        """Do two tasks of a job get equal answers, as far as these are kept?"""
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
        """What all filters together say about some rows, those that look at the whole session too."""
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
