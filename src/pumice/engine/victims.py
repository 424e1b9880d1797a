"""Which nodes could ever take a task if all who may be evicted were gone: a bound, for all nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from pumice.model.task import Task, TaskClass
from pumice.state.table import NodeTable

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

G = TypeVar("G", bound=Hashable)


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
        self._sums: dict[frozenset[G], Ints] = {}
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
        self._sums.clear()
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

    def could_fit(self, klass: TaskClass, groups: frozenset[G]) -> Bools:
        """Per node: would the request fit once everything of these groups, and all that is leaving, is gone?"""
        self._refresh()
        total = self._sums.get(groups)
        if total is None:
            total = self._sums[groups] = self._total(groups)
        table, size = self._table, self._size
        mask: Bools = table.valid[:size].copy()
        for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
            free = table.idle[d, :size] + table.releasing[d, :size]
            free -= table.pipelined[d, :size]
            free += total[d]
            mask &= free >= v
        return mask

    def _total(self, groups: frozenset[G]) -> Ints:
        parts = [self._groups[g] for g in groups if g in self._groups]
        if len(parts) == 1:
            return parts[0]
        total = np.zeros((self._table.width, self._size), dtype=np.int64)
        for part in parts:
            total += part
        return total
