"""topology: a job or sub-group inside one domain of a topology, the tightest that takes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from pumice.engine.scope import skip_unless
from pumice.framework.plugin import Plugin
from pumice.framework.session.refusals import Stage
from pumice.framework.session.session import Session
from pumice.kai.search.domains import Domain, DomainTree, Measure
from pumice.kai.search.rows import WorldRows
from pumice.kai.view.jobs import JobView
from pumice.kai.view.stage import ACTIVE
from pumice.kai.view.subgroups import Member
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.wording import topology_error
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model.api import Topology as TopologyObject
from pumice.model.kai import TopologyConstraint
from pumice.model.node import Node

Floats = npt.NDArray[np.float64]
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
