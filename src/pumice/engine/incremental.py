"""Placing equal tasks in a row where filters look beyond the one node, without asking them anew for each task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pumice.engine.choose import Chooser
    from pumice.engine.views import ClassView, Filter
    from pumice.model.task import Task

Bools = npt.NDArray[np.bool_]


class IncrementalFilter(Protocol):
    """What a filter of scope SESSION says while equal tasks are placed one after the other.

    *allowed* is its answer per row of the table; `place` brings it up to date as if one more such task stood there.
    """

    allowed: Bools

    def place(self, row: int) -> None:
        """One more equal task on a row."""


def plan_along(chooser: Chooser, view: ClassView, task: Task, wanted: int) -> list[int]:
    """Rows for up to *wanted* equal tasks, in order, as choosing one by one would give on idle room.

    Ends early where that needs more than filters that say how they go on: the rest is chosen one by one.
    """
    guard = chooser.evaluator.guard
    along: list[tuple[Filter, IncrementalFilter]] = []
    for f in view.session_filters:
        incremental = guard.incremental(f, task)
        if incremental is None:
            return []
        along.append((f, incremental))
    masked = view.masked.copy()
    taken: dict[int, int] = {}
    unknown: list[int] = []
    rows: list[int] = []
    while len(rows) < wanted:
        allowed: Bools | None = None
        for f, incremental in along:
            own = guard.allowed(f, incremental, task, view.size)
            if own is None:
                return []
            allowed = own if allowed is None else allowed & own
        assert allowed is not None
        for row in [r for r in unknown if allowed[r]]:
            masked[row] = _score_after(chooser, view, row, taken[row])
            unknown.remove(row)
        best = chooser.best_row(np.where(allowed, masked, -np.inf))
        if best < 0:
            break
        rows.append(best)
        taken[best] = taken.get(best, 0) + 1
        unknown.append(best)
        if not all(guard.follow(f, incremental, task, best) for f, incremental in along):
            return []
    return rows


def _score_after(chooser: Chooser, view: ClassView, row: int, more: int) -> float:
    """The score of a row that holds so many more tasks of the class; minus infinity where one more has no room."""
    table = chooser.evaluator.table
    klass = view.task.klass
    for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
        free = int(table.idle[d, row])
        if table.in_flux:
            free = min(free, free + int(table.releasing[d, row] - table.pipelined[d, row]))
        if free < (more + 1) * v:
            return float("-inf")
    fits, score = chooser.evaluator.imagine(view, np.array([row]), np.array([more], dtype=np.int64))
    return float(score[0]) if fits[0] else float("-inf")
