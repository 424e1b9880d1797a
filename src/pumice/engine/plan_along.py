"""Placing equal tasks in a row where answers look beyond the one node, without asking for them anew for each task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.engine.incremental import IncrementalFilter, IncrementalScore
from pumice.engine.plan import even_scores, later
from pumice.engine.views import Bools, ClassView, Filter, Scorer
from pumice.model.task import Task

if TYPE_CHECKING:
    from pumice.engine.choose import Chooser


def plan_along(chooser: Chooser, view: ClassView, task: Task, wanted: int, within: Bools | None = None) -> list[int]:
    """Rows for up to *wanted* equal tasks, in order, as choosing one by one would give on idle room.

    Ends early where that needs more than answers that say how they go on: the rest is chosen one by one.
    """
    guard = chooser.evaluator.guard
    filters: list[tuple[Filter, IncrementalFilter]] = []
    for f in view.session_filters:
        if (incremental := guard.incremental(f, task)) is None:
            return []
        filters.append((f, incremental))
    scorers: list[tuple[Scorer, IncrementalScore]] = []
    for s in view.session_scorers:
        if (scores := guard.incremental_score(s, task)) is None:
            return []
        scorers.append((s, scores))
    even = even_scores(chooser.evaluator, view, task)
    masked = view.masked.copy()
    if within is not None:
        masked[~within[: view.size]] = -np.inf
    taken: dict[int, int] = {}
    ahead: dict[int, list[float]] = {}
    unknown: list[int] = []
    rows: list[int] = []
    while len(rows) < wanted:
        allowed: Bools | None = None
        for f, incremental in filters:
            own = guard.allowed(f, incremental, task, view.size)
            if own is None:
                return []
            allowed = own if allowed is None else allowed & own
        for row in [r for r in unknown if allowed is None or allowed[r]]:
            if row not in ahead:
                ahead[row] = later(chooser.evaluator, view, np.array([row], dtype=np.intp), wanted)[0]
            masked[row] = ahead[row][taken[row] - 1] if taken[row] <= len(ahead[row]) else -np.inf
            unknown.remove(row)
        total = masked
        for s, scores in scorers:
            part = guard.scored(s, scores, task, view.size)
            if part is None:
                return []
            total = s.merge(total, part)
        for s, constant in even:
            total = s.merge(total, constant)
        best = chooser.best_row(total if allowed is None else np.where(allowed, total, -np.inf))
        if best < 0:
            break
        rows.append(best)
        taken[best] = taken.get(best, 0) + 1
        unknown.append(best)
        followed = [guard.follow(f, incremental, task, best) for f, incremental in filters]
        followed += [guard.follow(s, scores, task, best) for s, scores in scorers]
        if not all(followed):
            return []
    return rows
