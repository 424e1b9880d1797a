"""predicates: what of a node, beside room, must suit a task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.matching import has_node_selection, selected, taints_tolerated
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.kai.search.evenly import must_spread, stays_even
from pumice.kai.search.rows import WorldRows
from pumice.kai.view.stage import USED
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.world import KaiWorld, is_ready, world_of
from pumice.model import keys
from pumice.model.api import PodAffinityTerm, PodSpec
from pumice.model.gpu import WHOLE
from pumice.model.native import NativePodGroup
from pumice.model.node import Node
from pumice.model.reason import PASS, Verdict, reject
from pumice.model.resources import PODS, dim_name
from pumice.model.selectors import label_selector_matches

Bools = npt.NDArray[np.bool_]
_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


class KaiPredicates(Plugin):
    """Node selectors and affinity, taints, host ports, pod affinity, node conditions, kinds of GPUs, volume claims."""

    name = "predicates"

    def on_session_open(self, ssn: Session) -> None:
        """Look at the nodes once."""
        self._world: KaiWorld = world_of(ssn)
        self._suited: dict[int, Bools] = {}
        nodes = self._world.nodes.nodes
        self._usable = np.zeros(len(self._world.nodes.there), dtype=np.bool_)
        for node in nodes:
            self._usable[node.row] = _usable(node)
        self._strategy = {n.row: n.labels.get(keys.MIG_STRATEGY, "none") for n in nodes}
        self._biggest: dict[int, int] = {}
        self._spreads = not ssn.compat.kai_free_spread
        ssn.add_pre_predicate_fn(self.name, self._possible)
        ssn.add_victim_invariant_pre_predicate_fn(self.name, self._possible)
        ssn.add_batch_predicate_fn(self.name, self._suits)

    # -- anywhere at all ----------------------------------------------------------------------------------------------
    def _possible(self, task: TaskView) -> Verdict:
        task = self._world.task_of(task)
        if _legacy_mig(task):
            return reject("MIG instances asked for by annotation are not served")
        if task.task.klass.spec.resource_claims and not self._world.serves_claims:
            return reject("resource claims are served by the plugin dynamicresources, which the conf does not name")
        group = task.task.job.group if task.task.job is not None else None
        if isinstance(group, NativePodGroup) and group.spec.topology_key:
            return reject("schedulingConstraints of Kubernetes' own PodGroups are not served in KAI's dialect")
        missing = self._missing_claim(task)
        if missing:
            return reject(f'persistentvolumeclaim "{missing}" not found')
        return self._fits_largest(task)

    def _missing_claim(self, task: TaskView) -> str:
        claims = self._world.state.kind("PersistentVolumeClaim")
        for volume in task.task.klass.spec.volumes or ():
            claim = volume.persistent_volume_claim
            if claim is not None and f"{task.task.namespace}/{claim.claim_name}" not in claims:
                return claim.claim_name
        return ""

    def _fits_largest(self, task: TaskView) -> Verdict:
        ledger, request = self._world.nodes, task.request
        wanted = list(request.items)
        if request.devices or request.claimed:
            gpus = request.gpus if request.shared is None else request.devices * WHOLE
            wanted.append((ledger.gpu, gpus + request.claimed))
        for d, v in wanted:
            if d == PODS:
                continue
            if d not in self._biggest:
                column = ledger.allocatable[d][ledger.there] if d < len(ledger.allocatable) else ()
                self._biggest[d] = int(max(column, default=0))
            if self._biggest[d] < v:
                return reject(f"no node in the node-pool has {dim_name(d)} enough for the pod")
        return PASS

    # -- on these nodes -----------------------------------------------------------------------------------------------
    def _suits(self, task: TaskView, rows: WorldRows) -> Bools:
        task = self._world.task_of(task)
        klass = task.task.klass
        known = self._suited.get(klass.id)
        if known is None:
            everything = WorldRows(self._world.nodes, np.arange(len(self._usable), dtype=np.intp))
            known = self._usable & self._kinds(task)
            if self._world.settings.restrict_nodes:
                known &= self._workers(task)
            if has_node_selection(klass):
                known &= selected(klass, everything)
            known &= taints_tolerated(klass, everything)
            self._suited[klass.id] = known
        out: Bools = known[rows.index]
        if out.any() and self._looks_around(klass.spec, task):
            for at, row in enumerate(rows.index.tolist()):
                if out[at]:
                    out[at] = self._neighbours_suit(task, row)
        return out

    def _kinds(self, task: TaskView) -> Bools:
        """Does the kind of the node's GPUs suit what is asked for?"""
        request, ledger = task.request, self._world.nodes
        out = np.ones(len(ledger.there), dtype=np.bool_)
        if request.shared is not None and request.shared.memory:
            out &= ledger.synced
        if not request.devices and not request.mig:
            return out
        if not request.mig:
            out[list(ledger.by_claim)] = False  # their GPUs are had by claims only
        for row, strategy in self._strategy.items():
            if strategy == "mixed":
                out[row] &= bool(request.mig)
            elif strategy == "single":
                out[row] &= bool(request.gpus)
            else:
                out[row] &= not request.mig
        return out

    def _workers(self, task: TaskView) -> Bools:
        """Nodes that are labelled for tasks with GPUs, or for those without."""
        label = keys.CPU_WORKER if task.request.cpu_only else keys.GPU_WORKER
        out = np.zeros(len(self._usable), dtype=np.bool_)
        out[[n.row for n in self._world.nodes.nodes if label in n.labels]] = True
        return out

    def _looks_around(self, spec: PodSpec, task: TaskView) -> bool:
        affinity = spec.affinity
        asks = affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)
        if asks or any(True for _ in _ports(spec)) or task.request.shared is not None or task.request.mig:
            return True
        if self._spreads and must_spread(task):
            return True
        return self._anti_affine

    @property
    def _anti_affine(self) -> bool:
        known: bool | None = self.__dict__.get("_anti")
        if known is None:
            known = any(_required(t.task.klass.spec, anti=True) for t in self._world.tasks.values())
            self.__dict__["_anti"] = known
        return known

    def _neighbours_suit(self, task: TaskView, row: int) -> bool:
        ledger, spec = self._world.nodes, task.task.klass.spec
        if task.request.shared is not None and not self._reservations_fit(task, row):
            return False
        if task.request.mig and any(_legacy_mig(other) for other in ledger.tasks.get(row, {}).values()):
            return False
        ports = set(_ports(spec))
        if ports:
            for other in ledger.tasks.get(row, {}).values():
                if other is not task and ports & set(_ports(other.task.klass.spec)):
                    return False
        node = ledger.table.nodes[row]
        if node is None or (self._spreads and must_spread(task) and not stays_even(self._world, task, node)):
            return False
        return self._affinity(task, node)

    def _reservations_fit(self, task: TaskView, row: int) -> bool:
        """A GPU that is shared from now on is held by a pod of its own."""
        ledger, shared = self._world.nodes, task.request.shared
        assert shared is not None
        m, size = ledger.share(row, shared), int(ledger.memory[row])
        joins = any(g.takes(m, size) for g in ledger.shared.get(row, {}).values())
        return joins or int(ledger.idle[PODS, row] + ledger.releasing[PODS, row]) >= 2

    # -- affinity between pods ----------------------------------------------------------------------------------------
    def _affinity(self, task: TaskView, node: Node) -> bool:
        spec = task.task.klass.spec
        for term in _required(spec, anti=False):
            if not self._has_company(task, term, node):
                return False
        for term in _required(spec, anti=True):
            if any(self._matching(task, term, node)):
                return False
        if not self._anti_affine:
            return True
        for other in self._placed():
            for term in _required(other.task.klass.spec, anti=True):
                if other is not task and other.node is not None and _matches(other, term, task):
                    value = node.labels.get(term.topology_key)
                    if value is not None and value == other.node.labels.get(term.topology_key):
                        return False
        return True

    def _has_company(self, task: TaskView, term: PodAffinityTerm, node: Node) -> bool:
        if term.topology_key not in node.labels:
            return False
        if any(self._matching(task, term, node)):
            return True
        anywhere = any(_matches(task, term, other) for other in self._placed() if other is not task)
        return not anywhere and _matches(task, term, task)

    def _matching(self, task: TaskView, term: PodAffinityTerm, node: Node) -> Iterator[bool]:
        value = node.labels.get(term.topology_key)
        if value is None:
            return
        for other in self._placed():
            if other is task or other.node is None or other.node.labels.get(term.topology_key) != value:
                continue
            if _matches(task, term, other):
                yield True

    def _placed(self) -> Iterator[TaskView]:
        for tasks in self._world.nodes.tasks.values():
            for task in tasks.values():
                if task.stage in USED:
                    yield task


