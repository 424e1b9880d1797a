"""How many volumes a node's CSI drivers can attach, and how many they have."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.model.api import CSINode, PersistentVolume
from pumice.model.reason import reason_id
from pumice.model.task import Task
from pumice.plugins.predicates import task_claims as c
from pumice.state.cluster import ClusterState

Reasons = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]

FULL: Final = reason_id("predicates", "node(s) exceed max volume count")
_KINDS: Final = ("CSINode", "PersistentVolume", "PersistentVolumeClaim", "StorageClass")
_NO_LIMIT: Final = 2**31 - 1


class Attachments:
    """The filter, and per driver the limits and counts of all nodes; a node is counted anew when its tasks change."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._counted_for: tuple[int, ...] = ()
        self._touched_at = 0
        self._limits: dict[str, Ints] = {}
        self._counts: dict[str, Ints] = {}
        self._there: dict[int, set[tuple[str, str]]] = {}
        """Row -> (driver, volume) of what is attached there."""

    def filter(self, task: Task, rows: NodeRows) -> Reasons:
        """The node's drivers can attach the task's volumes beside those that are there."""
        out = np.zeros(len(rows), dtype=np.int32)
        new = self._of(task) if self._state.kind("CSINode") else set()
        if not new:
            return out
        self._count()
        for driver in sorted({driver for driver, _ in new} & set(self._limits)):
            wanted = {v for v in new if v[0] == driver}
            limits, counts = rows._take(self._limits[driver]), rows._take(self._counts[driver])
            for at in np.flatnonzero(counts + len(wanted) > limits).tolist():
                more = wanted - self._there.get(int(rows.index[at]), set())
                if more and counts[at] + len(more) > limits[at]:
                    out[at] = FULL
        return out

    def _count(self) -> None:
        """Bring the counts up to date."""
        state, table = self._state, self._state.table
        key = (table.changed.position, table.size, *(state.versions.get(kind, 0) for kind in _KINDS))
        stale = table.touched.since(self._touched_at) if key == self._counted_for else None
        self._touched_at = table.touched.position
        if stale is None:
            self._counted_for = key
            self._read_limits()
            self._there = {}
            stale = set(range(table.size))
        for row in stale:
            node = table.nodes[row]
            tasks = node.tasks.values() if node is not None else ()
            there = {v for t in tasks if not t.evicted and c.has_claims(t) for v in self._of(t)}
            if there != self._there.get(row, set()):
                self._there[row] = there
                for driver, counts in self._counts.items():
                    counts[row] = sum(1 for v in there if v[0] == driver)

    def _read_limits(self) -> None:
        table = self._state.table
        self._limits, self._counts = {}, {}
        for name, found in self._state.kind("CSINode").items():
            node = self._state.nodes.get(name)
            if node is None or not isinstance(found, CSINode):
                continue
            for driver in found.spec.get("drivers") or ():
                most = (driver.get("allocatable") or {}).get("count")
                if most is not None:
                    if driver["name"] not in self._limits:
                        self._limits[driver["name"]] = np.full(table.size, _NO_LIMIT, dtype=np.int64)
                        self._counts[driver["name"]] = np.zeros(table.size, dtype=np.int64)
                    self._limits[driver["name"]][node.row] = most

    def _of(self, task: Task) -> set[tuple[str, str]]:
        """(driver, volume) of each CSI volume of a task; one that is still to be made goes by its claim."""
        out = set()
        volumes = self._state.kind("PersistentVolume")
        for claim in c.claims_of(self._state, task):
            volume = volumes.get(claim.volume)
            if isinstance(volume, PersistentVolume):
                csi = volume.spec.get("csi")
                if csi:
                    out.add((str(csi.get("driver", "")), str(csi.get("volumeHandle", ""))))
                continue
            storage = c.storage_class(self._state, claim)
            if storage is not None and storage.provisioner and claim.object is not None:
                out.add((storage.provisioner, claim.key))
        return out
