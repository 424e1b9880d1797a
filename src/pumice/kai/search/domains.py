"""Domains of a topology, and how much of some tasks fits in each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from pumice.kai.view.tasks import TaskRequest, TaskView
from pumice.kai.view.world import KaiWorld
from pumice.model.api import Topology
from pumice.model.gpu import DEVICE, WHOLE
from pumice.model.node import Node
from pumice.model.resources import CPU, MEMORY, PODS, dim_name

Index = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]
_NO_ROOM: Final = 1000.0


class Domain:
    """A part of the cluster: nodes that share the values of all labels down to a level."""

    __slots__ = ("children", "level", "members", "name", "parent", "rows")

    def __init__(self, name: str, level: int, parent: Domain | None = None) -> None:
        self.name, self.level, self.parent = name, level, parent
        self.children: list[Domain] = []
        self.members: set[int] = set()
        self.rows: Index = np.empty(0, dtype=np.intp)

    def at(self, level: int) -> Domain:
        """The domain of a level that it lies in; itself, where it is not below that level."""
        domain = self
        while domain.level > level and domain.parent is not None:
            domain = domain.parent
        return domain


class DomainTree:
    """The domains of one topology; a node without one of the labels is in none."""

    def __init__(self, obj: Topology, nodes: Iterable[Node]) -> None:
        levels = obj.spec.levels or ()
        self.labels = [level.node_label for level in levels]
        self._aliases = {level.alias: level.node_label for level in levels if level.alias}
        self.root = Domain("", 0)
        self.leaf_of: dict[int, Domain] = {}
        """Row -> the lowest domain that the node is in."""
        known: dict[str, Domain] = {}
        for node in nodes:
            values = [node.labels.get(label) for label in self.labels]
            if any(v is None for v in values):
                continue
            domain = self.root
            domain.members.add(node.row)
            for depth in range(1, len(values) + 1):
                name = ".".join(cast(list[str], values[:depth]))
                child = known.get(f"{depth}/{name}")
                if child is None:
                    child = known[f"{depth}/{name}"] = Domain(name, depth, domain)
                    domain.children.append(child)
                child.members.add(node.row)
                domain = child
            self.leaf_of[node.row] = domain
        for each in (self.root, *known.values()):
            each.rows = np.array(sorted(each.members), dtype=np.intp)

    def level(self, name: str) -> int | None:
        """The number of a level, by label or alias; None for what is none."""
        name = self._aliases.get(name, name)
        return self.labels.index(name) + 1 if name in self.labels else None

    def common(self, nodes: Iterable[Node], lowest: int) -> Domain:
        """The lowest domain that has all of the nodes, none below a level."""
        found: Domain | None = None
        for node in nodes:
            leaf = self.leaf_of[node.row]
            if found is None:
                found = leaf.at(lowest)
            while node.row not in found.members and found.parent is not None:
                found = found.parent
        return found if found is not None else self.root


class Measure:
    """How much of some tasks fits in the domains below one of them."""

    def __init__(self, world: KaiWorld, tasks: Sequence[TaskView], within: Domain) -> None:
        self._world, self._count, self._within = world, len(tasks), within
        self._alike = _alike(tasks)
        demand: dict[int, float] = {}
        largest: dict[int, float] = {}
        for task in tasks:
            for d, v in _amounts(world, task.request).items():
                demand[d] = demand.get(d, 0.0) + v
                largest[d] = max(largest.get(d, 0.0), v)
        self._demand = {d: v for d, v in demand.items() if v > 0 and d != PODS}
        self._pods = self._pods_of({d: v for d, v in largest.items() if v > 0}) if self._alike else None
        self._ratios: dict[Domain, float] = {}

    def ratio(self, domain: Domain) -> float:
        """What is asked for as a part of what is free; above 1 it does not fit."""
        known = self._ratios.get(domain)
        if known is None:
            known = max((v / free if free > 0 else _NO_ROOM for v, free in self._free(domain)), default=0.0)
            self._ratios[domain] = known
        return known

    def _free(self, domain: Domain) -> list[tuple[float, float]]:
        """(wanted, free) per resource."""
        ledger, rows = self._world.nodes, domain.rows
        return [
            (v, float((ledger.idle[d, rows] + ledger.releasing[d, rows]).sum()) if d < len(ledger.idle) else 0.0)
            for d, v in self._demand.items()
        ]

    def _pods_of(self, largest: dict[int, float]) -> Floats:
        """Per row: how many pods that ask for so much fit."""
        ledger = self._world.nodes
        count = np.full(ledger.idle.shape[1], np.inf)
        if not [d for d in largest if d != PODS]:
            return np.where(ledger.there, float(self._count), 0.0)
        for d, v in largest.items():
            free = (ledger.idle[d] + ledger.releasing[d]).astype(np.float64) if d < len(ledger.idle) else count * 0
            if d == ledger.gpu and v < WHOLE:
                for row, gpus in ledger.shared.items():
                    free[row] += sum(g.unused() for g in gpus.values()) * WHOLE / DEVICE
            count = np.minimum(count, np.floor_divide(free, v))
        found: Floats = np.maximum(count, 0.0)
        return found

    def pods(self, domain: Domain) -> int:
        """How many pods like the largest fit."""
        return int(self._pods[domain.rows].sum()) if self._pods is not None else 0

    def fits(self, domain: Domain) -> bool:
        """Do all of the tasks fit? What lies outside the nodes in question takes nothing."""
        if domain.at(self._within.level) is not self._within:
            return not self._demand
        if self._alike:
            return self.pods(domain) >= self._count
        return self.ratio(domain) <= 1

    def shortfall(self, domain: Domain) -> str:
        """What is in the way, with numbers."""
        name = domain.name or "the cluster"
        if self._alike:
            return f"{name} takes {self.pods(domain)} of {self._count} pods"
        short = [
            f"{dim_name(d)} wanted {v:g}, free {free:g}"
            for d, (v, free) in zip(self._demand, self._free(domain), strict=True)
            if v > free
        ]
        return f"{name} lacks room: {', '.join(short)}" if short else f"{name} does not take the pods"


def _amounts(world: KaiWorld, request: TaskRequest) -> dict[int, float]:
    out = {d: float(v) for d, v in request.items}
    shared = request.shared
    gpus = shared.devices * shared.part * WHOLE if shared is not None else request.gpus + request.claimed
    if gpus:
        out[world.nodes.gpu] = float(gpus)
    return out


def _alike(tasks: Sequence[TaskView]) -> bool:
    """Do all or none of the tasks ask for each kind of thing, cpu and memory aside?"""
    kinds = {
        (t.request.quota[2] > 0, frozenset(d for d, v in t.request.items if v and d not in (CPU, MEMORY)))
        for t in tasks
    }
    return len(kinds) == 1