def _legacy_mig(task: TaskView) -> bool:
    """Does it ask for MIG instances by annotation, so that nobody knows which of them it has?"""
    return any(key.startswith(keys.MIG_ANNOTATIONS) for key in task.task.annotations)


def _usable(node: Node) -> bool:
    if node.unschedulable or not is_ready(node):
        return False
    return not any(c.type in _PRESSURES and c.status == "True" for c in node.object.status.conditions or ())


def _ports(spec: PodSpec) -> Iterator[tuple[int, str]]:
    for container in spec.containers or ():
        for port in container.ports or ():
            if port.host_port:
                yield port.host_port, port.protocol


def _required(spec: PodSpec, *, anti: bool) -> tuple[PodAffinityTerm, ...]:
    if spec.affinity is None:
        return ()
    part = spec.affinity.pod_anti_affinity if anti else spec.affinity.pod_affinity
    return (part.required if part is not None else None) or ()


def _matches(owner: TaskView, term: PodAffinityTerm, other: TaskView) -> bool:
    """Does a term of *owner* mean the other?"""
    namespaces = term.namespaces or ((owner.task.namespace,) if term.namespace_selector is None else None)
    if namespaces is not None and other.task.namespace not in namespaces:
        return False
    return term.label_selector is not None and label_selector_matches(term.label_selector, other.task.labels)
