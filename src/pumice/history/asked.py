"""What a job asks for, as a history tells it: room in numbers, and whether it asks for more than room."""

from __future__ import annotations

from pumice.history.lines import Pods
from pumice.model import keys
from pumice.model.api import Affinity
from pumice.model.gpu import WHOLE
from pumice.model.job import Job
from pumice.model.resources import CPU, MEMORY
from pumice.model.task import TaskClass

_MEMO = "history"


def pods_of(klass: TaskClass) -> Pods:
    """What one pod of a class asks for."""
    known: Pods | None = klass.memo.get(_MEMO)
    if known is None:
        gpu, requests = klass.gpu, klass.requests
        known = klass.memo[_MEMO] = Pods(
            count=1,
            cpu=int(requests.get(CPU)),
            memory=int(requests.get(MEMORY)),
            gpus=gpu.devices if gpu is not None else 0,
            share=(gpu.milli or WHOLE) if gpu is not None else WHOLE,  # of those that ask for memory: all of it
            models=models_of(klass) or (),
        )
    return known


def models_of(klass: TaskClass) -> tuple[str, ...] | None:
    """The models of GPUs that will do for a class; None if it selects nodes in another way."""
    spec = klass.spec
    chosen = dict(spec.node_selector or {})
    model = chosen.pop(keys.GPU_MODEL, None)
    if chosen or (spec.affinity is not None and model is not None):
        return None
    if model is not None:
        return (model,)
    return () if spec.affinity is None else _of_affinity(spec.affinity)


def _of_affinity(affinity: Affinity) -> tuple[str, ...] | None:
    nodes = affinity.node_affinity
    if affinity.pod_affinity or affinity.pod_anti_affinity or nodes is None or nodes.preferred or not nodes.required:
        return None
    match nodes.required.node_selector_terms:
        case (term,) if not term.match_fields and len(term.match_expressions or ()) == 1:
            (wanted,) = term.match_expressions or ()
            if wanted.key == keys.GPU_MODEL and wanted.operator == "In":
                return tuple(wanted.values or ())
    return None


def picky(job: Job) -> bool:
    """Whether a job asks for more than a trace can say: other nodes than by model, volumes, claims, a topology."""
    if job.has_topology or job.policies:
        return True
    return any(_picky(klass) for klass in {task.klass.id: task.klass for task in job.tasks.values()}.values())


def _picky(klass: TaskClass) -> bool:
    spec = klass.spec
    claims = any(volume.persistent_volume_claim for volume in spec.volumes or ())
    return bool(models_of(klass) is None or spec.topology_spread_constraints or spec.resource_claims or claims)
