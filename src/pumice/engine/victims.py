"""Which nodes could ever take a task if all who may be evicted were gone: a bound, for all nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import fit_each
from pumice.model.task import Task, TaskClass
from pumice.state.table import NodeTable

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

G = TypeVar("G", bound=Hashable)
_FEW: Final = 8
"""So many rows, and answers about them, are followed one by one."""

_NOTHING: Final = np.iinfo(np.int64).min
"""What no node has at least."""


class EvictableRoom(Generic[G]):
    """Per node and group of tasks, the sum of what the group's evictable tasks hold there.

    *victims* are all of them at the beginning, with their groups; *group_of* puts a task into its group later on, or
    None where it can be nobody's victim. The sums follow the node table: rows touched since the last question are added
    up again. They never fall short of what evictions could really free.
    """

    def __init__(
        self, table: NodeTable, victims: Iterable[tuple[Task, G]], group_of: Callable[[Task], G | None]
    ) -> None:
        self._table, self._group_of = table, group_of
        self._touched_at = table.touched.position
        self._size = table.size
        self._groups: dict[G, Ints] = {}
        self._fitting: dict[tuple[int, frozenset[G]], tuple[TaskClass, Bools]] = {}
        """What was said of a class and groups; it follows the rows as the sums do."""
        self._most: dict[tuple[frozenset[G], int], int] = {}
        """Groups and resource -> the most that a node would have, as long as no row changes."""
        self._add_up(victims)

    def _add_up(self, victims: Iterable[tuple[Task, G]]) -> None:
        where: dict[G, tuple[list[int], list[int]]] = {}
        classes: dict[int, int] = {}
        items: list[tuple[tuple[int, int], ...]] = []
        last: G | None = None
        rows: list[int] = []
        numbers: list[int] = []
        for task, group in victims:
            row = task.row
            if row < 0:
                continue
            if group is not last:  # those of a job come one after the other
                last = group
                rows, numbers = where.setdefault(group, ([], []))
            klass = task.klass
            number = classes.get(klass.id)
            if number is None:
                number = classes[klass.id] = len(items)
                items.append(klass.items)
            rows.append(row)
            numbers.append(number)
        dims = sorted({d for item in items for d, _ in item})
        amounts = np.zeros((len(dims), len(items)))
        place = {d: n for n, d in enumerate(dims)}
        for number, item in enumerate(items):
            for d, v in item:
                amounts[place[d], number] = v
        for group, (rows, numbers) in where.items():
            matrix = self._matrix(group)
            who = np.array(numbers, dtype=np.intp)
            at = np.array(rows, dtype=np.intp)
            for n, d in enumerate(dims):
                matrix[d] += np.bincount(at, weights=amounts[n, who], minlength=self._size).astype(np.int64)

    def _matrix(self, group: G) -> Ints:
        matrix = self._groups.get(group)
        if matrix is None:
            matrix = self._groups[group] = np.zeros((self._table.width, self._size), dtype=np.int64)
        return matrix

    def groups(self) -> list[G]:
        """The groups that hold anything, or did."""
        self._refresh()
        return list(self._groups)

    def _refresh(self) -> None:
        table = self._table
        position = table.touched.position
        if position == self._touched_at:
            return
        rows = table.touched.since(self._touched_at)
        if rows is None:
            rows = set(range(self._size))
        self._touched_at = position
        self._most.clear()
        at = list(rows)
        for matrix in self._groups.values():
            matrix[:, at] = 0
        for row in at:
            node = table.nodes[row]
            if node is None:
                continue
            for task in node.tasks.values():
                group = self._group_of(task)
                if group is not None:
                    matrix = self._matrix(group)
                    for d, v in task.klass.items:
                        matrix[d, row] += v
        if len(at) > _FEW or len(self._fitting) > _FEW:
            self._fitting.clear()
        for key, (klass, known) in self._fitting.items():
            mask = known.copy()  # who was told before keeps what he was told
            for row in at:
                mask[row] = self._fits(klass, key[1], row)
            self._fitting[key] = klass, mask

    def beyond(self, klass: TaskClass, groups: frozenset[G]) -> bool:
        """Does it ask for more of a resource than any node would have then? Where it does, `could_fit` is no anywhere.

        What nodes have at most is found once for all classes.
        """
        self._refresh()
        for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
            most = self._most.get((groups, d))
            if most is None:
                free = self._free(d, groups, slice(self._size))[self._table.valid[: self._size]]
                most = self._most[groups, d] = int(free.max(initial=_NOTHING))
            if v > most:
                return True
        return False

    def could_fit(self, klass: TaskClass, groups: frozenset[G]) -> Bools:
        """Per node: would the request fit once everything of these groups, and all that is leaving, is gone?"""
        self._refresh()
        known = self._fitting.get((klass.id, groups))
        if known is None:
            known = self._fitting[klass.id, groups] = klass, self._fits(klass, groups, slice(self._size))
        mask: Bools = known[1]
        return mask

    def room_for(self, klass: TaskClass, groups: frozenset[G], most: int) -> Ints:
        """Per node: for how many such tasks there would be room then, up to so many."""
        self._refresh()
        at = slice(self._size)
        return fit_each(klass, lambda d: self._free(d, groups, at), np.where(self._table.valid[at], most, 0))

    def _free(self, d: int, groups: frozenset[G], at: int | slice) -> Any:
        """What one row, or all, would have of a resource."""
        table = self._table
        free = table.idle[d, at] + table.releasing[d, at] - table.pipelined[d, at]
        for group in groups:
            if group in self._groups:
                free = free + self._groups[group][d, at]
        return free

    def _fits(self, klass: TaskClass, groups: frozenset[G], at: int | slice) -> Any:
        """The same of one row, or of all."""
        fits = self._table.valid[at]
        for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
            fits = fits & (self._free(d, groups, at) >= v)
        return fits
