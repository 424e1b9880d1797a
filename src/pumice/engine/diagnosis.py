"""Why tasks cannot be placed: classes that fit no node, room for too few tasks, the nodes that each reason names."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.evaluate import Evaluator
from pumice.engine.rows import NodeRows, fit_count
from pumice.engine.views import Bools, ClassView, Index
from pumice.model.reason import TOGETHER, Reason, parts_of, reason_id, reason_of
from pumice.model.resources import dim_name
from pumice.model.task import Task, TaskClass
from pumice.state.table import NodeTable

ReasonCounts = Mapping[int, int] | Mapping[Reason, int]
"""How many nodes a reason, or its number, stands for."""


class FitError:
    """Why a task fits nowhere: how many nodes each reason stands for. Counted when first asked for."""

    __slots__ = ("_count", "_counted_at", "_counts", "_nodes", "_now", "_text", "_told", "at", "first", "never", "room")

    def __init__(
        self,
        counts: ReasonCounts | None = None,
        nodes: int = 0,
        text: str = "",
        count: Callable[[], tuple[ReasonCounts, int]] | None = None,
        now: Callable[[], int] | None = None,
        room: Callable[[], int] | None = None,
        first: bool = False,
    ) -> None:
        """*first*: a node counts for the first resource that it lacks only.

        *now*: where the log of touched rows stands; it is counted again when that has moved on.

        *room*: for how many equal tasks there is room when somebody asks.
        """
        self._counts: ReasonCounts = counts or {}
        self._nodes, self._text = nodes, text
        self._count, self._now, self._counted_at = count, now, -1
        self.room, self.first = room, first
        self._told: tuple[ReasonCounts, str] | None = None
        """The words that were last made, and of which counts."""
        self.at = -1
        """The position in the log of touched rows when the task did not fit."""
        self.never: Bools | None = None
        """Rows that objected for good, where that is remembered."""

    def settle(self) -> None:
        """Count now, while the state is still the one in which the task did not fit."""
        self._follow()
        self._count = None

    def _follow(self) -> None:
        if self._count is None:
            return
        if self._now is None:
            count, self._count = self._count, None
            self._counts, self._nodes = count()
        elif (now := self._now()) != self._counted_at:
            self._counts, self._nodes = self._count()
            self._counted_at = now

    @property
    def text(self) -> str:
        """The text, if it is not about nodes."""
        return self._text

    @property
    def counts(self) -> ReasonCounts:
        """Reason, or its number -> nodes."""
        self._follow()
        return self._counts

    @property
    def nodes(self) -> int:
        """How many nodes were looked at."""
        self._follow()
        return self._nodes

    def reasons(self) -> list[tuple[Reason, int]]:
        """(reason, nodes), most frequent first. A node counts for every resource that it lacks."""
        pairs: dict[Reason, int] = {}
        for code, n in self.counts.items():
            for reason in parts_of(reason_of(code), first=self.first):
                pairs[reason] = pairs.get(reason, 0) + n
        return sorted(pairs.items(), key=lambda p: (-p[1], p[0].text))

    def __str__(self) -> str:
        if self.text:
            return self.text
        counts = self.counts
        if self._told is None or self._told[0] is not counts:  # many jobs are told of the same error
            parts = [f"{n} {reason.text}" for reason, n in self.reasons()]
            if self.first:
                parts.sort()
            reasons = f": {', '.join(parts)}" if parts else ""
            told = f"0/{self.nodes if parts else 0} nodes are unavailable{reasons}."
            self._told = counts, told
        return self._told[1]


Ints = npt.NDArray[np.int64]
NO_DEVICE: Final = reason_id("resources", "Insufficient free GPU devices")
TAKEN: Final = reason_id("resources", "had no room when it was asked for")
"""The reason of a node with enough room now: the room was given back later in the cycle."""


def insufficient(short: Iterable[int]) -> int:
    """The reason number for too little of each of some resources."""
    return reason_id("resources", TOGETHER.join([f"Insufficient {dim_name(d)}" for d in short]))


def shortages(
    klass: TaskClass, table: NodeTable, index: npt.NDArray[np.intp], *, full: bool = False
) -> npt.NDArray[np.int32]:
    """For rows that do not fit even in future: the reason naming every resource that is short.

    *full*: after as many tasks of the class were put there as fit.
    """
    asked = list(zip(klass.fit_dims, klass.fit_values, strict=True))
    frees = [table.idle[d, index] for d, _ in asked]
    if table.in_flux:
        frees = [table.releasing[d, index] - table.pipelined[d, index] + frees[n] for n, (d, _) in enumerate(asked)]
    if full:
        rooms = [f // v for f, (_, v) in zip(frees, asked, strict=True) if v > 0]
        most = np.maximum(np.minimum.reduce(rooms), 0) if rooms else 0
        frees = [f - most * v for f, (_, v) in zip(frees, asked, strict=True)]
    lacks = np.array([free < v for free, (_, v) in zip(frees, asked, strict=True)])
    kinds, which = np.unique(lacks, axis=1, return_inverse=True)
    dims = [[d for (d, _), short in zip(asked, kind, strict=True) if short] for kind in kinds.T.tolist()]
    codes = [insufficient(short) if short else _nothing_short(klass) for short in dims]
    return np.array(codes, dtype=np.int32)[which.ravel()]


def _nothing_short(klass: TaskClass) -> int:
    return NO_DEVICE if klass.gpu is not None else TAKEN


class WhyNot:
    """Says why tasks cannot be placed; reasons are counted when somebody asks for them."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._first = evaluator.first_shortage
        self._hopeless: dict[Hashable, tuple[int, int, FitError]] = {}

    def error(self, task: Task, view: ClassView, within: Bools | None = None) -> FitError:
        """The reasons for which a task fits nowhere, counted over all nodes on request."""
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
        """The earlier answer of `hopeless` for a class, of this session or an earlier one."""
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
