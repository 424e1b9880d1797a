"""Whether a job could have its places, as victims go one after the other: a bound, nobody is evicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from pumice.engine.hypernodes import TopologyDomain
from pumice.engine.rows import fit_each
from pumice.framework.session.session import Session
from pumice.model.task import Task, TaskClass

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class EnoughPlaces:
    """How many places some waiting tasks could have in a domain, once those who went are gone.

    Who is placed first finds nobody of his job there: he needs a node that does not object for good, and room on it.
    Where all are placed *together*, there is room for each kind of them on nodes to which it may go whatever is placed.
    It never says no where a plan could place them, so plans need not be tried until it says yes.
    """

    def __init__(self, ssn: Session, tasks: Iterable[Task], domain: TopologyDomain, *, together: bool) -> None:
        self._table, evaluator = ssn.state.table, ssn.search.evaluator
        self._at = {node.row: n for n, node in enumerate(domain.nodes.values())}
        self._rows = np.fromiter(self._at, dtype=np.intp, count=len(self._at))
        self._held = False
        """Is room held for one of them? That is no obstacle to him, so nothing is certain."""
        alike: dict[object, list[Task]] = {}
        for task in tasks:
            self._held = self._held or bool(task.nominated_node)
            alike.setdefault(evaluator.key_of(task), []).append(task)
        self._kinds = []
        for kind in alike.values():
            view = evaluator.view(kind[0])
            allowed = np.ones(len(self._rows), dtype=np.bool_)
            for code in view.static_code:
                allowed &= code[self._rows] == 0
            first = view.severity[self._rows] <= 1
            self._kinds.append(_Kind(kind[0].klass, len(kind) if together else 0, first, allowed))

    @property
    def enough(self) -> bool:
        """Could they have their places as things are?"""
        return self._held or (any(kind.first for kind in self._kinds) and all(kind.enough for kind in self._kinds))

    def on_empty_nodes(self) -> bool:
        """Could they if nobody else were there?"""
        self._count(self._table.allocatable[:, self._rows])
        return self.enough

    def start(self, victims: Iterable[Task]) -> bool:
        """Could they if these went, and nobody else?"""
        table, rows = self._table, self._rows
        free = table.idle[:, rows] + table.releasing[:, rows] - table.pipelined[:, rows]
        for victim in victims:
            if (at := self._at.get(victim.row)) is not None:
                for d, v in victim.klass.items:
                    free[d, at] += v
        self._count(free)
        return self.enough

    def _count(self, free: Ints) -> None:
        self._free, self._lines = free, dict[int, list[int]]()
        for kind in self._kinds:
            kind.count(free)

    def without(self, victims: Sequence[Task]) -> bool:
        """Could they now that these go, too?"""
        changed = dict[int, list[int]]()
        for victim in victims:
            if (at := self._at.get(victim.row)) is not None:
                if at not in self._lines:
                    self._lines[at] = self._free[:, at].tolist()
                changed[at] = self._lines[at]
                for d, v in victim.klass.items:
                    changed[at][d] += v
        for kind in self._kinds:
            for at, free in changed.items():
                kind.look(at, free)
        return self.enough

    def gains_by(self, victims: Iterable[Task]) -> bool:
        """Do some of these leave a node on which one of them could be?"""
        at = [self._at[victim.row] for victim in victims if victim.row in self._at]
        return any(kind.has_room(n) for kind in self._kinds for n in at)


class _Kind:
    """Equal tasks, and how many of them there is room for on each node."""

    __slots__ = ("_allowed", "_first", "_here", "_klass", "_may", "_room", "_total", "_wanted", "first")

    def __init__(self, klass: TaskClass, wanted: int, first: Bools, allowed: Bools) -> None:
        """*first*, *allowed*: where one of them may be placed before the others, and where ever."""
        self._klass, self._wanted = klass, wanted
        self._first, self._may, self._allowed = first, first.tolist(), allowed

    def count(self, free: Ints) -> None:
        """Nodes have so much room."""
        most = np.full(len(self._allowed), max(self._wanted, 1), dtype=np.int64)
        here = fit_each(self._klass, free.__getitem__, most)
        self._room: list[int] = here.tolist()
        self.first = bool((here[self._first] > 0).any())
        """Could one of them be placed before everybody else?"""
        here[~self._allowed] = 0
        self._total = int(here.sum())
        self._here: list[int] = here.tolist()

    @property
    def enough(self) -> bool:
        """Is there room for all that are wanted?"""
        return self._total >= self._wanted

    def has_room(self, at: int) -> bool:
        """Has a node room for one of them?"""
        return self._room[at] > 0

    def look(self, at: int, free: Sequence[int]) -> None:
        """A node has other room now."""
        here = max(self._wanted, 1)
        for d, v in zip(self._klass.fit_dims, self._klass.fit_values, strict=True):
            if v > 0:
                here = min(here, free[d] // v)
        self._room[at] = here
        self.first = self.first or (here > 0 and self._may[at])
        if self._allowed[at]:
            self._total += max(here, 0) - self._here[at]
            self._here[at] = max(here, 0)
