"""numa: a task goes where the kubelet can align it to NUMA zones, and to as few of them as possible."""

from __future__ import annotations

import json
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.framework.arguments import Argument
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.kai.search.placing import WorldRows
from pumice.kai.view.tasks import ACTIVE, TaskView
from pumice.kai.view.world import KaiWorld, world_of
from pumice.kai.view.zones import NONE, RESTRICTED, SINGLE, ZonedNode, ZonePlacement, is_native, zoned, zoned_request
from pumice.model.api import NodeResourceTopology
from pumice.model.keys import NUMA_OBSERVED, NUMA_PREDICTED
from pumice.model.reason import reason_id
from pumice.model.resources import dim_count, dim_name

Reasons = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
BAND: Final = 100.0
UNALIGNED: Final = reason_id("numa", "node cannot NUMA-align the pod's resources under its Topology Manager policy")


class Numa(Plugin):
    """Foresees what the Topology Manager of the kubelets does, by the NodeResourceTopologies of the nodes."""

    name = "numa"
    persistent = True
    ignored = Argument[frozenset[str]](
        frozenset(),
        "Resources that are not looked at.",
        name="ignoreList",
        values="text with commas",
        read=lambda arguments, key, _: frozenset(filter(None, map(str.strip, arguments.str(key, "").split(",")))),
    )
    from_records = Argument(
        True,
        "What is free in a zone is what it has, less what the pods of the node hold; else as the object says.",
        name="reconstructAvailable",
    )

    def on_session_open(self, ssn: Session) -> None:
        """Read the zones, and what the tasks on the nodes have of them."""
        self._world: KaiWorld = world_of(ssn)
        self._kept: dict[str, str] = ssn.memory_of("kai/numa").setdefault("placed", {})
        self._read()
        zones = self._world.zones
        self._filtering = any(z.policy in (RESTRICTED, SINGLE) for z in zones.values())
        self._most = max((len(z.zones) for z in zones.values()), default=0)
        self._devices = frozenset(
            name for z in zones.values() if z.policy != NONE for name in z.reported if not is_native(name)
        )
        if not zones:
            self._world.steady[self._aligns] = self._world.steady[self._scores] = lambda task: True
        ssn.add_batch_predicate_fn(self.name, self._aligns)
        ssn.add_batch_node_order_fn(self.name, self._scores)

    def on_session_close(self, ssn: Session) -> None:
        """Remember what binds of this session take, until the pods say so themselves."""
        world = self._world
        self._kept.clear()
        if not world.zones:
            return
        for task in world.tasks.values():
            if task.stage in ACTIVE and NUMA_PREDICTED not in task.task.annotations:
                said = world.notes_of(task).get(NUMA_PREDICTED)
                if said is not None:
                    self._kept[task.uid] = said

    # -- what there is ----------------------------------------------------------------------------------------------
    def _read(self) -> None:
        world = self._world
        ledger = world.nodes
        offered = frozenset(
            dim_name(d) for d in range(min(dim_count(), len(ledger.allocatable))) if ledger.table.allocatable[d].any()
        )
        for node in ledger.nodes:
            told = world.state.kind("NodeResourceTopology").get(node.name)
            found = zoned(told, offered, self.ignored) if isinstance(told, NodeResourceTopology) else None
            if found is None:
                continue
            world.zones[node.row] = found
            rebuilt = self.from_records and found.policy != NONE
            if rebuilt:
                for zone in found.zones:
                    zone.available = dict(zone.allocatable)
            for task in ledger.tasks.get(node.row, {}).values():
                task.zones = self._record(task, found)
                if rebuilt and task.zones is not None and task.stage in ACTIVE:
                    found.book(task.zones, 1)

    def _record(self, task: TaskView, zones: ZonedNode) -> ZonePlacement | None:
        """The zones of a task: the observed ones, else those of its bind, else the predicted ones."""
        notes = task.task.annotations
        for text in (notes.get(NUMA_OBSERVED), self._kept.get(task.uid), notes.get(NUMA_PREDICTED)):
            if not text:
                continue
            try:
                found = zones.read(json.loads(text))
            except (ValueError, RecursionError):
                continue
            if found is not None:
                return found
        return None

    # -- what suits -------------------------------------------------------------------------------------------------
    def _aligns(self, task: TaskView, rows: WorldRows) -> Reasons:
        out = np.zeros(len(rows), dtype=np.int32)
        if self._filtering:
            asked = zoned_request(self._world.task_of(task).task.klass)
            for at, row in enumerate(rows.index.tolist()):
                zones = self._world.zones.get(row)
                if zones is not None and not zones.admits(asked):
                    out[at] = UNALIGNED
        return out

    def _scores(self, task: TaskView, rows: WorldRows) -> Floats:
        out = np.zeros(len(rows))
        asked = zoned_request(self._world.task_of(task).task.klass)
        if not self._most or (not asked.guaranteed and not self._devices & asked.names):
            return out
        for at, row in enumerate(rows.index.tolist()):
            zones = self._world.zones.get(row)
            if zones is None:
                span = self._most
            elif not zones.aligns(asked):
                span = len(zones.zones)
            else:
                found = zones.place(asked)
                if found is None:
                    continue
                span = len(found)
            out[at] = BAND / max(span, 1)
        return out
