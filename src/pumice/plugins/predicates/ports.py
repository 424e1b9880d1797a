"""Host ports: two pods on one node cannot have the same one."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.model.reason import reason_id
from pumice.model.task import Task, TaskClass
from pumice.state.table import NodeTable

Reasons = npt.NDArray[np.int32]
Port: TypeAlias = tuple[int, str, str]
"""(number, protocol, address)"""

TAKEN: Final = reason_id("predicates", "node(s) didn't have free ports for the requested pod ports")
ANY: Final = "0.0.0.0"


def ports_of(klass: TaskClass) -> frozenset[Port]:
    """The host ports of a class, of containers and sidecars, read once."""
    known: frozenset[Port] | None = klass.memo.get("predicates.ports")
    if known is None:
        spec = klass.spec
        sidecars = [c for c in spec.init_containers or () if c.restart_policy == "Always"]
        known = klass.memo["predicates.ports"] = frozenset(
            (p.host_port, p.protocol or "TCP", p.host_ip or ANY)
            for c in (*(spec.containers or ()), *sidecars)
            for p in c.ports or ()
            if p.host_port > 0
        )
    return known


def has_ports(task: Task) -> bool:
    """Report whether the task wants host ports."""
    return bool(ports_of(task.klass))


def clash(left: frozenset[Port], right: frozenset[Port]) -> bool:
    """Report whether two sets of ports exclude each other. An address of all zeros stands for every address."""
    return any(a[0] == b[0] and a[1] == b[1] and (a[2] == b[2] or ANY in (a[2], b[2])) for a in left for b in right)


class HostPorts:
    """The ports in use on each row, followed by the log of touched rows."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._position = -1
        self._rows: dict[int, frozenset[Port]] = {}

    @classmethod
    def kept(cls, store: dict[str, Any], table: NodeTable) -> HostPorts:
        """The one of a table that *store* keeps, made when first asked for."""
        found = store.get("host ports")
        if not isinstance(found, cls) or found.table is not table:
            found = store["host ports"] = cls(table)
        return found

    def _sync(self) -> None:
        touched = self.table.touched
        if touched.position == self._position:
            return
        rows = touched.since(self._position) if self._position >= 0 else None
        self._position = touched.position
        for row in range(self.table.size) if rows is None else rows:
            node = self.table.nodes[row]
            tasks = node.tasks.values() if node is not None else ()
            used = frozenset(p for t in tasks if not t.evicted for p in ports_of(t.klass))
            if used:
                self._rows[row] = used
            else:
                self._rows.pop(row, None)

    def filter(self, task: Task, rows: NodeRows) -> Reasons | None:
        """No task on the node holds a port that the task wants."""
        wanted = ports_of(task.klass)
        if not wanted:
            return None
        self._sync()
        out = np.zeros(self.table.size, dtype=np.int32)
        if len(rows) < len(self._rows):
            busy = [r for r in rows.index.tolist() if r in self._rows and clash(wanted, self._rows[r])]
        else:
            busy = [r for r, used in self._rows.items() if clash(wanted, used)]
        out[busy] = TAKEN
        taken = np.asarray(rows._take(out), dtype=np.int32)
        if rows.extra is not None:
            return np.where(rows.extra > 0, TAKEN, taken).astype(np.int32)
        return taken
