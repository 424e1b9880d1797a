"""topology: a job or sub-group inside one domain of a topology, the tightest that takes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.kai.search.rows import WorldRows
from pumice.kai.view.jobs import JobView
from pumice.kai.view.stage import ACTIVE
from pumice.kai.view.subgroups import Member
from pumice.kai.view.tasks import Request, TaskView
from pumice.kai.view.world import World, world_of
from pumice.model.api import Topology as TopologyObject
from pumice.model.gpu import WHOLE
from pumice.model.kai import TopologyConstraint
from pumice.model.node import Node
from pumice.model.resources import PODS

Floats = npt.NDArray[np.float64]
BAND: Final = 100_000.0
_NO_ROOM: Final = 1000.0


@dataclass(slots=True, eq=False)
class Domain:
    """A part of the cluster: nodes that share the values of all labels down to a level."""

    name: str
    level: int
    nodes: list[Node] = field(default_factory=list)
    children: dict[str, Domain] = field(default_factory=dict)
    parent: Domain | None = None
    pods: int = 0
    """How many pods like the largest fit."""
    ratio: float = 0.0
    """What is asked for as a part of what is free; above 1 it does not fit."""


class Tree:
    """The domains of one topology over some nodes; a node without one of the labels is in none."""

    def __init__(self, obj: TopologyObject) -> None:
        levels = obj.spec.levels or ()
        self.labels = [level.node_label for level in levels]
        self.aliases = {level.alias: level.node_label for level in levels if level.alias}

    def level(self, name: str) -> int | None:
        """The number of a level, by label or alias; None for what is none."""
        name = self.aliases.get(name, name)
        return self.labels.index(name) + 1 if name in self.labels else None

    def grow(self, nodes: Iterable[Node]) -> Domain:
        """The domains of these nodes, below one root."""
        root = Domain("", 0)
        for node in nodes:
            values = [node.labels.get(label) for label in self.labels]
            if any(v is None for v in values):
                continue
            domain = root
            domain.nodes.append(node)
            for depth in range(1, len(values) + 1):
                name = ".".join(cast(list[str], values[:depth]))
                child = domain.children.get(name)
                if child is None:
                    child = domain.children[name] = Domain(name, depth, parent=domain)
                child.nodes.append(node)
                domain = child
        return root


class Topology(Plugin):
    """Places jobs and sub-groups in one domain of the required level, preferably of a lower one."""

    name = "topology"

    def on_session_open(self, ssn: Session) -> None:
        """Read the topologies."""
        self._world: World = world_of(ssn)
        self._trees = {
            name: Tree(obj)
            for name, obj in self._world.state.kind("Topology").items()
            if isinstance(obj, TopologyObject)
        }
        self._scores: dict[str, dict[int, float]] = {}

    def pre_job_allocation(self, job: JobView) -> None:
        """A new attempt: what was preferred before does not count."""
        self._scores.clear()

    def batch_node_order(self, task: TaskView, rows: WorldRows) -> Floats:
        """More for nodes of the domain in which the gang is to stay together."""
        known = self._scores.get(task.uid)
        if not known:
            return np.zeros(len(rows))
        return np.array([known.get(row, 0.0) for row in rows.index.tolist()])

    # -- choosing domains ---------------------------------------------------------------------------------------------
    def subset_nodes(
        self, job: JobView, member: Member, tasks: Sequence[TaskView], nodes: Sequence[Node]
    ) -> list[list[Node]]:
        """The nodes of each domain that takes the tasks, deepest first, tightest first."""
        constraint = member.topology
        if constraint is None or not constraint.topology or not tasks:
            return [list(nodes)]
        tree = self._trees.get(constraint.topology)
        if tree is None:
            self._world.refuse(job, f"topology {constraint.topology} does not exist")
            return []
        wanted = _levels(tree, constraint)
        if wanted is None:
            self._world.refuse(job, f"topology {constraint.topology} has no such level")
            return []
        required, preferred = wanted
        root = tree.grow(nodes)
        start = _lowest_common(root, preferred or required)
        measure = _Measure(self._world, tasks)
        measure.fill(root)
        if not measure.fits(start):
            return []
        lowest = preferred or required
        ordered = _by_level(start, lowest, required)
        if preferred:
            self._prefer(member, ordered.get(preferred, []), tasks)
        top = required or start.level
        found: list[Domain] = []
        for level in range(lowest, min(top, lowest) - 1, -1):
            found += [d for d in ordered.get(level, []) if measure.fits(d)]
        if required:
            hosts = self._hosts(job, member, required, tree)
            if hosts:
                found = [d for d in found if _ancestor(d, required).name in hosts]
        return [list(d.nodes) for d in found]

    def _prefer(self, member: Member, domains: Sequence[Domain], tasks: Sequence[TaskView]) -> None:
        scores: dict[int, float] = {}
        n = len(domains)
        for i, domain in enumerate(domains, 1):
            for node in domain.nodes:
                scores[node.row] = (10 * i // n) * BAND
        for task in tasks:
            self._scores[task.uid] = scores

    def _hosts(self, job: JobView, member: Member, required: int, tree: Tree) -> set[str]:
        """The domains in which tasks of the sub-group are already."""
        found = set()
        for podset in member.pod_sets():
            for task in podset.tasks:
                if task.stage in ACTIVE and task.node is not None:
                    values = [task.node.labels.get(label) for label in tree.labels[:required]]
                    if all(v is not None for v in values):
                        found.add(".".join(cast(list[str], values)))
        return found


class _Measure:
    """How much of some tasks fits in a domain."""

    def __init__(self, world: World, tasks: Sequence[TaskView]) -> None:
        self._world, self._tasks = world, tasks
        self._alike = _alike(tasks)
        self._demand: dict[int, float] = {}
        self._largest: dict[int, float] = {}
        for task in tasks:
            for d, v in _amounts(world, task.request).items():
                self._demand[d] = self._demand.get(d, 0.0) + v
                self._largest[d] = max(self._largest.get(d, 0.0), v)

    def fill(self, domain: Domain) -> None:
        """Work out what fits, here and below."""
        ledger = self._world.nodes
        rows = np.array([n.row for n in domain.nodes], dtype=np.intp)
        ratio = 0.0
        for d, v in self._demand.items():
            if d == PODS or not v:
                continue
            free = float((ledger.idle[d, rows] + ledger.releasing[d, rows]).sum()) if d < len(ledger.idle) else 0.0
            ratio = max(ratio, v / free if free > 0 else _NO_ROOM)
        domain.ratio = ratio
        if self._alike:
            domain.pods = sum(self._pods(row) for row in rows.tolist())
        for child in domain.children.values():
            self.fill(child)

    def _pods(self, row: int) -> int:
        ledger = self._world.nodes
        most = float("inf")
        for d, v in self._largest.items():
            if v <= 0:
                continue
            free = float(ledger.idle[d, row] + ledger.releasing[d, row]) if d < len(ledger.idle) else 0.0
            if d == ledger.gpu and v < WHOLE:
                size = int(ledger.memory[row])
                count = (free // WHOLE) * (WHOLE // v)
                for gpu in ledger.shared.get(row, {}).values():
                    if gpu.whole()[1] != 1:
                        left = max(size - gpu.allocated + gpu.releasing, 0)
                        count += (left * WHOLE / size) // v if size else 0
                most = min(most, count)
            else:
                most = min(most, free // v)
        return max(int(most), 0) if most != float("inf") else len(self._tasks)

    def fits(self, domain: Domain) -> bool:
        """Do all of the tasks fit?"""
        if self._alike:
            return domain.pods >= len(self._tasks)
        return domain.ratio <= 1


def _amounts(world: World, request: Request) -> dict[int, float]:
    out = {d: float(v) for d, v in request.items}
    gpus = world.asked(request)[2] * WHOLE if request.shared is not None else float(request.gpus)
    if gpus:
        out[world.nodes.gpu] = gpus
    return out


def _alike(tasks: Sequence[TaskView]) -> bool:
    """Do all or none of the tasks ask for each kind of thing?"""
    kinds = {(bool(t.request.devices), frozenset(d for d, v in t.request.items if v)) for t in tasks}
    return len(kinds) == 1


def _levels(tree: Tree, constraint: TopologyConstraint) -> tuple[int, int] | None:
    """(required, preferred) levels, 0 for none; None where a name is none."""
    out = []
    for name in (constraint.required_topology_level, constraint.preferred_topology_level):
        level = tree.level(name) if name else 0
        if level is None:
            return None
        out.append(level)
    return out[0], out[1]


def _lowest_common(root: Domain, lowest: int) -> Domain:
    """The lowest domain that has all the nodes."""
    domain = root
    while len(domain.children) == 1 and domain.level < max(lowest - 1, 0):
        only = next(iter(domain.children.values()))
        if len(only.nodes) != len(domain.nodes):
            break
        domain = only
    return domain


def _ancestor(domain: Domain, level: int) -> Domain:
    while domain.level > level and domain.parent is not None:
        domain = domain.parent
    return domain


def _by_level(start: Domain, lowest: int, required: int) -> dict[int, list[Domain]]:
    """Domains by level, in the order in which they are walked: tightest first among siblings."""
    found: dict[int, list[Domain]] = {start.level: [start]}
    layer = [start]
    while layer and layer[0].level < lowest:
        layer = [c for d in layer for c in sorted(d.children.values(), key=lambda c: (-c.ratio, c.name))]
        if layer:
            found[layer[0].level] = layer
    return found
