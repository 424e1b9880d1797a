"""How many nodes object to a class of tasks, and for what: counted once, and then along the rows that change."""

from __future__ import annotations

from typing import Final

from pumice.engine.fit_count import shortage_on
from pumice.engine.views import Bools, ClassView, Reasons
from pumice.state.table import NodeTable

_FEW_ROWS: Final = 16
"""Beyond so many changed rows, counting anew is faster."""


class ObjectionCount:
    """Objections by row, and how many nodes each stands for, as of a place in the logs of the node table."""

    __slots__ = ("_changed_at", "_codes", "_touched_at", "counts", "nodes")

    def __init__(self, codes: Reasons, counts: dict[int, int], nodes: int, table: NodeTable) -> None:
        """*codes*: per row, 0 where nobody objects; *nodes*: how many there are."""
        self._codes, self.counts, self.nodes = codes, counts, nodes
        self._touched_at, self._changed_at = table.touched.position, table.changed.position

    def follow(self, view: ClassView, table: NodeTable, future_ok: Bools) -> bool:
        """Take in what changed, where *view* and *future_ok* are up to date; False when too much did."""
        if self._changed_at != table.changed.position or len(self._codes) != view.size:
            return False
        rows = table.touched.since(self._touched_at)
        if rows is None or len(rows) > _FEW_ROWS:
            return False
        self._touched_at = table.touched.position
        counts: dict[int, int] | None = None
        for row in rows:
            code = view.code.item(row) if future_ok[row] else shortage_on(view.task.klass, table, row)
            was = self._codes.item(row)
            if code != was:
                if counts is None:
                    counts = self.counts.copy()  # what was handed out stays as it is
                self._codes[row] = code
                _add(counts, was, -1)
                _add(counts, code, 1)
        if counts is not None:
            self.counts = counts
        return True


def _add(counts: dict[int, int], code: int, more: int) -> None:
    if code:
        left = counts.get(code, 0) + more
        if left:
            counts[code] = left
        else:
            del counts[code]
