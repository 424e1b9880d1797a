"""What the engine needs of whoever stands between it and plugins: every call of theirs goes through this."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from pumice.engine.rows import NodeRows
from pumice.engine.views import Bools, Filter, Floats, Reasons, Scorer
from pumice.model.node import Node
from pumice.model.task import Task


class RowGuard(Protocol):
    """Calls callbacks about rows. Nothing here raises, but for `scores` where a score refuses the task as a whole."""

    def objections(self, f: Filter, task: Task, rows: NodeRows, nodes: Sequence[Node]) -> Reasons:
        """A reason number per row, 0 where the filter has no objection."""

    def scores(self, s: Scorer, task: Task, rows: NodeRows, nodes: Sequence[Node]) -> Floats:
        """A score per row, not looked at yet for what is no number.

        :raises Unfit: a batch score refuses to let the task be placed at all.
        """

    def objections_or_none(self, f: Filter, task: Task, rows: NodeRows, nodes: Sequence[Node]) -> Reasons | None:
        """The same; None where it has no objection to any row."""

    def objection(self, f: Filter, task: Task, node: Node) -> int:
        """What a filter that is asked about single nodes has against one: the number of a reason, or 0."""

    def score(self, s: Scorer, task: Task, node: Node) -> float:
        """What a scorer that is asked about single nodes says of one; minus infinity drops the node."""

    def finite(self, s: Scorer, task: Task, array: Floats) -> Floats:
        """The scores with what is no number taken for a failure, which is told; minus infinity drops the node."""

    def normalized(self, s: Scorer, task: Task, raw: Floats, mask: Bools) -> Floats:
        """Raw scores scaled over the candidates."""

    def applies(self, c: Filter | Scorer, task: Task) -> bool:
        """Report whether the callback has anything to say about the task: its key is not `SKIP`."""

    def key(self, c: Filter | Scorer, task: Task) -> Hashable:
        """Tasks of equal keys get equal answers."""
