"""Faults of a run: nodes that fail, drain, close, return or join, and lost pods; drawn or planned."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pumice.model.api import NodeObject
from pumice.sim.cluster import SimCluster
from pumice.sim.draws import stream

FaultKind = Literal["fail", "drain", "cordon", "return", "join", "evict"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that happens to one node, or to pods of one job."""

    time: float
    kind: FaultKind
    node: str
    """… or the job, of those that lose pods."""
    object: NodeObject | None = None
    """The node as it joins or returns."""
    pods: int = 0

    def happen(self, cluster: SimCluster) -> None:
        """Let it happen."""
        match self.kind:
            case "fail":
                cluster.fail(self.node)
            case "drain":
                cluster.drain_node(self.node)
            case "cordon":
                cluster.cordon(self.node, True)
            case "evict":
                cluster.take_pods(self.node, self.pods)
            case _ if self.node in cluster.nodes:
                cluster.log.write(cluster.timeline.now, f"node {self.node} returns")
                cluster.cordon(self.node, False)
            case _ if self.object is not None:
                cluster.join(self.object)


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault as a scenario states it."""

    time: float
    kind: FaultKind
    nodes: tuple[str, ...]
    for_s: float = math.inf
    """How long until the node is back."""
    objects: tuple[NodeObject, ...] = ()
    """Nodes that join."""
    losses: tuple[tuple[str, int], ...] = ()
    """Jobs that lose pods, with how many."""


@dataclass(frozen=True, slots=True)
class Faults:
    """All faults of a scenario."""

    planned: tuple[PlannedFault, ...] = ()
    nodes_every_s: float = 0.0
    """Mean time between failures of each node; 0: never."""
    repair_s: float = 3600.0
    pods_every_s: float = 0.0
    """Mean time between failures of each running pod; 0: never."""

    @property
    def joining(self) -> tuple[NodeObject, ...]:
        """Nodes that are not there at the start."""
        return tuple(obj for fault in self.planned for obj in fault.objects)

    def plan(self, nodes: Sequence[NodeObject], seed: int, horizon_s: float) -> Iterator[Fault]:
        """Every fault of the run. Drawn ones need a horizon, or end after a year."""
        by_name = {node.metadata.name: node for node in (*nodes, *self.joining)}
        for fault in self.planned:
            for obj in fault.objects:
                yield Fault(fault.time, "join", obj.metadata.name, obj)
            for job, pods in fault.losses:
                yield Fault(fault.time, "evict", job, pods=pods)
            for name in fault.nodes:
                yield Fault(fault.time, fault.kind, name, by_name.get(name))
                if math.isfinite(fault.for_s):
                    yield Fault(fault.time + fault.for_s, "return", name, by_name.get(name))
        if not self.nodes_every_s:
            return
        end = horizon_s if math.isfinite(horizon_s) else 365 * 86_400.0
        for node in nodes:
            name = node.metadata.name
            rng = stream(seed, "node", name)
            time = 0.0
            while True:
                time += float(math.ceil(rng.expovariate(1 / self.nodes_every_s)))
                if time >= end:
                    break
                yield Fault(time, "fail", name, node)
                time += self.repair_s
                yield Fault(time, "return", name, node)
