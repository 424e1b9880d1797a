"""The tree of hyper-nodes: which nodes are close to each other, tier by tier."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from pumice.errors import InvalidInput
from pumice.model import api
from pumice.model.job import Job, SubJob
from pumice.model.node import Node
from pumice.model.patterns import matcher
from pumice.model.selectors import label_selector_matches
from pumice.model.status import HELD_STATUSES
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

Bools = npt.NDArray[np.bool_]


TOP: Final = "<cluster-top-hypernode>"
"""The virtual hyper-node that holds every node."""


@dataclass(slots=True)
class TopologyDomain:
    """A group of nodes. The lower its tier, the closer they are."""

    name: str
    tier: int
    tier_name: str = ""
    parent: str = ""
    children: list[str] = field(default_factory=list)
    nodes: dict[str, Node] = field(default_factory=dict)
    """Every node in it or below it, by name."""
    members: tuple[Node, ...] = ()
    """The same nodes."""

    @property
    def is_leaf(self) -> bool:
        """Report whether there are no hyper-nodes below it."""
        return not self.children

    def __repr__(self) -> str:
        return f"<HyperNode {self.name} tier {self.tier} {len(self.nodes)} nodes>"


class HyperNodeTree:
    """All hyper-nodes with a virtual one on top. *problem* says why it cannot be used, or nothing."""

    def __init__(self, objects: Iterable[api.HyperNode], nodes: Mapping[str, Node], *, lenient: bool = False) -> None:
        """*lenient*: a hard request that cannot be understood or served is no constraint."""
        self.lenient = lenient
        listed = sorted(objects, key=lambda o: o.metadata.name)
        self._all_nodes = nodes
        self.problem = ""
        self.by_name: dict[str, TopologyDomain] = {
            o.metadata.name: TopologyDomain(o.metadata.name, o.spec.tier, o.spec.tier_name) for o in listed
        }
        own = {o.metadata.name: self._join(o) for o in listed}
        self.top = TopologyDomain(TOP, max((h.tier for h in self.by_name.values()), default=0) + 1, nodes=dict(nodes))
        for orphan in [h for h in self.by_name.values() if not h.parent]:
            orphan.parent = TOP
            self.top.children.append(orphan.name)
        reached = list(self._bottom_up())
        if len(reached) != len(self.by_name) and not self.problem:
            lost = sorted(self.by_name.keys() - set(reached))
            self.problem = f"HyperNodes {', '.join(lost)}: are members of each other"
        for name in reached:
            hyper = self.by_name[name]
            hyper.nodes = {**own[name], **{k: n for c in hyper.children for k, n in self.by_name[c].nodes.items()}}
        self.by_name[TOP] = self.top
        self._lowest: dict[str, str] = {}
        self._holding: dict[str, list[TopologyDomain]] = {name: [] for name in nodes}
        for hyper in sorted(self.by_name.values(), key=lambda h: (-h.tier, h.name)):
            self._lowest |= dict.fromkeys(hyper.nodes, hyper.name)
            hyper.members = tuple(hyper.nodes.values())
            for name in hyper.nodes:
                self._holding[name].append(hyper)
        self._masks: dict[str, Bools] = {}
        self._below: dict[str, list[TopologyDomain]] = {}
        self._even: dict[str, bool] = {}

    def _join(self, obj: api.HyperNode) -> dict[str, Node]:
        """Hang an object's hyper-node members below it; its own nodes."""
        name = obj.metadata.name
        found: dict[str, Node] = {}
        for member in obj.spec.members or ():
            if member.type == "HyperNode":
                exact = member.selector.exact_match
                child = self.by_name.get(exact.name) if exact is not None else None
                if child is None:
                    continue
                if child.parent and child.parent != name:
                    self.problem = f"HyperNode {child.name!r}: is a member of both {child.parent!r} and {name!r}"
                    continue
                child.parent = name
                self.by_name[name].children.append(child.name)
            else:
                found |= {n.name: n for n in self._matching(name, member.selector)}
        return found

    def _matching(self, name: str, selector: api.MemberSelector) -> Iterator[Node]:
        if selector.exact_match is not None:
            node = self._all_nodes.get(selector.exact_match.name)
            if node is not None:
                yield node
        if selector.regex_match is not None:
            try:
                matches = matcher(selector.regex_match.pattern)
            except InvalidInput as exc:
                self.problem = f"HyperNode {name!r}: member {exc}"
                return
            yield from (n for key, n in self._all_nodes.items() if matches(key))
        if selector.label_match is not None:
            match = selector.label_match
            yield from (n for n in self._all_nodes.values() if label_selector_matches(match, n.labels))

    def _bottom_up(self) -> Iterator[str]:
        """Names of all but the top, children before parents."""
        stack = [(name, False) for name in self.top.children]
        while stack:
            name, done = stack.pop()
            if done:
                yield name
                continue
            stack.append((name, True))
            stack += [(c, False) for c in self.by_name[name].children]

    # -- asking -----------------------------------------------------------------------------------------------------
    def __len__(self) -> int:
        return len(self.by_name) - 1

    def get(self, hyper: TopologyDomain | str) -> TopologyDomain | None:
        """A hyper-node by name; one that is given as such is itself."""
        return self.by_name.get(hyper) if isinstance(hyper, str) else hyper

    def ancestors(self, name: str) -> list[str]:
        """The hyper-node and everything above it, lowest first."""
        out = []
        while name in self.by_name and name not in out:
            out.append(name)
            name = self.by_name[name].parent
        return out

    def lca(self, left: str, right: str) -> str:
        """The lowest hyper-node that holds both; nothing counts as the other one."""
        if not left or not right:
            return left or right
        above = self.ancestors(left)
        return next((name for name in self.ancestors(right) if name in above), TOP)

    def below(self, hyper: TopologyDomain) -> list[TopologyDomain]:
        """The hyper-node and everything below it, by tier, then by name."""
        known = self._below.get(hyper.name)
        if known is None:
            found, rest = [hyper], list(hyper.children)
            while rest:
                child = self.by_name[rest.pop()]
                found.append(child)
                rest += child.children
            known = self._below[hyper.name] = sorted(found, key=lambda h: (h.tier, h.name.encode()))
        return known

    def holders(self, nodes: Collection[str], limit: int) -> list[TopologyDomain]:
        """The hyper-nodes of at most that tier that hold all of these nodes; all of that tier where there are none."""
        if not nodes:
            return [h for h in self.below(self.top) if h.tier <= limit]
        first = next(iter(nodes))
        return [h for h in self._holding.get(first, ()) if h.tier <= limit and all(n in h.nodes for n in nodes)]

    def is_even(self, hyper: TopologyDomain) -> bool:
        """Report whether every node of it is as close to every other: all belong to one hyper-node of the lowest
        tier."""
        known = self._even.get(hyper.name)
        if known is None:
            known = self._even[hyper.name] = len({self._lowest[name] for name in hyper.nodes}) < 2
        return known

    def lowest(self, node: str) -> str:
        """The hyper-node of the lowest tier that holds a node."""
        return self._lowest.get(node, TOP)

    def holding(self, tasks: Iterable[Task]) -> str:
        """The lowest hyper-node that holds all tasks that have a place or a promised one; nothing if none has."""
        found = ""
        for node in sorted(places_of(tasks)):
            found = self.lca(found, self.lowest(node))
        return found

    def rows(self, hyper: TopologyDomain, size: int) -> Bools | None:
        """A mask of the rows of its nodes; None for the top, which has all."""
        if hyper.name == TOP:
            return None
        mask = self._masks.get(hyper.name)
        if mask is None or len(mask) != size:
            mask = np.zeros(size, dtype=np.bool_)
            mask[[n.row for n in hyper.nodes.values()]] = True
            self._masks[hyper.name] = mask
        return mask

    def limit(self, topology: api.NetworkTopology | None, outer: int | None = None) -> int | None:
        """The highest tier that a topology request allows; None where it sets no limit.

        A soft request may use every tier, or every tier that *outer*, the limit of its job, allows.
        """
        if topology is None:
            return None
        if topology.mode == "soft":
            return outer if outer is not None else self.top.tier
        if topology.highest_tier_allowed is not None:
            return topology.highest_tier_allowed
        if topology.highest_tier_name:
            tiers = [h.tier for h in self.by_name.values() if h.tier_name == topology.highest_tier_name]
            return min(tiers, default=None)
        return None

    def misread(self, job: Job) -> str:
        """The problem of the topology that the job or one of its sub-groups asks for, or nothing."""
        if self.lenient:
            return ""
        if self.problem:
            return self.problem
        asked = [("", job.topology), *((f"subGroupPolicy {p.name!r}: ", p.network_topology) for p in job.policies)]
        for where, topology in asked:
            if topology is None or topology.mode == "soft" or self.limit(topology) is not None:
                continue
            name = topology.highest_tier_name
            if not name:
                return f"{where}networkTopology: mode hard needs highestTierAllowed or highestTierName"
            known = sorted({h.tier_name for h in self.by_name.values() if h.tier_name})
            there = f"there are {', '.join(known)}" if known else "none has a tierName"
            return f"{where}networkTopology.highestTierName {name!r}: no HyperNode has that tierName ({there})"
        return ""

    def limits(self, job: Job) -> bool:
        """Report whether the job, or one of its sub-groups, asks for a topology that sets a limit."""
        asked = [job.topology, *(p.network_topology for p in job.policies)]
        return any(self.limit(t) is not None for t in asked)

    def job_limit(self, job: Job) -> int | None:
        """The highest tier in which all of the job must be."""
        return self.limit(job.topology)

    def sub_job_limit(self, sub_job: SubJob) -> int | None:
        """The highest tier in which all of the sub-job must be."""
        return self.limit(sub_job.topology, self.job_limit(sub_job.job))


def places_of(tasks: Iterable[Task]) -> set[str]:
    """The nodes on which tasks have a place, or a promised one."""
    return {t.node.name for t in tasks if t.node is not None and t.status in HELD_STATUSES}


def tree_of(state: ClusterState, *, lenient: bool = False) -> HyperNodeTree:
    """The tree of a cluster as it is now."""
    objects = [cast(api.HyperNode, o) for o in state.kind("HyperNode").values()]
    return HyperNodeTree(objects, state.table.by_name, lenient=lenient)
