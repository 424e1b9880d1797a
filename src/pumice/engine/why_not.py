"""Which classes fit nowhere, of which there is too little room for as many as are wanted, and why."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from pumice.engine.evaluate import Evaluator
from pumice.engine.fit_count import TAKEN, fit_count, shortages
from pumice.engine.fit_error import FitError
from pumice.engine.rows import NodeRows
from pumice.engine.views import Bools, ClassView, Index
from pumice.model.task import Task


class WhyNot:
    """Says why tasks cannot be placed; reasons are counted when somebody asks for them."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._first = evaluator.first_shortage
        self._hopeless: dict[Hashable, tuple[int, int, FitError]] = {}

    def error(self, task: Task, view: ClassView, within: Bools | None = None) -> FitError:
        """The reasons for which a task fits nowhere, counted over all nodes when somebody asks."""
        return FitError(count=lambda: self._count(task, view, within), first=self._first)

    def hopeless(self, task: Task) -> FitError | None:
        """Why no task of this class can be placed now, where that is certain without asking about the one task."""
        evaluator = self._evaluator
        if not evaluator.fits_by_class:
            return None
        key = evaluator.key_of(task)
        if evaluator.cache.unschedulable.contains(key, evaluator.table):
            return self._error_of(key, task)
        view = evaluator.view(task)
        now = view.masked.max(initial=-np.inf) > -np.inf
        if now or (evaluator.table.in_flux and ((view.code == 0) & evaluator.future_ok(view)).any()):
            evaluator.cache.unschedulable.discard(key)
            return None
        evaluator.cache.unschedulable.add(key, task.klass, evaluator.table, view.open_rows())
        return self._error_of(key, task)

    def known_hopeless(self, task: Task) -> FitError | None:
        """What `hopeless` says of a class that it was said of before, in this session or an earlier one."""
        evaluator = self._evaluator
        if not evaluator.fits_by_class:
            return None
        key = evaluator.key_of(task)
        return self._error_of(key, task) if evaluator.cache.unschedulable.contains(key, evaluator.table) else None

    def _error_of(self, key: Hashable, task: Task) -> FitError:
        """Why a class fits nowhere, counted when somebody asks; one for all its tasks while no row changes."""
        table = self._evaluator.table
        known = self._hopeless.get(key)
        if known is not None and known[:2] == (table.touched.position, table.changed.position):
            return known[2]
        now = table.touched.get_position
        error = FitError(count=lambda: self._count_all(task), now=now, first=self._first)
        self._hopeless[key] = (table.touched.position, table.changed.position, error)
        return error

    def short_of(self, task: Task, wanted: int) -> tuple[int, FitError] | None:
        """How many of *wanted* tasks of this class there is room for at most, and why not more; None if for all."""
        if not self._evaluator.fits_by_class or self._evaluator.table.in_flux:
            return None
        room = self._evaluator.room(task)
        if room >= wanted:
            return None
        now = self._evaluator.table.touched.get_position

        def count() -> tuple[dict[int, int], int]:
            return self._count(task, self._evaluator.view(task), None, full=True)

        return room, FitError(count=count, now=now, room=lambda: self._room_unopposed(task), first=self._first)

    def _room_unopposed(self, task: Task) -> int:
        """For how many such tasks there is room where nobody objects to the first of them."""
        view = self._evaluator.view(task)
        rows = np.flatnonzero(self._evaluator.table.valid[: view.size] & (view.code == 0))
        return fit_count(task.klass, self._evaluator.table, self._unopposed(task, view, rows)[0])

    def _unopposed(self, task: Task, view: ClassView, rows: Index) -> tuple[Index, npt.NDArray[np.int32]]:
        """The rows to which no filter that is asked anew for every task objects, and the first objection by row."""
        codes = np.zeros(len(rows), dtype=np.int32)
        left = np.arange(len(rows))
        for f in view.session_filters:
            if not len(left):
                break
            own = self._evaluator.ask_filter(f, task, NodeRows(self._evaluator.table, rows[left]))
            codes[left] = own
            left = left[own == 0]
        return rows[left], codes

    def forget(self) -> None:
        """Let go of the errors that lead back here."""
        self._hopeless = {}

    def _count_all(self, task: Task) -> tuple[dict[int, int], int]:
        """Reasons of a class that was found to fit nowhere: rows that are open by now had no room then."""
        counts, nodes = self._count(task, self._evaluator.view(task), None)
        left = nodes - sum(counts.values())
        return ({**counts, TAKEN: counts.get(TAKEN, 0) + left} if left else counts), nodes

    def _count(
        self, task: Task, view: ClassView, within: Bools | None, *, full: bool = False
    ) -> tuple[dict[int, int], int]:
        evaluator, klass = self._evaluator, view.task.klass
        future_ok = evaluator.future_ok(view)
        valid = evaluator.table.valid[: view.size]
        rows = (valid if within is None else valid & within[: view.size]).nonzero()[0]
        codes = view.code.take(rows)
        short = (~future_ok.take(rows)).nonzero()[0]
        if len(short):
            codes[short] = shortages(klass, evaluator.table, rows.take(short), full=full)
        left = (codes == 0).nonzero()[0]
        if len(left) and view.session_filters:
            codes[left] = self._unopposed(task, view, rows.take(left))[1]
            left = (codes == 0).nonzero()[0]
        if len(left) and full:  # what is still open was filled by the tasks before
            codes[left] = shortages(klass, evaluator.table, rows.take(left), full=True)
        nodes = np.bincount(codes)
        nodes[:1] = 0
        numbers = nodes.nonzero()[0]
        counts = dict(zip(numbers.tolist(), nodes.take(numbers).tolist(), strict=True))
        return counts, len(rows)
