"""The session on which served policies are opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import numpy as np

from pumice.engine.rows import NodeRows
from pumice.extender.answering.told_state import ToldState
from pumice.extender.answering.untold import NotTold, StateView
from pumice.framework.compat import Compat
from pumice.framework.points.guard import Failures
from pumice.framework.points.table import NODE_MAP
from pumice.framework.session.budgets import Budgets
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session
from pumice.model.node import Node
from pumice.model.reason import FITS, Reason, reason_of
from pumice.model.task import Task
from pumice.state.cluster import ClusterState
from pumice.state.table import NodeTable

_NONE: Final = (0, "")


def _said(reason: Reason) -> tuple[int, str]:
    return int(reason.code), reason.text or "refused"


class ServedFailures(Failures):
    """As in the scheduler, but what was not told is kept for the answer."""

    def __init__(self, session: ServedSession) -> None:
        super().__init__(session.runtime.health, session.runtime.told, session.metrics)
        self._session = session

    def contain(self, plugin: str, point: str, exc: BaseException, *about: Any, **more: Any) -> None:
        if isinstance(exc, NotTold):
            self._session.untold = exc
        else:
            super().contain(plugin, point, exc, *about, **more)


class ServedSession(Session):
    """A session without tiers on what calls have told. Reading what was not told ends in `untold`."""

    def __init__(self, told: ToldState, runtime: Runtime, compat: Compat) -> None:
        self.untold: NotTold | None = None
        self._told = told
        view = StateView(told.state, told.table, complete=told.complete, followed=told.followed)
        super().__init__(cast("ClusterState", view), runtime=runtime, compat=compat)
        if not told.complete:  # who asks knows the cluster's disruption budgets, and minds them
            self.budgets = Budgets(self.state, as_volcano=True)

    @property
    def nodes(self) -> Mapping[str, Node]:
        if not self._told.complete:
            raise NotTold("the cluster's nodes")
        return self._told.state.table.by_name

    def _make_failures(self) -> Failures:
        return ServedFailures(self)

    def objections(self, task: Task, nodes: list[Node]) -> list[tuple[int, str]]:
        """Code and text of the first objection to each node; no text for none."""
        before = self.pre_predicate(task)
        if not before:
            return [(int(before.code), before.text or "refused")] * len(nodes)
        numbers = self.search.evaluator.first_objection(task, self.rows(nodes)).tolist()
        return [_NONE if number == FITS else _said(reason_of(number)) for number in numbers]

    def all_scores(self, task: Task, nodes: list[Node]) -> dict[str, float]:
        """Scores by node, all plugins together.

        :raises Unfit: a score refuses to let the task be placed.
        """
        evaluator, rows = self.search.evaluator, self.rows(nodes)
        total = np.zeros(len(nodes))
        everybody = np.ones(len(nodes), dtype=np.bool_)
        self.node_pre_order(task, rows)
        for scorer in evaluator.scorers:
            if evaluator.guard.applies(scorer, task):
                part = evaluator.ask_scorer(scorer, task, rows)
                total = scorer.merge(total, evaluator.guard.normalized(scorer, task, part, everybody))
        if self.anybody(NODE_MAP):
            total = total + self.search.map_reduce(task, rows)
        return {node.name: score for node, score in zip(nodes, total.tolist(), strict=True)}

    def rows(self, nodes: list[Node]) -> NodeRows:
        return ServedRows(cast("NodeTable", self._told.table), nodes)


class ServedRows(NodeRows):
    """Rows of nodes that are at hand."""

    __slots__ = ("_nodes",)

    def __init__(self, table: NodeTable, nodes: list[Node]) -> None:
        super().__init__(table, np.array([node.row for node in nodes], dtype=np.intp))
        self._nodes = nodes

    @property
    def nodes(self) -> list[Node]:
        return self._nodes
