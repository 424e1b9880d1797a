"""Which node is best for a task: what the plugins say of all that have room, and what need not be asked again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from pumice.engine.scope import SKIP
from pumice.engine.views import Scorer
from pumice.framework.points.rows import PluginRows
from pumice.framework.session.session import Session
from pumice.kai.search.rows import WorldRows
from pumice.kai.view.ranks import NodeRank
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.world import KaiWorld, is_ours, world_of
from pumice.model.node import Node

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


_MOST: Final = np.iinfo(np.int64).max


class KaiChoice:
    """Asks filters and scores about nodes.

    The best node of a class is known without scores if all filters and scores are *steady*: they answer by class, and
    the order of nodes follows from numbers of rows (`KaiWorld.steady`, `KaiWorld.ranks`).
    """

    def __init__(self, ssn: Session) -> None:
        self._world: KaiWorld = world_of(ssn)
        self._guard = PluginRows(ssn.failures)
        self._filters, self._scorers = ssn.search.filters(), ssn.search.scorers()
        self._steady: dict[int, bool] = {}
        """Class -> are all filters steady for its tasks, and all scores that are?"""
        self._unsteady = [s for s in self._scorers if s.call not in self._world.steady]
        """Scores that are asked about every task that they apply to."""
        self._applies = [_applying(self._guard, s) for s in self._unsteady]
        self._orders: dict[int, tuple[Bools, list[NodeRank]] | None] = {}
        """Class -> the nodes to which nobody objects, and the order of nodes, the widest band first; None: the order is
        not known without scores."""
        self._masked: tuple[Bools | None, npt.NDArray[np.intp]] = (None, np.empty(0, dtype=np.intp))

    # -- choosing ---------------------------------------------------------------------------------------------------
    def _is_steady(self, task: TaskView) -> bool:
        known = self._steady.get(task.task.klass.id)
        if known is None:
            request, world = task.request, self._world
            called = [_written(f.call) for f in self._filters]
            called += [s.call for s in self._scorers if s not in self._unsteady]
            known = request.shared is None and not request.claimed
            known = known and all(fn in world.steady and world.steady[fn](task) for fn in called)
            self._steady[task.task.klass.id] = known
        return known

    def is_asked_about(self, task: TaskView) -> bool:
        """Has a score that is not steady something to say of the task?"""
        for applies in self._applies:  # noqa: SIM110 - asked for every task
            if applies(task):
                return True
        return False

    def in_order(self, task: TaskView, nodes: Bools) -> Iterator[Node]:
        """The nodes with room to which nobody objects, the best first; by name among equals."""
        ledger = self._world.nodes
        fitting = ledger.room.fits(task.request, now=False)
        first = self._first(task, nodes & fitting)
        if first is not None:
            yield first
        rows = WorldRows(ledger, self._index(nodes))
        fits = fitting[rows.index]
        if not fits.any():
            return
        for at in _best_first(self.scores(task, rows), fits):
            node = self._world.state.table.nodes[int(rows.index[at])]
            if node is not None and node is not first and not self.objects(task, node):
                yield node

    def _first(self, task: TaskView, fitting: Bools) -> Node | None:
        """The best of some nodes with room, where the order is known without scores."""
        klass = task.task.klass.id
        if klass not in self._orders:
            self._orders[klass] = self._order_of(task)
        known = self._orders[klass]
        if known is None or not fitting.size or self.is_asked_about(task):
            return None
        suited, ranks = known
        left, ledger = fitting & suited, self._world.nodes
        for rank in ranks:
            numbers = rank.of(task)
            if numbers.dtype == np.bool_:
                better: Bools = left & ~numbers.view(np.bool_)
                left = better if better[better.argmax()] else left
            else:
                among = np.where(left, numbers, _MOST)
                left = among == among[among.argmin()]
        row = int(left.argmax() if ledger.rows_by_name else ledger.order[left[ledger.order].argmax()])
        return ledger.table.nodes[row] if (fitting & suited)[row] else None

    def _order_of(self, task: TaskView) -> tuple[Bools, list[NodeRank]] | None:
        if not self._is_steady(task):
            return None
        ledger, ranks = self._world.nodes, []
        for s in self._scorers:
            if s in self._unsteady or not self._guard.applies(s, task):
                continue
            rank = self._world.ranks.get(s.call)
            if rank is None or not rank.applies(task):
                return None
            ranks.append(rank)
        everything = WorldRows(ledger, np.arange(len(ledger.there), dtype=np.intp))
        return self.objections(task, everything) == 0, sorted(ranks, key=lambda rank: -rank.band)

    def _index(self, nodes: Bools) -> npt.NDArray[np.intp]:
        """The rows of some nodes by name, kept as long as the same nodes are asked for."""
        if self._masked[0] is not nodes:
            self._masked = (nodes, WorldRows(self._world.nodes, nodes).index)
        return self._masked[1]

    # -- asking -----------------------------------------------------------------------------------------------------
    def scores(self, task: TaskView, rows: WorldRows) -> Floats:
        """What all plugins together say of the nodes."""
        guard, asked = self._guard, task
        given = [
            (s, guard.scores(s, asked, rows, rows.nodes if not s.batch else ()))
            for s in self._scorers
            if guard.applies(s, asked)
        ]
        total: Floats = np.zeros(len(rows))
        for _, answer in given:
            total += answer
        if np.isfinite(total).all():
            return total
        total = np.zeros(len(rows))
        for s, answer in given:
            total += guard.finite(s, asked, answer)
        return total

    def objects(self, task: TaskView, node: Node) -> bool:
        """Has somebody an objection to the node (room aside)?"""
        one = WorldRows(self._world.nodes, np.array([node.row], dtype=np.intp))
        guard, asked = self._guard, task
        return any(bool(guard.objections(f, asked, one, [node])[0]) for f in self._filters if guard.applies(f, asked))

    def objections(self, task: TaskView, rows: WorldRows) -> npt.NDArray[np.int32]:
        """The first objection to each node, as a number; 0: there is none."""
        out = np.zeros(len(rows), dtype=np.int32)
        guard, asked = self._guard, task
        for f in self._filters:
            if guard.applies(f, asked):
                out = np.where(out, out, guard.objections(f, asked, rows, rows.nodes))
        return out


def _written(fn: Callable[..., object]) -> Callable[..., object]:
    """What the plugin registered, below the translation of what it is asked."""
    written: Callable[..., object] = getattr(fn, "__wrapped__", fn)
    return written if getattr(fn, "translates", False) else fn


def _applying(guard: PluginRows, scorer: Scorer) -> Callable[[TaskView], bool]:
    """Does a score apply to a task? KAI's own are asked without a guard."""
    key = scorer.key
    if key is None:
        return lambda task: True
    if is_ours(scorer.call):
        return lambda task: key(cast(Any, task)) is not SKIP
    return lambda task: guard.applies(scorer, task)


def _best_first(scores: Floats, fits: Bools) -> Iterator[int]:
    """Positions of those that fit, highest score first, in their order among equals."""
    found = np.flatnonzero(fits & np.isfinite(scores))
    if not len(found):
        return
    of_them = scores[found]
    first = int(of_them.argmax())
    yield int(found[first])
    of_them[first] = np.inf  # mostly the first is taken, so the others are put in order only when it is not
    yield from found[np.argsort(-of_them, kind="stable")][1:].tolist()
