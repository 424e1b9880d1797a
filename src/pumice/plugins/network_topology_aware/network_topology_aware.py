"""The plugin: which domains are tried, which is best, and which nodes are close to what a job already has."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.hypernodes import TopologyDomain, places_of
from pumice.engine.rows import NodeRows
from pumice.engine.scope import SKIP
from pumice.engine.views import of_labels
from pumice.framework.arguments import Argument, ArgumentMap, Arguments
from pumice.framework.placing.topology import Domains, domains_of, needed_of, waits_of
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model.job import Job, SubJob
from pumice.model.node import Node
from pumice.model.reason import Code, reason_id
from pumice.model.task import Task
from pumice.plugins.network_topology_aware.domain_packing import (
    KeptScores,
    Packing,
    packed_rows,
    request_of,
)

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Reasons = npt.NDArray[np.int32]
Gradient = list[list[TopologyDomain]]

_MOST_KEPT: Final = 64
"""Requests for which it is known how full they make the hyper-nodes."""
_PACKED, _CLOSE, _CONFINED = 1, 2, 4
"""The questions about a task: how full hyper-nodes get, which nodes are close to its job, and which are permitted."""


class NetworkTopologyAware(Plugin):
    """Keeps a job within one hyper-node of the tier that it allows: the lowest tier that will do, there the fullest."""

    name = "network-topology-aware"
    persistent = True
    weight = Argument(1, "Weight of all scores.", minimum=0, lenient=True)
    cpu = Argument(
        1, "Weight of cpu when hyper-nodes are filled up.", name="hypernode.binpack.cpu", minimum=0, lenient=True
    )
    memory = Argument(1, "Weight of memory.", name="hypernode.binpack.memory", minimum=0, lenient=True)
    resources = Argument[list[str]](
        [], "Further resources that count.", name="hypernode.binpack.resources", read=Arguments.names
    )
    weights = ArgumentMap(
        1, "Weight of one of them.", name="hypernode.binpack.resources.<name>", minimum=0, lenient=True
    )
    packs_others = Argument(
        True,
        "Also fill hyper-nodes up with pods that ask for no topology.",
        name="hypernode.binpack.normal-pod.enable",
    )
    fading = Argument(
        0.8,
        "How much less each higher tier counts for these.",
        name="hypernode.binpack.normal-pod.fading",
        minimum=0,
        lenient=True,
    )
    most_evicted = Argument(
        8,
        "In how many hyper-nodes gangpreempt and gangreclaim look for victims.",
        name="hypernode.gradient.evict.max-hypernodes",
        minimum=1,
        lenient=True,
    )

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        others = {name: self.weights.get(name, 1) for name in self.resources}
        self._packing = Packing({"cpu": self.cpu, "memory": self.memory, **others})

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        self._kept: tuple[object, bool] = (None, False)
        self._insides: dict[str, tuple[object, Bools, int]] = {}
        self._whole = ssn.compat.whole_domains
        self._at_open: tuple[Ints, Ints] | None = None
        tree = self._tree = ssn.hyper_nodes
        self._sums: Domains | None = None
        self._scores: dict[tuple[tuple[int, int], ...], KeptScores] = {}
        self._tiers: dict[tuple[str, int], list[list[tuple[TopologyDomain, int]]]] = {}
        self._room: tuple[object, list[bool] | None] = (None, None)
        if self._whole:
            self._at_open = self._domains.idle(), self._domains.future_idle()
        ssn.add_hyper_node_gradient_for_job_fn(self.name, self._for_job)
        ssn.add_hyper_node_gradient_for_sub_job_fn(self.name, self._for_sub_job)
        ssn.add_hyper_node_order_fn(self.name, self._order)
        self._confines = not ssn.compat.topology_of_allocate
        self._close_to = _CLOSE if self.weight and len(tree) else 0
        self._others = _PACKED if self.packs_others and self.weight and len(tree) else 0
        if len(tree) and self.weight:
            ssn.add_batch_node_order_fn(self.name, self._score, key=self._scored)
        if self._confines:
            ssn.add_batch_predicate_fn(self.name, self._confine, key=self._limited)

    @property
    def _domains(self) -> Domains:
        """The amounts in each hyper-node; the tree is that of the session."""
        if self._sums is None:
            self._sums = domains_of(self._ssn)
        return self._sums

    # -- which domains are tried --------------------------------------------------------------------------------------
    def _for_job(self, job: Job, inside: TopologyDomain, purpose: str) -> Gradient:
        """Hyper-nodes for the whole job: those of the lowest tier first; to make room, those of the highest."""
        limit = self._tree.job_limit(job)
        if limit is None:
            return [[inside]]
        return self._gradient(job, inside, limit, purpose)

    def _for_sub_job(self, sub_job: SubJob, inside: TopologyDomain, purpose: str) -> Gradient:
        limit = self._tree.sub_job_limit(sub_job)
        if limit is None:
            return [[inside]]
        return self._gradient(sub_job, inside, limit, purpose)

    def _gradient(self, group: Job | SubJob, inside: TopologyDomain, limit: int, purpose: str) -> Gradient:
        tree = self._tree
        tiers = self._usable(inside, limit)
        placed = places_of(group.tasks.values())
        if placed:
            near = {h.name for one in tree.holders(placed, limit) for h in tree.below(one)}
            tiers = [[(h, at) for h, at in tier if h.name in near] for tier in tiers]
        roomy = self._roomy(group, bool(placed), purpose) if any(tiers) else None
        groups = [[h for h, at in tier if roomy is None or roomy[at]] for tier in tiers]
        groups = [one for one in groups if one]
        return groups if purpose != "Evict" else self._widest_first(groups)

    def _usable(self, inside: TopologyDomain, limit: int) -> list[list[tuple[TopologyDomain, int]]]:
        """The hyper-nodes in one of them up to a tier, tier by tier, the lowest first, each with its place."""
        known = self._tiers.get((inside.name, limit))
        if known is None:
            place = self._domains.place
            tiers: dict[int, list[tuple[TopologyDomain, int]]] = {}
            for hyper in self._tree.below(inside):
                if hyper.tier <= limit:
                    tiers.setdefault(hyper.tier, []).append((hyper, place[hyper.name]))
            known = self._tiers[inside.name, limit] = [tiers[tier] for tier in sorted(tiers)]
        return known

    def _roomy(self, group: Job | SubJob, begun: bool, purpose: str) -> list[bool] | None:
        """Per place: can the hyper-node take what the (sub-)job needs, as far as that can be counted? None: all can."""
        if purpose == "Evict" or self._whole:
            return None if begun else self._large_enough(group, self._domains, purpose)
        job = group if isinstance(group, Job) else group.job
        of = job if isinstance(group, Job) or (group.is_default and not job.policies) else group
        key = (of.uid, job.version, self._ssn.state.table.touched.position)
        if self._room[0] != key:  # a job that is one whole is asked about as job, then as sub-job
            tasks = waits_of(of)
            needed = min(needed_of(self._ssn, of), len(tasks))
            self._room = key, self._domains.roomy(self._ssn, tasks, needed) if tasks else None
        return self._room[1]

    def _large_enough(self, group: Job | SubJob, domains: Domains, purpose: str) -> list[bool]:
        """By the sum of what is asked for: of a job its minResources, of a sub-job all that waits."""
        if isinstance(group, Job):
            asked = dict(group.min_resources.items()) if group.min_resources is not None else {}
        else:
            asked = dict(request_of(waits_of(group)))
        offers = [domains.offered]
        if purpose != "Evict":
            offers = [*self._at_open] if self._at_open is not None else [domains.idle(), domains.future_idle()]
        fits = np.zeros(len(domains.names), dtype=np.bool_)
        for offer in offers:
            one = np.ones(len(domains.names), dtype=np.bool_)
            for d, v in asked.items():
                one &= offer[d] >= v if d < len(offer) else v <= 0
            fits |= one
        found: list[bool] = fits.tolist()
        return found

    def _widest_first(self, groups: Gradient) -> Gradient:
        """Groups to make room in: the widest domains first, no more than the argument says."""
        left, out = self.most_evicted, []
        for group in reversed(groups):
            if left:
                out.append(group[-left:])
                left -= len(out[-1])
        return out

    # -- which is best ------------------------------------------------------------------------------------------------
    def _order(self, sub_job: SubJob, hypers: Mapping[str, Sequence[Node]]) -> dict[str, float]:
        """The fullest after the sub-job is in it; of equally full ones, that with most of its tasks."""
        place = self._domains.place
        asked = request_of(sub_job.tasks.values() if self._whole else waits_of(sub_job))
        scores = self._kept_scores(asked).now()
        out: dict[str, float] = {name: scores[place[name]] for name in hypers}
        best = max(out.values(), default=0.0)
        ties = [name for name, score in out.items() if score == best]
        if len(ties) > 1 and sub_job.tasks:
            on = [t.node.name for t in sub_job.tasks.values() if t.node is not None]
            if on:
                for name in ties:
                    nodes = self._tree.by_name[name].nodes
                    out[name] += sum(1 for n in on if n in nodes) / len(sub_job.tasks)
        weight = self.weight
        return {name: score * 100.0 * weight for name, score in out.items()}

    def _kept_scores(self, asked: dict[int, int]) -> KeptScores:
        key = tuple(asked.items())
        known = self._scores.get(key)
        if known is None:
            if len(self._scores) == _MOST_KEPT:
                self._scores.clear()
            known = self._scores[key] = KeptScores(self._packing, self._domains, asked)
        return known

    # -- which node ---------------------------------------------------------------------------------------------------
    def _kind(self, task: Task) -> int:
        """The questions about a task, as flags: they are the key of answers that its class shares."""
        job, tree = task.job, self._tree
        if job is None or not job.has_topology:
            return self._others
        domain = self._ssn.domain
        kind = 0
        if domain is None or not tree.is_even(domain):
            near = self._close_to if domain is not None or self._confines else 0
            kind = near if _sub_job_of(task).topology is not None else self._others
        if self._confines and (domain is None or not self._keeps(task, job, domain)):
            kind |= _CONFINED
        return kind

    @of_labels
    def _scored(self, task: Task) -> Hashable:
        kind = self._kind(task)
        return kind if kind & (_PACKED | _CLOSE) else SKIP

    @of_labels
    def _limited(self, task: Task) -> Hashable:
        kind = self._kind(task)
        return kind if kind & _CONFINED else SKIP

    def _keeps(self, task: Task, job: Job, domain: TopologyDomain) -> bool:
        """Report whether a task that stays in the domain keeps to the topology of its job and sub-job."""
        key = (job.uid, job.version, task.sub_job, domain.name)
        if self._kept[0] != key:
            keeps = all(
                domain.tier <= limit and all(n in domain.nodes for n in places_of(group.tasks.values()))
                for group, limit in self._limits_of(task, job)
            )
            self._kept = (key, keeps)
        return self._kept[1]

    def _limits_of(self, task: Task, job: Job) -> Iterator[tuple[Job | SubJob, int]]:
        """The job and the sub-job of a task, as far as their tiers are limited, with their limits."""
        tree, sub_job = self._tree, task.sub_job
        asked: list[tuple[Job | SubJob, int | None]] = [(job, tree.job_limit(job))]
        if sub_job is not None:
            asked.append((sub_job, tree.sub_job_limit(sub_job)))
        return ((group, limit) for group, limit in asked if limit is not None and limit < tree.top.tier)

    def _confine(self, task: Task, rows: NodeRows) -> Reasons:
        """Objects to nodes outside every hyper-node that the job may be in, given where its tasks are."""
        out: Reasons = np.zeros(len(rows), dtype=np.int32)
        for group, limit in self._limits_of(task, task.job):
            inside, reason = self._inside(group, limit)
            out[(out == 0) & ~inside[rows.index]] = reason
        return out

    def _inside(self, group: Job | SubJob, limit: int) -> tuple[Bools, int]:
        """The rows on which the (sub-)job may be, and the reason for which others will not do."""
        key = (group.uid, group.version, limit)
        known = self._insides.get(group.uid)
        if known is None or known[0] != key:
            tree, size = self._tree, self._ssn.state.table.size
            placed = places_of(group.tasks.values())
            usable = tree.holders(placed, limit)
            inside: Bools = np.zeros(size, dtype=np.bool_)
            for hyper in usable:
                mask = tree.rows(hyper, size)
                inside |= mask if mask is not None else True
            text = f"node(s) in no hyper-node of tier {limit} or below"
            if placed:
                where = max(usable, key=lambda h: (h.tier, len(h.nodes), h.name)).name if usable else ""
                text = f"node(s) outside {where or 'the nodes'} of its job, which may span tier {limit}"
            known = self._insides[group.uid] = (key, inside, reason_id(self.name, text, Code.UNRESOLVABLE))
        return known[1], known[2]

    def _score(self, task: Task, rows: NodeRows) -> Floats:
        if self._kind(task) & _CLOSE:
            return self._close(task, rows) * (100.0 * self.weight)
        return packed_rows(self._packing, self._domains, task, self.fading)[rows.index] * (100.0 * self.weight)

    def _close(self, task: Task, rows: NodeRows) -> Floats:
        """1 in the hyper-node of the sub-job's other tasks, less with every tier between, 0 across the top one.

        The best get more for every task of the sub-job in their own hyper-node.
        """
        tree, domains, sub_job = self._tree, self._domains, _sub_job_of(task)
        allocated = tree.holding(sub_job.tasks.values())
        out: Floats = np.zeros(len(rows))
        if not allocated:
            return out
        lowest = domains.lowest[rows.index]
        places, at = np.unique(lowest, return_inverse=True)
        names = [domains.names[p] for p in places.tolist()]
        least, span = tree.below(tree.top)[0].tier, 0
        span = tree.top.tier - least
        scores = [
            1.0
            if name == allocated
            else (tree.top.tier - tree.by_name[tree.lca(name, allocated)].tier) / span
            if span
            else 0.0
            for name in names
        ]
        out = np.array(scores)[at]
        best = out == out.max(initial=-1.0)
        if best.sum() > 1:
            on = [t.node.name for t in sub_job.tasks.values() if t.node is not None]
            shares = [sum(1 for n in on if n in tree.by_name[name].nodes) / len(sub_job.tasks) for name in names]
            out[best] += np.array(shares)[at][best]
        return out


def _sub_job_of(task: Task) -> SubJob:
    """The sub-job of a task; of a job without policies the job as one."""
    return task.sub_job if task.sub_job is not None else task.job.whole()
