"""How many nodes object to a class of tasks, and for what: counted once, and then along the rows that change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pumice.engine.fit_count import amount_short_on, shortage_on
from pumice.engine.views import Bools, ClassView, Reasons
from pumice.model.task import TaskClass
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
        rows = self._rows_since(table)
        if rows is None:
            return False
        klass = view.task.klass
        self._put(
            [(row, view.code.item(row) if future_ok[row] else shortage_on(klass, table, row)) for row in rows], table
        )
        return True

    def follow_shortages(self, klass: TaskClass, table: NodeTable) -> bool:
        """Take in what changed without a view; False, and nothing is done, where a row that did has room."""
        rows = self._rows_since(table)
        if rows is None:
            return False
        found = []
        for row in rows:
            code = amount_short_on(klass, table, row)
            if not code:
                return False
            found.append((row, code))
        self._put(found, table)
        return True

    def _rows_since(self, table: NodeTable) -> set[int] | None:
        """The rows that changed; None where these are too many, or others than there were."""
        if self._changed_at != table.changed.position or len(self._codes) != table.size:
            return None
        rows = table.touched.since(self._touched_at)
        return rows if rows is not None and len(rows) <= _FEW_ROWS else None

    def _put(self, found: Iterable[tuple[int, int]], table: NodeTable) -> None:
        self._touched_at = table.touched.position
        counts: dict[int, int] | None = None
        for row, code in found:
            was = self._codes.item(row)
            if code != was:
                if counts is None:
                    counts = self.counts.copy()  # what was handed out stays as it is
                self._codes[row] = code
                _add(counts, was, -1)
                _add(counts, code, 1)
        if counts is not None:
            self.counts = counts


def _add(counts: dict[int, int], code: int, more: int) -> None:
    if code:
        left = counts.get(code, 0) + more
        if left:
            counts[code] = left
        else:
            del counts[code]
