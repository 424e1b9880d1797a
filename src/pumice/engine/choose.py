"""The best node for a task, and the best places for many equal tasks at once."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.by_kind import ByKind
from pumice.engine.evaluate import Evaluator
from pumice.engine.fit_count import first_shortage, fit_count
from pumice.engine.incremental import plan_along
from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope
from pumice.engine.views import SEVERITY, Bools, ClassView, Floats, Index, Scorer
from pumice.model.node import Node
from pumice.model.reason import Reason, Unfit, reason_of
from pumice.model.task import Task

BestNode = Callable[[Task, dict[str, float]], Node | None]
Reduce = Callable[[Task, NodeRows, Floats], Floats]
ReasonCounts = Mapping[int, int] | Mapping[Reason, int]
"""How many nodes a reason, or its number, stands for."""
_FEW: Final = 16
"""For so many tasks as many of the best rows are looked at first, and what becomes of rows is kept."""


@dataclass(slots=True)
class NodeChoice:
    """A node for a task: room there now, or only once something is released."""

    node: Node
    idle: bool


class FitError:
    """Why a task fits nowhere: how many nodes each reason stands for. Counted when first asked for."""

    __slots__ = ("_count", "_counted_at", "_counts", "_nodes", "_now", "_told", "at", "never", "room", "text")

    def __init__(
        self,
        counts: ReasonCounts | None = None,
        nodes: int = 0,
        text: str = "",
        count: Callable[[], tuple[ReasonCounts, int]] | None = None,
        now: Callable[[], int] | None = None,
        room: Callable[[], int] | None = None,
    ) -> None:
        """*now*: where the log of touched rows stands; it is counted again when that has moved on.

        *room*: for how many equal tasks there is room when somebody asks.
        """
        self._counts: ReasonCounts = counts or {}
        self._nodes, self.text = nodes, text
        self._count, self._now, self._counted_at = count, now, -1
        self.room = room
        self._told: tuple[ReasonCounts, str] | None = None
        """The words that were last made, and of which counts."""
        self.at = -1
        """Where the log of touched rows stood when the task did not fit."""
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
        """(reason, nodes), most frequent first."""
        pairs = [(reason_of(code), n) for code, n in self.counts.items()]
        return sorted(pairs, key=lambda p: (-p[1], p[0].text))

    def __str__(self) -> str:
        if self.text:
            return self.text
        counts = self.counts
        if self._told is None or self._told[0] is not counts:  # many jobs are told of the same error
            parts = sorted(f"{n} {reason_of(code).text}" for code, n in counts.items())
            reasons = f": {', '.join(parts)}" if parts else ""
            told = f"0/{self.nodes if parts else 0} nodes are unavailable{reasons}."
            self._told = counts, told
        return self._told[1]


class Chooser:
    """Chooses nodes for tasks, with ties settled by the smallest node name or by a seeded generator."""

    def __init__(
        self,
        evaluator: Evaluator,
        *,
        best_node: BestNode | None = None,
        reduce: Reduce | None = None,
        rng: random.Random | None = None,
        score_single: bool = True,
        pre_order: Callable[[Task, NodeRows], None] | None = None,
    ) -> None:
        self.evaluator = evaluator
        self._by_kind = ByKind(evaluator)
        self._best_node, self._reduce, self._rng = best_node, reduce, rng
        self._score_single = score_single
        self._pre_order = pre_order
        self._hopeless: dict[Hashable, tuple[int, int, FitError]] = {}

    # -- filtering ------------------------------------------------------------------------------------------------
    def feasible(self, view: ClassView, task: Task, mask: Bools, severity: int = 0) -> Index:
        """Rows of *mask* that every filter of scope SESSION lets pass as well, or objects to no worse than that."""
        index = np.flatnonzero(mask)
        for f in view.session_filters:
            if not len(index):
                break
            codes = self.evaluator.ask_filter(f, task, NodeRows(self.evaluator.table, index))
            index = index[SEVERITY.of(codes) <= severity] if severity else index[codes == 0]
        return index

    def scores(self, view: ClassView, task: Task, index: Index) -> Floats:
        """The total score of candidate rows.

        :raises Unfit: a score refuses to let the task be placed.
        """
        total = self.evaluator.scores(view, task, index)
        rows: NodeRows | None = None
        evaluator = self.evaluator
        if self._pre_order is not None:
            rows = NodeRows(evaluator.table, index)
            self._pre_order(task, rows)
        if view.session_scorers:
            rows = rows or NodeRows(evaluator.table, index)
            for s in view.session_scorers:
                total = s.merge(total, evaluator.ask_scorer(s, task, rows))
        for n, s in enumerate(view.normalized):
            raw = view.raws[n]
            if s.scope is Scope.SESSION or raw is None:
                rows = rows or NodeRows(evaluator.table, index)
                part = evaluator.ask_scorer(s, task, rows)
            else:
                part = raw[index]
            scaled = evaluator.guard.normalized(s, task, part, np.ones(len(index), dtype=np.bool_))
            total = s.merge(total, scaled)
        if self._reduce is not None:
            rows = rows or NodeRows(evaluator.table, index)
            total = total + self._reduce(task, rows, total)
        return total

    # -- choosing -------------------------------------------------------------------------------------------------
    def choose(
        self, task: Task, within: Bools | None = None, soft: Bools | None = None, coming: Iterable[Task] = ()
    ) -> NodeChoice | FitError:
        """The best node: with room now, else with room that is being released.

        *within* limits the search; nodes outside *soft* are taken only when none inside will do. *coming*: who is
        asked about next, perhaps.
        """
        if within is None and soft is None:
            node = self.by_amounts(task, coming)
            if node is not None:
                return NodeChoice(node, True)
        view = self.evaluator.view(task)
        limits = [within] if soft is None else [_and(within, soft), _and(within, ~soft)]
        for future in (False, True):
            for limit in limits:
                if future:
                    mask = (view.code == 0) & self.evaluator.future_ok(view) & ~view.idle_ok
                elif not view.session_filters and not self.needs_table(view) and limit is None:
                    row = self.best_row(view.masked)
                    if row >= 0:
                        return NodeChoice(self._node(row), True)
                    continue
                else:
                    mask = view.masked > -np.inf
                if limit is not None:
                    mask = mask & limit[: view.size]
                index = self.feasible(view, task, mask)
                if not len(index):
                    continue
                try:
                    node = self._pick(view, task, index)
                except Unfit as no:
                    return FitError({Reason("score", no.text, no.code): 1}, len(index), no.text)
                if node is not None:
                    return NodeChoice(node, not future)
        return self.why(task, view, within)

    def choose_despite(self, task: Task, within: Bools | None, soft: Bools | None) -> Node | None:
        """As `choose`, objections aside that evictions may heal; None where no node will do even then."""
        view = self.evaluator.view(task)
        no_worse = view.severity <= 1
        for room in (no_worse & view.idle_ok, no_worse & self.evaluator.future_ok(view) & ~view.idle_ok):
            for limit in [within] if soft is None else [_and(within, soft), _and(within, ~soft)]:
                mask = room if limit is None else room & limit[: view.size]
                index = self.feasible(view, task, mask, severity=1)
                node = self._pick(view, task, index) if len(index) else None
                if node is not None:
                    return node
        return None

    def choose_there(self, task: Task, node: Node) -> NodeChoice | FitError:
        """The node, with room now or with room that is being released, or why it will not do."""
        view, row = self.evaluator.view(task), node.row
        if self._by_rows(view):
            if view.masked.item(row) > -np.inf:
                return NodeChoice(node, True)
            if not view.code.item(row) and self.evaluator.future_ok(view).item(row):
                return NodeChoice(node, False)
        only = np.zeros(view.size, dtype=np.bool_)
        only[row] = True
        return self.choose(task, only)

    def nowhere_idle(self, task: Task) -> bool:
        """Is it certain that no node has idle room for the task?"""
        view = self.evaluator.view(task)
        return not view.session_filters and not view.masked.max(initial=-np.inf) > -np.inf

    def _by_rows(self, view: ClassView) -> bool:
        """Does it follow from the class and a row's amounts alone whether a task may be placed there?"""
        return view.by_amounts and not view.session_filters and not self.needs_table(view)

    def by_amounts(self, task: Task, coming: Iterable[Task] = ()) -> Node | None:
        """The best node, where that follows from the amounts of nodes alone; None where not, or where none has room."""
        row = self._by_kind.best_row(task, coming) if self._plain() else -1
        return self._node(row) if row >= 0 else None

    def needs_table(self, view: ClassView) -> bool:
        """Does what a score says of a row depend on the other rows, or on more than the class?"""
        return bool(view.session_scorers or not self._plain() or self._varies(view))

    def _plain(self) -> bool:
        """Do filters and scores alone decide, and the smallest name between equals?"""
        return self._best_node is None and self._reduce is None and self._rng is None and self._pre_order is None

    @staticmethod
    def _varies(view: ClassView) -> bool:
        """Do normalised scores tell nodes apart?"""
        for n, s in enumerate(view.normalized):
            if view.flat[n]:
                continue
            raw = view.raws[n]
            if s.scope is Scope.SESSION or raw is None or (len(raw) and raw.min() != raw.max()):
                return True
        return False

    def _pick(self, view: ClassView, task: Task, index: Index) -> Node | None:
        if len(index) == 1 and not self._score_single:
            return self._node(int(index[0]))
        scores = self.scores(view, task, index)
        if self._best_node is not None:
            nodes = self.evaluator.table.nodes
            table = {n.name: float(s) for n, s in zip((nodes[i] for i in index.tolist()), scores, strict=True) if n}
            chosen = self._best_node(task, table)
            if chosen is not None:
                return chosen
        at = self._best_of(index, scores)
        return None if at < 0 else self._node(at)

    def _node(self, row: int) -> Node:
        node = self.evaluator.table.nodes[row]
        assert node is not None
        return node

    def _best_of(self, index: Index, scores: Floats) -> int:
        best = scores.max(initial=-np.inf)
        if best == -np.inf:
            return -1
        ties = index[scores == best]
        if len(ties) == 1:
            return int(ties[0])
        ranks = self.evaluator.table.ranks()[ties]
        if self._rng is not None:
            order = ties[np.argsort(ranks)]
            return int(order[self._rng.randrange(len(order))])
        return int(ties[ranks.argmin()])

    def best_row(self, masked: Floats) -> int:
        """The row of the highest score above minus infinity, -1 for none."""
        if not len(masked):
            return -1
        first = int(masked.argmax())
        best = masked[first]
        if best == -np.inf:
            return -1
        table = self.evaluator.table
        if table.rows_by_name:
            return first
        ties = np.flatnonzero(masked == best)
        return first if len(ties) == 1 else int(ties[table.ranks()[ties].argmin()])

    def why(self, task: Task, view: ClassView, within: Bools | None = None) -> FitError:
        """The reasons for which a task fits nowhere, counted over all nodes when somebody asks."""
        return FitError(count=lambda: self._count(task, view, within))

    def hopeless(self, task: Task) -> FitError | None:
        """Why no task of this class can be placed now, where that is certain without asking about the one task."""
        evaluator = self.evaluator
        if not evaluator.fits_by_class:
            return None
        key, view = evaluator.key_of(task), evaluator.view(task)
        now = view.masked.max(initial=-np.inf) > -np.inf
        if now or (evaluator.table.in_flux and ((view.code == 0) & evaluator.future_ok(view)).any()):
            evaluator.cache.nowhere.forget(key)
            return None
        evaluator.cache.nowhere.note(key, task.klass, evaluator.table)
        return self._error_of(key, task)

    def known_hopeless(self, task: Task) -> FitError | None:
        """What `hopeless` says of a class that it was said of before, in this session or an earlier one."""
        evaluator = self.evaluator
        if not evaluator.fits_by_class:
            return None
        key = evaluator.key_of(task)
        return self._error_of(key, task) if evaluator.cache.nowhere.stands(key, evaluator.table) else None

    def _error_of(self, key: Hashable, task: Task) -> FitError:
        """Why a class fits nowhere, counted when somebody asks; one for all its tasks while no row changes."""
        table = self.evaluator.table
        known = self._hopeless.get(key)
        if known is not None and known[:2] == (table.touched.position, table.changed.position):
            return known[2]
        now = table.touched.get_position
        error = FitError(count=lambda: self._count(task, self.evaluator.view(task), None), now=now)
        self._hopeless[key] = (table.touched.position, table.changed.position, error)
        return error

    def short_of(self, task: Task, wanted: int) -> tuple[int, FitError] | None:
        """How many of *wanted* tasks of this class there is room for at most, and why not more; None if for all."""
        if not self.evaluator.fits_by_class or self.evaluator.table.in_flux:
            return None
        room = self.evaluator.room(task)
        if room >= wanted:
            return None
        now = self.evaluator.table.touched.get_position

        def count() -> tuple[dict[int, int], int]:
            return self._count(task, self.evaluator.view(task), None, full=True)

        return room, FitError(count=count, now=now, room=lambda: self._room_unopposed(task))

    def _room_unopposed(self, task: Task) -> int:
        """For how many such tasks there is room where nobody objects to the first of them."""
        view = self.evaluator.view(task)
        rows = np.flatnonzero(self.evaluator.table.valid[: view.size] & (view.code == 0))
        return fit_count(task.klass, self.evaluator.table, self._unopposed(task, view, rows)[0])

    def _unopposed(self, task: Task, view: ClassView, rows: Index) -> tuple[Index, npt.NDArray[np.int32]]:
        """The rows to which no filter that is asked anew for every task objects, and the first objection by row."""
        codes = np.zeros(len(rows), dtype=np.int32)
        left = np.arange(len(rows))
        for f in view.session_filters:
            if not len(left):
                break
            own = self.evaluator.ask_filter(f, task, NodeRows(self.evaluator.table, rows[left]))
            codes[left] = own
            left = left[own == 0]
        return rows[left], codes

    def forget(self) -> None:
        """Let go of the errors that lead back here."""
        self._hopeless = {}

    def _count(
        self, task: Task, view: ClassView, within: Bools | None, *, full: bool = False
    ) -> tuple[dict[int, int], int]:
        evaluator = self.evaluator
        valid = evaluator.table.valid[: view.size]
        scope_rows = np.flatnonzero(valid if within is None else valid & within[: view.size])
        codes = view.code[scope_rows].copy()
        short = np.flatnonzero(~evaluator.future_ok(view)[scope_rows])
        codes[short] = first_shortage(view.task.klass, evaluator.table, scope_rows[short], full=full)
        open_rows = np.flatnonzero(codes == 0)
        codes[open_rows] = self._unopposed(task, view, scope_rows[open_rows])[1]
        if full:  # what is still open was filled by the tasks before
            filled = np.flatnonzero(codes == 0)
            codes[filled] = first_shortage(view.task.klass, evaluator.table, scope_rows[filled], full=True)
        nodes = np.bincount(codes)
        nodes[:1] = 0
        numbers = np.flatnonzero(nodes)
        return dict(zip(numbers.tolist(), nodes[numbers].tolist(), strict=True)), len(scope_rows)

    # -- many at once ---------------------------------------------------------------------------------------------
    def can_plan(self, view: ClassView) -> bool:
        """Can equal tasks be placed in bulk: does every answer depend on the class and the one row alone?"""
        return not view.session_filters and not self.needs_table(view)

    def plan(self, task: Task, wanted: int, within: Bools | None = None) -> Sequence[int]:
        """Rows for up to *wanted* tasks of a class, in order, as choosing one by one would give on idle room.

        *within* limits the search.
        """
        view = self.evaluator.view(task)
        if not self.can_plan(view):
            along = self._plain() and not (view.scalar_filters or view.scalar_scorers or self._varies(view))
            return plan_along(self, view, task, wanted, within) if along else []
        inside = None if within is None else np.flatnonzero(within[: view.size])
        for most in (min(_FEW, wanted), wanted):
            rows = self._plan_within(view, inside, wanted, most)
            if rows is not None:
                return rows
        return []

    def _plan_within(self, view: ClassView, inside: Index | None, wanted: int, most: int) -> list[int] | None:
        """The plan if the *most* best rows suffice to make it; None when more rows must be looked at."""
        table = self.evaluator.table
        top, outside = self._top(view.masked, most, inside)
        if not len(top):
            return []
        ranks = table.ranks()[top].tolist()
        first = view.masked[top].tolist()
        later = self.later(view, top, wanted)
        heap = [(-s, ranks[i], i, 0) for i, s in enumerate(first)]
        heapq.heapify(heap)
        rows: list[int] = []
        top_rows = top.tolist()
        scalars = bool(view.scalar_filters or view.scalar_scorers)
        while heap and len(rows) < wanted:
            cost, rank, i, used = heap[0]
            if outside is not None and outside < (cost, rank):
                return None
            rows.append(top_rows[i])
            used += 1
            if used <= len(later[i]):
                score_next = later[i][used - 1]
                if scalars and score_next > -np.inf:
                    score_next = self.evaluator.imagine_scalars(view, top_rows[i], used, score_next)
                if score_next > -np.inf:
                    heapq.heapreplace(heap, (-score_next, rank, i, used))
                    continue
            heapq.heappop(heap)
        if len(rows) < wanted and outside is not None:
            return None
        return rows

    def even_scores(self, view: ClassView, task: Task) -> list[tuple[Scorer, float]]:
        """What normalised scores that do not tell nodes apart give every candidate."""
        found = []
        index = np.flatnonzero(view.masked > -np.inf)
        for n, s in enumerate(view.normalized):
            raw = view.raws[n]
            if raw is not None and len(index):
                all_of_them = np.ones(len(index), dtype=np.bool_)
                found.append((s, self.evaluator.guard.normalized(s, task, raw[index], all_of_them).item(0)))
        return found

    def later(self, view: ClassView, top: Index, wanted: int) -> list[list[float]]:
        """Per row the scores after one more task, two more and so on, as far as there may be room for yet another.

        Minus infinity where a filter objects. For few tasks it is kept by what rows hold, where it follows from that.
        """
        known = self.evaluator.futures(view) if wanted <= _FEW else None
        if known is None:
            return self._imagined(view, top, wanted)
        keys = [(wanted, self.evaluator.table.amounts_of(row)) for row in top.tolist()]
        new = {key: at for at, key in enumerate(keys) if key not in known}
        if new:
            fresh = self._imagined(view, top[list(new.values())], wanted)
            known.update(zip(new, fresh, strict=True))
        return [known[key] for key in keys]

    def _imagined(self, view: ClassView, top: Index, wanted: int) -> list[list[float]]:
        table, klass = self.evaluator.table, view.task.klass
        room = np.full(len(top), wanted, dtype=np.int64)
        for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
            if v > 0:
                room = np.minimum(room, table.idle[d, top] // v)
                if table.in_flux:
                    future = table.idle[d, top] + table.releasing[d, top] - table.pipelined[d, top]
                    room = np.minimum(room, future // v)
        more = np.maximum(room, 1) - 1
        ends = np.cumsum(more)
        total = int(ends[-1])
        if not total:
            return [[]] * len(top)
        owner = np.repeat(np.arange(len(top)), more)
        extra = np.arange(total) - (ends - more)[owner] + 1
        fits, score = self.evaluator.imagine(view, top[owner], extra)
        later = np.where(fits, score, -np.inf).tolist()
        return [later[end - n : end] for end, n in zip(ends.tolist(), more.tolist(), strict=True)]

    def _top(self, masked: Floats, most: int, inside: Index | None = None) -> tuple[Index, tuple[float, int] | None]:
        """The *most* best rows (ties by name) and the key of the next one, if there is any; of those *inside* only."""
        table = self.evaluator.table
        ranks = table.ranks()
        if inside is not None:
            top, following = self._top_of(masked[inside], most, ranks[inside])
            return inside[top], following
        return self._top_of(masked, most, ranks)

    def _top_of(
        self, masked: Floats, most: int, ranks: npt.NDArray[np.int64]
    ) -> tuple[Index, tuple[float, int] | None]:
        table = self.evaluator.table
        if most + 1 >= len(masked):
            index = np.flatnonzero(masked > -np.inf)
            return index, None
        threshold = float(np.partition(masked, len(masked) - most - 1)[len(masked) - most - 1])
        if threshold == -np.inf:
            return np.flatnonzero(masked > -np.inf), None
        above = np.flatnonzero(masked > threshold)
        equal = np.flatnonzero(masked == threshold)
        if not table.rows_by_name:
            equal = equal[np.argsort(ranks[equal])]
        take = most - len(above)
        next_row = int(equal[take])
        return np.concatenate((above, equal[:take])), (-threshold, int(ranks[next_row]))


def _and(left: Bools | None, right: Bools) -> Bools:
    return right if left is None else left & right
