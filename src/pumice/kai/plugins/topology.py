"""topology: a job or sub-group inside one domain of a topology, the tightest that takes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from pumice.engine.scope import skip_unless
from pumice.framework.plugin import Plugin
from pumice.framework.session.outcome import Stage
from pumice.framework.session.session import Session
from pumice.kai.search.placing import WorldRows
from pumice.kai.view.jobs import JobView, Member
from pumice.kai.view.tasks import ACTIVE, TaskRequest, TaskView
from pumice.kai.view.wording import topology_error
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model.api import Topology
from pumice.model.api import Topology as TopologyObject
from pumice.model.gpu import DEVICE, WHOLE
from pumice.model.kai import TopologyConstraint
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
        """The request as a part of the free amount; above 1 it does not fit."""
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
        """Report whether all of the tasks fit. A domain outside the nodes in question takes nothing."""
        if domain.at(self._within.level) is not self._within:
            return not self._demand
        if self._alike:
            return self.pods(domain) >= self._count
        return self.ratio(domain) <= 1

    def shortfall(self, domain: Domain) -> str:
        """The obstacle, with numbers."""
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
    """Report whether all or none of the tasks ask for each kind of resource, cpu and memory aside."""
    kinds = {
        (t.request.quota[2] > 0, frozenset(d for d, v in t.request.items if v and d not in (CPU, MEMORY)))
        for t in tasks
    }
    return len(kinds) == 1


BAND: Final = 100_000.0


class KaiTopology(Plugin):
    """Places jobs and sub-groups in one domain of the required level, preferably of a lower one."""

    name = "topology"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        """Read the topologies."""
        self._world: KaiWorld = world_of(ssn)
        self._narrow = ssn.compat.kai_narrow_topology
        nodes = self._world.nodes.nodes
        self._trees = {
            name: DomainTree(obj, nodes)
            for name, obj in self._world.state.kind("Topology").items()
            if isinstance(obj, TopologyObject)
        }
        self._scores: dict[str, Floats] = {}
        """Task -> the score of every row."""
        ssn.add_batch_node_order_fn(self.name, self._score, key=skip_unless(lambda task: task.uid in self._scores))

    def pre_job_allocation(self, job: JobView) -> None:
        """A new attempt: what was preferred before does not count."""
        self._scores.clear()

    def _score(self, task: TaskView, rows: WorldRows) -> Floats:
        """More for nodes of the domain in which the gang is to stay together."""
        return self._scores[task.uid][rows.index]

    # -- choosing domains ---------------------------------------------------------------------------------------------
    def subset_nodes(
        self, job: JobView, member: Member, tasks: Sequence[TaskView], nodes: Sequence[Node]
    ) -> Sequence[Sequence[Node]]:
        """The nodes of each domain that takes the tasks, deepest first, tightest first."""
        constraint = member.topology
        if constraint is None or not constraint.topology or not tasks:
            return [nodes]
        tree = self._trees.get(constraint.topology)
        if tree is None:
            self._world.refuse(job, Stage.TOPOLOGY, f"topology {constraint.topology} does not exist")
            return []
        wanted = _levels(tree, constraint)
        if wanted is None:
            named = (constraint.required_topology_level, constraint.preferred_topology_level)
            missing = next(name for name in named if name and tree.level(name) is None)
            levels = ", ".join(tree.labels)
            text = f"topology {constraint.topology} has no level {missing}; its levels are {levels}"
            self._world.refuse(job, Stage.TOPOLOGY, text)
            return []
        required, preferred = wanted
        inside = [n for n in nodes if n.row in tree.leaf_of]
        start = tree.common(inside, preferred or len(tree.labels))
        if not self._narrow and not preferred:
            start = start.at(required)
        measure = Measure(self._world, tasks, start)
        if not measure.fits(start):
            self._tell(job, constraint, "not enough resources in the cluster to allocate the job")
            return []
        lowest = preferred or required
        layers = _by_level(start, lowest, measure)
        if preferred:
            self._prefer(layers.get(preferred, []), tasks)
        found = [d for level in range(lowest, required - 1, -1) for d in layers.get(level, ()) if measure.fits(d)]
        if not found:
            tops = layers.get(required or start.level) or [start]
            said = "; ".join(measure.shortfall(d) for d in tops[:3])
            self._tell(job, constraint, said)
        hosts = self._hosts(tasks)
        if required and hosts:
            held = {tree.leaf_of[row].at(required) for row in hosts if row in tree.leaf_of}
            found = [d for d in found if d.at(required) in held]
        return [[n for n in inside if n.row in d.members] for d in found]

    def _tell(self, job: JobView, constraint: TopologyConstraint, why: str) -> None:
        level = constraint.required_topology_level or constraint.preferred_topology_level
        self._world.refuse(job, Stage.TOPOLOGY, topology_error(constraint.topology, level, job.job.uid, why))

    def _prefer(self, domains: Sequence[Domain], tasks: Sequence[TaskView]) -> None:
        scores = np.zeros(len(self._world.nodes.there))
        n = len(domains)
        for i, domain in enumerate(domains, 1):
            scores[domain.rows] = (10 * i // n) * BAND
        for task in tasks:
            self._scores[task.uid] = scores

    def _hosts(self, tasks: Iterable[TaskView]) -> set[int]:
        """The rows on which others of the pod sets are already."""
        found = set()
        for podset in {id(t.podset): t.podset for t in tasks}.values():
            for task in podset.tasks:
                if task.stage in ACTIVE and task.node is not None:
                    found.add(task.node.row)
        return found


def _levels(tree: DomainTree, constraint: TopologyConstraint) -> tuple[int, int] | None:
    """(required, preferred) levels, 0 for none; None where a name is none."""
    out = []
    for name in (constraint.required_topology_level, constraint.preferred_topology_level):
        level = tree.level(name) if name else 0
        if level is None:
            return None
        out.append(level)
    return cast(tuple[int, int], tuple(out))


def _by_level(start: Domain, lowest: int, measure: Measure) -> dict[int, list[Domain]]:
    """Domains by level, in the order in which they are walked: tightest first among siblings."""
    found: dict[int, list[Domain]] = {start.level: [start]}
    layer = [start]
    while layer and layer[0].level < lowest:
        layer = [c for d in layer for c in sorted(d.children, key=lambda c: (-measure.ratio(c), c.name))]
        if layer:
            found[layer[0].level] = layer
    return found
