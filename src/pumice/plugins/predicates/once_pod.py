"""ReadWriteOncePod: a claim of that access mode is used by one pod at a time, wherever it is."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.model.reason import reason_id
from pumice.model.task import Task
from pumice.plugins.predicates import task_claims as c
from pumice.state.cluster import ClusterState

Reasons = npt.NDArray[np.int32]

IN_USE: Final = reason_id(
    "predicates", "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)


class OncePod:
    """The filter, and which of those claims are in use on each row, followed by the log of touched rows."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._read_at: tuple[int, int] = (-1, -1)
        self._touched_at = -1
        self._rows: dict[int, frozenset[str]] = {}

    def filter(self, task: Task, rows: NodeRows) -> Reasons:
        """No pod uses one of the task's claims that only one pod may use."""
        wanted = self._of(task)
        if wanted:
            self._sync()
        taken = any(not wanted.isdisjoint(used) for used in self._rows.values()) if wanted else False
        return np.full(len(rows), IN_USE if taken else 0, dtype=np.int32)

    def _of(self, task: Task) -> frozenset[str]:
        return frozenset(x.key for x in c.claims_of(self._state, task) if x.for_one_pod)

    def _sync(self) -> None:
        table = self._state.table
        read_at = (self._state.versions.get("PersistentVolumeClaim", 0), table.size)
        rows = table.touched.since(self._touched_at) if read_at == self._read_at else None
        self._read_at, self._touched_at = read_at, table.touched.position
        for row in range(table.size) if rows is None else rows:
            node = table.nodes[row]
            tasks = node.tasks.values() if node is not None else ()
            used = frozenset(key for t in tasks if not t.evicted and c.has_claims(t) for key in self._of(t))
            if used:
                self._rows[row] = used
            else:
                self._rows.pop(row, None)
