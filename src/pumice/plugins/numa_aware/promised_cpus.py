"""Which CPUs of which node are promised: to tasks of this session, and to earlier ones until their node shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pumice.errors import InvalidInput
from pumice.model.api import Numatopology
from pumice.model.node import Node
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.plugins.numa_aware.asked_cpus import admit, cpus_of
from pumice.plugins.numa_aware.cpus import CpuTopology, read_cpus, read_like, read_topology, write_cpus
from pumice.state.cluster import ClusterState

S = TaskStatus
Promise: TypeAlias = tuple[str, str, str]
"""Node, CPUs, and the CPUs that the node offered then."""
_ON_THEIR_WAY: Final = (S.BINDING, S.BOUND)


_MACHINES: Final = 4
"""So many kinds of machines are kept at hand, to read others that are alike faster."""


class CpuTopologies:
    """The topologies of the nodes, each read once for as long as its object stays."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._machines: list[tuple[Mapping[str, Any], CpuTopology]] = []
        self._read: dict[str, tuple[object, CpuTopology | None]] = {}

    @classmethod
    def kept(cls, store: dict[str, Any], state: ClusterState) -> CpuTopologies:
        """The one of a state that *store* keeps, made when first asked for."""
        found = store.get("numa topologies")
        if not isinstance(found, cls) or found._state is not state:
            found = store["numa topologies"] = cls(state)
        return found

    def names(self) -> list[str]:
        """The nodes that have one."""
        return [*self._state.kind("Numatopology")]

    def of(self, node: str) -> CpuTopology | None:
        """The topology of a node; None where there is none, or none that can be read."""
        obj = self._state.kind("Numatopology").get(node)
        if not isinstance(obj, Numatopology):
            return None
        known = self._read.get(node)
        if known is None or known[0] is not obj:
            try:
                known = (obj, self._read_anew(obj.spec))
            except InvalidInput:
                known = (obj, None)
            self._read[node] = known
        return known[1]

    def _read_anew(self, spec: Mapping[str, Any]) -> CpuTopology:
        for other, known in self._machines:
            if (found := read_like(spec, other, known)) is not None:
                return found
        made = read_topology(spec)
        self._machines = [(spec, made), *self._machines[: _MACHINES - 1]]
        return made


class CpuLedger:
    """The promises. *memory* outlives the session and is saved with a cycle."""

    def __init__(self, state: ClusterState, topologies: CpuTopologies, memory: dict[str, Any]) -> None:
        self._state, self.topologies = state, topologies
        self._promises: dict[str, Promise] = memory.setdefault("cpus", {})
        self.changed: list[int] = []
        """Rows of nodes where something was promised or given back, in order."""
        self._held: dict[str, int] = {}
        self._settle()
        for node, cpus, _ in self._promises.values():
            self._held[node] = self._held.get(node, 0) | read_cpus(cpus)
        if not memory.setdefault("begun", False):
            memory["begun"] = True
            self._adopt()

    def free(self, node: str, topology: CpuTopology) -> int:
        """The CPUs of a node that are neither used nor promised."""
        return topology.offered & ~self._held.get(node, 0)

    def promise(self, task: Task, node: Node) -> str:
        """Promise a task the CPUs that it would get on a node. The text says why that is impossible."""
        topology, asked = self.topologies.of(node.name), cpus_of(task.klass)
        if topology is None or not topology.aligns or not asked or task.uid in self._promises:
            return ""
        found = admit(topology, self.free(node.name, topology), asked)
        if not isinstance(found, int):
            return f"node {node.name}: no {found.asked} CPUs of {found.zones or 'any'} NUMA nodes for {task.key}"
        if found:
            self._promises[task.uid] = (node.name, write_cpus(found), write_cpus(topology.offered))
            self._held[node.name] = self._held.get(node.name, 0) | found
            self.changed.append(node.row)
        return ""

    def withdraw(self, task: Task) -> None:
        """Promise a task nothing any more."""
        promise = self._promises.pop(task.uid, None)
        if promise is not None:
            name, cpus, _ = promise
            self._held[name] &= ~read_cpus(cpus)
            node = self._state.nodes.get(name)
            if node is not None:
                self.changed.append(node.row)

    def _settle(self) -> None:
        """Forget promises to tasks that are not there any more, and those that the node's object shows to be kept.

        The kubelet may choose other CPUs than were foreseen. When all tasks with promised CPUs run on a node, and as
        many CPUs have gone from its offer, these tasks have them.
        """
        pending: dict[str, list[str]] = {}
        for uid, (node, cpus, _) in list(self._promises.items()):
            task, topology = self._state.tasks.get(uid), self.topologies.of(node)
            lost = task is None or task.node_name != node or task.status in (S.SUCCEEDED, S.FAILED)
            if lost or (topology is not None and not topology.offered & read_cpus(cpus)):
                del self._promises[uid]
            elif topology is not None:
                pending.setdefault(node, []).append(uid)
        for node, uids in pending.items():
            now = self.topologies.of(node)
            if now is None or not all(self._state.tasks[uid].status is S.RUNNING for uid in uids):
                continue
            promises = [self._promises[uid] for uid in uids]
            gone = read_cpus(promises[0][2]) & ~now.offered
            if gone.bit_count() >= sum(read_cpus(cpus).bit_count() for _, cpus, _ in promises):
                for uid in uids:
                    del self._promises[uid]

    def _adopt(self) -> None:
        """Tasks that are on their way when a scheduler begins get CPUs: what was promised to them is not known."""
        for name in sorted(self.topologies.names()):
            node = self._state.nodes.get(name)
            for task in sorted(node.tasks.values(), key=lambda t: t.uid) if node is not None else ():
                if task.status in _ON_THEIR_WAY and node is not None:
                    self.promise(task, node)
