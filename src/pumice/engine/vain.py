"""Classes that fit nowhere: remembered apart from their views, in a few bytes each, by one rule of expiry.

What was found stands while no node object changed and no row that changed since has room for the class. Only those rows
are looked at. So a class that waits costs an idle cycle next to nothing, however many classes there are and whether or
not its view is still kept.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from pumice.model.task import TaskClass
from pumice.state.table import NodeTable

_FEW_ROWS: Final = 32
"""Beyond so many changed rows the class is looked at as a whole."""


class FitsNowhere:
    """Key of a class -> up to where in the logs of the node table it is known to fit nowhere."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[int, int, int]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def clear(self) -> None:
        """Know nothing."""
        self._known.clear()

    def note(self, key: Hashable, table: NodeTable) -> None:
        """The class was looked at on all nodes as they are now, and fits none."""
        self._known[key] = table.size, table.changed.position, table.touched.position

    def forget(self, key: Hashable) -> None:
        """The class was found to fit somewhere."""
        self._known.pop(key, None)

    def stands(self, key: Hashable, klass: TaskClass, table: NodeTable) -> bool:
        """Is it certain that the class still fits nowhere?"""
        known = self._known.get(key)
        if known is None:
            return False
        size, changed, touched = known
        if touched == table.touched.position and changed == table.changed.position and size == table.size:
            return True
        rows = table.touched.since(touched) if (size, changed) == (table.size, table.changed.position) else None
        if rows is None or len(rows) > _FEW_ROWS or any(_has_room(row, klass, table) for row in rows):
            del self._known[key]
            return False
        self.note(key, table)
        return True


def _has_room(row: int, klass: TaskClass, table: NodeTable) -> bool:
    """Has a row room for the class, now or once what is being released is gone? Filters aside."""
    for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
        free = table.idle.item(d, row)
        if table.in_flux:
            free += table.releasing.item(d, row) - table.pipelined.item(d, row)
        if free < v:
            return False
    return True
