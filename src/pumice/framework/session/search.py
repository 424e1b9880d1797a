"""The search for nodes: the engine of a session, made of the points about nodes when it is first needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pumice.engine.choose import Chooser
from pumice.engine.evaluate import Evaluator
from pumice.engine.rows import NodeRows
from pumice.engine.views import Filter, Floats, Scorer
from pumice.errors import shown
from pumice.framework.points import table as t
from pumice.framework.points.guard import PluginRows, filter_of, scorer_of
from pumice.model.node import Node
from pumice.model.reason import Reason, reason_of
from pumice.model.task import Task

if TYPE_CHECKING:
    from pumice.framework.session.session import Session

ASKED_BY_ROWS = (t.PREDICATE, t.BATCH_PREDICATE, t.NODE_ORDER, t.BATCH_NODE_ORDER)
ASKS = (
    *(t.PREDICATE, t.BATCH_PREDICATE, t.NODE_ORDER, t.BATCH_NODE_ORDER, t.NODE_MAP, t.NODE_REDUCE, t.NODE_PRE_ORDER),
    *(t.BEST_NODE, t.GPU_ORDER),
)

SEARCHED: Final = frozenset(point.at for point in ASKS)
"""The points of which the engine of a session is made."""


class Search:
    """Filters, scores and the choice of a node, for one session."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._evaluator: Evaluator | None = None
        self._chooser: Chooser | None = None
        self.by_rows = True
        """Whether filters and scores are about rows of the node table. Not where nodes are looked for in another
        view."""

    def forget(self) -> None:
        """A new registration, or the end of the session: make it anew."""
        if self._chooser is not None:
            self._chooser.why_not.forget()
        self._evaluator = self._chooser = None

    @property
    def made(self) -> Chooser | None:
        """The chooser of nodes, if it was needed so far; between two sessions too."""
        return self._chooser

    @property
    def evaluator(self) -> Evaluator:
        """Answers about many nodes at once."""
        self._ssn.may_ask(*ASKED_BY_ROWS)
        if self._evaluator is None:
            self._evaluator = self._make_evaluator()
        return self._evaluator

    def filters(self) -> list[Filter]:
        """The plugins that may reject nodes, in the order of being asked."""
        ssn = self._ssn
        asked = [(p, c) for p in (t.PREDICATE, t.BATCH_PREDICATE) for c in ssn.callbacks(p)]
        position = {plugin: n for n, plugin in enumerate(self._plugins([c.plugin for _, c in asked]))}
        asked.sort(key=lambda pair: position[pair[1].plugin])
        return [filter_of(p, c, position[c.plugin]) for p, c in asked]

    def scorers(self) -> list[Scorer]:
        """Who scores nodes."""
        ssn = self._ssn
        return [scorer_of(p, c) for p in (t.NODE_ORDER, t.BATCH_NODE_ORDER) for c in ssn.callbacks(p)]

    def _make_evaluator(self) -> Evaluator:
        ssn, filters, scorers = self._ssn, self.filters(), self.scorers()
        kept: list[object] = [(f.plugin, f.batch, f.scope) for f in filters]
        kept += [(s.plugin, s.batch, s.scope) for s in scorers]
        cache = ssn.runtime.cache
        cache.use((ssn.signature, tuple(kept)))
        return Evaluator(
            ssn.state.table,
            filters,
            scorers,
            cache,
            PluginRows(ssn.failures),
            unopposed=t.PREDICATE.nobody or t.BATCH_PREDICATE.nobody,
            unscored=t.NODE_ORDER.nobody + t.BATCH_NODE_ORDER.nobody,
            first_shortage=ssn.compat.first_shortage,
        )

    def _plugins(self, asked: Sequence[str]) -> list[str]:
        """Plugins in the order in which they are asked."""
        order = self._ssn.plugin_order()
        return list(dict.fromkeys([*(n for n in order if n in asked), *(sorted(asked) if order else asked)]))

    @property
    def chooser(self) -> Chooser:
        """Chooses nodes."""
        if self._chooser is None:
            ssn = self._ssn
            if ssn.runtime.random_ties:
                ssn.wake_at(0.0)
            self._chooser = Chooser(
                self.evaluator,
                best_node=self.best_node if ssn.anybody(t.BEST_NODE) else None,
                reduce=self.map_reduce if ssn.anybody(t.NODE_MAP) else None,
                rng=ssn.runtime.rng(),
                score_single=not ssn.compat.unscored_single_candidate,
                pre_order=ssn.node_pre_order if ssn.anybody(t.NODE_PRE_ORDER) else None,
            )
        return self._chooser

    def objection(self, task: Task, node: Node) -> Reason | None:
        """Why the task does not fit the node (resources aside), or None."""
        rows = NodeRows(self._ssn.state.table, np.array([node.row], dtype=np.intp))
        code = int(self.evaluator.first_objection(task, rows)[0])
        return reason_of(code) if code else None

    def best_node(self, task: Task, scores: dict[str, float]) -> Node | None:
        """The node that a plugin takes from a score table; who takes another fails, and the next is asked."""
        ssn = self._ssn
        chosen = ssn.ask(t.BEST_NODE, task, dict(scores))
        if chosen is None or _name(chosen) in scores:
            return None if chosen is None else ssn.state.table.by_name.get(_name(chosen))
        for c in ssn.callbacks(t.BEST_NODE):
            said = ssn.guarded(t.BEST_NODE, c)(task, dict(scores))
            if not isinstance(said, (Node, str)):
                continue
            if _name(said) in scores:
                return ssn.state.table.by_name.get(_name(said))
            wrong = ValueError(f"a choice is one of the {len(scores)} candidates, got {shown(_name(said))}")
            ssn.failures.contain(c.plugin, t.BEST_NODE.name, wrong, task, fn=c.fn)
        return None

    def map_reduce(self, task: Task, rows: NodeRows, _: Floats | None = None) -> Floats:
        """Scores in two steps: whole numbers per node, edited by the same plugin, then put together."""
        ssn, merge = self._ssn, t.NODE_MAP.rule.merge
        total: Any = np.full(len(rows), t.NODE_MAP.nobody)
        reducers = {c.plugin: ssn.guarded(t.NODE_REDUCE, c) for c in ssn.callbacks(t.NODE_REDUCE)}
        for c in ssn.callbacks(t.NODE_MAP):
            mapped = ssn.guarded(t.NODE_MAP, c)
            scores = {n.name: _whole(mapped(task, n)) for n in rows.nodes}
            reduce = reducers.get(c.plugin)
            if reduce is not None:
                given = dict(scores)
                edited = reduce(task, given)
                scores = _finite(given) if edited is None else edited
            total = merge(total, np.array([scores.get(name, 0.0) for name in rows.names]))
        return np.asarray(total, dtype=np.float64)

    def pick_devices(self, task: Task, node: Node) -> tuple[int, ...]:
        """The devices that a task would get on a node, best `gpu_order` first, ties by index."""
        ssn = self._ssn
        if not ssn.anybody(t.GPU_ORDER):
            return ()

        def order(devices: Sequence[int]) -> list[int]:
            scored = [(ssn.gpu_order(task, node, str(d)), d) for d in devices]
            return [d for _, d in sorted((-s, d) for s, d in scored if s is not None)]

        return tuple(ssn.state.devices.pick(task, node, order))


def _whole(score: float | None) -> float:
    return float("-inf") if score is None else float(int(score // 1))


def _finite(scores: dict[str, Any]) -> dict[str, float]:
    """The scores as edited by a plugin; a value that is no number counts as 0."""
    return {n: float(s) if isinstance(s, (int, float)) and np.isfinite(s) else 0.0 for n, s in scores.items()}


def _name(chosen: Node | str) -> str:
    return chosen if isinstance(chosen, str) else chosen.name
