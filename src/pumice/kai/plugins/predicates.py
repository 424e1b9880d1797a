"""predicates: what of a node, beside room, must suit a task."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.affinity.neighbours import Neighbours
from pumice.engine.matching import has_node_selection, selected, taints_tolerated
from pumice.engine.scope import skip_unless
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.kai.search.placing import WorldRows
from pumice.kai.view.nodes import WHOLE_GPU
from pumice.kai.view.tasks import TaskRequest, TaskView, is_there
from pumice.kai.view.wording import beyond_largest
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model import keys
from pumice.model.gpu import WHOLE
from pumice.model.native import NativePodGroup
from pumice.model.reason import PASS, Unfit, Verdict, reason_id, reject
from pumice.model.resources import CPU, MEMORY, PODS, dim_name
from pumice.model.task import Task
from pumice.plugins.predicates.shared_filters import shared_filters, volumes_of
from pumice.state.classes import Feature

Bools = npt.NDArray[np.bool_]
Reasons = npt.NDArray[np.int32]


def _says(text: str) -> int:
    return reason_id("predicates", text)


_UNUSABLE: Final = _says("node(s) were not ready or unschedulable")
_UNSELECTED: Final = _says("node(s) didn't match Pod's node affinity/selector")
_TAINTED: Final = _says("node(s) had untolerated taint(s)")
_NO_WORKER: Final = _says("node(s) were no workers for such pods")
_NO_SLOT: Final = _says("node(s) didn't have a pod slot for the reservation of a shared GPU")
_LEGACY: Final = _says("MIG job cannot be scheduled on node with legacy MIG jobs")
_BY_CLAIM: Final = _says("GPUs of the node(s) are had by resource claims")
_UNSYNCED: Final = _says("node(s) do not tell the memory of their GPUs")
_NO_MIG: Final = _says("MIG job cannot be scheduled on node(s) without MIG")
_KINDS: Final = {
    "single": _says("only whole gpu jobs can run on a node with MigStrategy='single'"),
    "mixed": _says("only MIG jobs can run on a node with MigStrategy='mixed'"),
}


class KaiPredicates(Plugin):
    """Node selectors and affinity, taints, host ports, pod affinity, node conditions, kinds of GPUs, volumes."""

    name = "predicates"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        """Look at the nodes once."""
        self._world: KaiWorld = world_of(ssn)
        self._suited: dict[int, Reasons] = {}
        self._usable = self._world.ready_rows
        self._biggest: dict[int, int] = {}
        self._passed: dict[int, TaskRequest] = {}
        """Class without volumes and claims -> what its tasks ask for, where the largest node could take it."""
        self._any_gpus = ssn.compat.kai_claimed_gpus
        self._world.steady[self._suits] = lambda task: not self._looks_around(task)
        ssn.add_pre_predicate_fn(self.name, self._possible)
        ssn.add_victim_invariant_pre_predicate_fn(self.name, self._possible)
        ssn.add_batch_predicate_fn(self.name, self._suits)
        used, skipped = ssn.state.classes.features, {"PodTopologySpread"} if ssn.compat.kai_free_spread else set()
        if Feature.NEIGHBOURS in used:
            Neighbours.kept(ssn.runtime.kept, ssn.state).live()
        for shared in shared_filters(ssn, lambda row: row.kai and row.name not in skipped):
            self._world.steady[shared.fn] = _without(shared.applies)
            ssn.add_batch_predicate_fn(self.name, shared.fn, key=skip_unless(shared.applies))
        self._volumes = volumes_of(ssn) if Feature.VOLUME_CLAIMS in used else None

    # -- anywhere at all ----------------------------------------------------------------------------------------------
    def _surely_possible(self, task: TaskView) -> bool:
        """Report whether a task of its class has passed, and this one has nothing that others may lack."""
        own = task.task
        if self._passed.get(own.klass.id) is not task.request or isinstance(own.job.group, NativePodGroup):
            return False
        return not own.annotations or not _legacy_mig(task)

    def _possible(self, task: TaskView) -> Verdict:
        task = self._world.task_of(task)
        if self._surely_possible(task):
            return PASS
        if task.task.annotations and _legacy_mig(task):
            return reject("MIG instances asked for by annotation are not served")
        if task.task.klass.spec.resource_claims and not self._world.serves_claims:
            return reject("resource claims are served by the plugin dynamicresources, which the conf does not name")
        group = task.task.job.group if task.task.job is not None else None
        if isinstance(group, NativePodGroup) and group.spec.topology_key:
            return reject("schedulingConstraints of Kubernetes' own PodGroups are not served in KAI's dialect")
        if self._volumes is not None:
            try:
                self._volumes.can_be_bound(task)
            except Unfit as no:
                return reject(no.text)
        said = self._fits_largest(task)
        if said is PASS and not task.request.claims and not task.task.klass.spec.volumes:
            self._passed[task.task.klass.id] = task.request
        return said

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
                unit = {CPU: 1000.0, MEMORY: 1e9}.get(d, WHOLE)
                return reject(beyond_largest(task, dim_name(d), self._biggest[d] / unit))
        return PASS

    # -- on these nodes -----------------------------------------------------------------------------------------------
    def _suits(self, task: TaskView, rows: WorldRows) -> Reasons:
        task = self._world.task_of(task)
        klass = task.task.klass
        known = self._suited.get(klass.id)
        if known is None:
            known = self._suited[klass.id] = self._by_class(task)
        out: Reasons = known[rows.index]
        if not out.all() and self._looks_around(task):
            for at, row in enumerate(rows.index.tolist()):
                if not out[at]:
                    out[at] = self._around(task, row)
        return out

    def _by_class(self, task: TaskView) -> Reasons:
        """The objection of every node to tasks of a class, whatever pods are on it."""
        klass, size = task.task.klass, len(self._usable)
        everything = WorldRows(self._world.nodes, np.arange(size, dtype=np.intp))
        out = np.where(self._usable, 0, _UNUSABLE).astype(np.int32)
        out = np.where(out, out, self._kinds(task))
        if self._world.settings.restrict_nodes:
            out = np.where(out | self._workers(task), out, _NO_WORKER)
        if has_node_selection(klass):
            out = np.where((out != 0) | selected(klass, everything), out, _UNSELECTED)
        return np.where((out != 0) | taints_tolerated(klass, everything), out, _TAINTED).astype(np.int32)

    def _kinds(self, task: TaskView) -> Reasons:
        """The objection if the kind of the node's GPUs does not suit the request."""
        request, ledger = task.request, self._world.nodes
        out = np.zeros(len(ledger.there), dtype=np.int32)
        if request.shared is not None and request.shared.memory:
            out[~ledger.synced] = _UNSYNCED
        if not request.devices and not request.mig:
            return out
        if not request.mig and not (request.gpus and self._any_gpus):
            out[list(ledger.by_claim)] = _BY_CLAIM
        for node in ledger.nodes:
            if node.row not in ledger.of_mig:
                out[node.row] = _NO_MIG if request.mig else out[node.row]
                continue
            strategy = node.labels.get(keys.MIG_STRATEGY, "")
            if not {"mixed": bool(request.mig), "single": bool(request.gpus)}.get(strategy, True):
                out[node.row] = _KINDS[strategy]
        return out

    def _workers(self, task: TaskView) -> Bools:
        """Nodes that are labelled for tasks with GPUs, or for those without."""
        label = keys.CPU_WORKER if task.request.cpu_only else keys.GPU_WORKER
        out = np.zeros(len(self._usable), dtype=np.bool_)
        out[[n.row for n in self._world.nodes.nodes if label in n.labels]] = True
        return out

    def _looks_around(self, task: TaskView) -> bool:
        return task.request.shared is not None or bool(task.request.mig)

    def _around(self, task: TaskView, row: int) -> int:
        """The objection of pods on a node, or near it, to a task; 0: none."""
        ledger = self._world.nodes
        there = [other for other in ledger.tasks.get(row, {}).values() if is_there(other)]
        if task.request.shared is not None and not self._reservations_fit(task, row):
            return _NO_SLOT
        if task.request.mig and any(_legacy_mig(other) for other in there):
            return _LEGACY
        return 0

    def _reservations_fit(self, task: TaskView, row: int) -> bool:
        """A GPU that is shared from now on is held by a pod of its own."""
        ledger, shared, node = self._world.nodes, task.request.shared, self._world.nodes.table.nodes[row]
        assert shared is not None
        if node is None or int(ledger.idle[PODS, row] + ledger.releasing[PODS, row]) >= 2:
            return True
        order = self._world.ssn.gpu_order
        fitting = [(order(task, node, gpu), gpu) for gpu in ledger.fitting_gpus(row, shared)]
        best = sorted([(-score, gpu) for score, gpu in fitting if score is not None], key=itemgetter(0))
        return len(best) >= shared.devices and all(gpu != WHOLE_GPU for _, gpu in best[: shared.devices])


def _without(applies: Callable[[Task], bool]) -> Callable[[TaskView], bool]:
    return lambda task: not applies(task.task)


def _legacy_mig(task: TaskView) -> bool:
    """Report whether it asks for MIG instances by annotation, so that its instances are unknown."""
    for key in task.task.annotations:  # noqa: SIM110 - asked of every task
        if key.startswith(keys.MIG_ANNOTATIONS):
            return True
    return False
