"""Whether anybody of a job could have a place yet, as victims go one after the other: a bound, nobody is evicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from pumice.engine.hypernodes import TopologyDomain
from pumice.framework.session.session import Session
from pumice.model.task import Task, TaskClass

Index = npt.NDArray[np.intp]


class FirstPlace:
    """Where the first of some waiting tasks could be in a domain, once those who went are gone.

    Who is placed first finds nobody of his job there: he needs a node that does not object for good, and room on it.
    It never says no where a plan could place somebody, so plans need not be tried until it says yes.
    """

    def __init__(self, ssn: Session, tasks: Iterable[Task], domain: TopologyDomain) -> None:
        table = ssn.state.table
        self._at = {node.row: n for n, node in enumerate(domain.nodes.values())}
        rows = np.fromiter(self._at, dtype=np.intp, count=len(self._at))
        self._free = table.idle[:, rows] + table.releasing[:, rows] - table.pipelined[:, rows]
        self._asking: list[tuple[TaskClass, Index]] = []
        self._known = False
        seen = set[object]()
        for task in tasks:
            self._known = self._known or bool(task.nominated_node)  # the room that is held for it is no obstacle to it
            key = ssn.search.evaluator.key_of(task)
            if key not in seen:
                seen.add(key)
                severity = ssn.search.evaluator.view(task).severity[rows]
                self._asking.append((task.klass, np.flatnonzero(severity <= 1)))

    def without(self, victims: Sequence[Task]) -> bool:
        """Could somebody be placed now that these are gone, too?"""
        for victim in victims if not self._known else ():
            if (at := self._at.get(victim.row)) is not None:
                for d, v in victim.klass.items:
                    self._free[d, at] += v
        self._known = self._known or any(self._fits(klass, rows) for klass, rows in self._asking)
        return self._known

    def _fits(self, klass: TaskClass, rows: Index) -> bool:
        fits = np.ones(len(rows), dtype=np.bool_)
        for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
            fits &= self._free[d, rows] >= v
        return bool(fits.any())
