"""What is said of a job, and by whom: its PodGroup; where that says nothing, its Workload, its pods, its namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from pumice.model import native
from pumice.model.api import PodGroup, PriorityClass
from pumice.model.job import Job
from pumice.model.keys import QUEUE_ANNOTATION
from pumice.model.native import NativePodGroup
from pumice.model.status import JobPhase
from pumice.model.task import Task

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState


class Said(NamedTuple):
    """What holds for a job."""

    queue: str
    """Its queue; nothing where nobody names one."""
    priority: int
    phase: str
    labels: Mapping[str, str] | None
    annotations: Mapping[str, str] | None
    together: bool = False


def told(state: ClusterState, job: Job, group: PodGroup) -> Said:
    """What a PodGroup says of a job, and others where it says nothing."""
    meta, spec = group.metadata, group.spec
    if not isinstance(group, NativePodGroup):
        priority = priority_of(state, spec.priority_class_name)
        return Said(spec.queue, priority, group.status.phase, meta.labels, meta.annotations)
    workload = state.kind(native.WORKLOAD).get(group.workload_key)
    labels, notes = native.said_of(workload, group)
    queue = notes.get(QUEUE_ANNOTATION) or min(filter(None, map(_queue_named, job._tasks.values())), default="")
    if not queue:
        namespace = state.kind("Namespace").get(meta.namespace)
        queue = (namespace.metadata.annotations or {}).get(QUEUE_ANNOTATION, "") if namespace is not None else ""
    same = isinstance(job.group, NativePodGroup) and job.group.metadata.uid == meta.uid
    phase = (job.phase if same else "") or JobPhase.PENDING
    return Said(queue, _native_priority(state, job, group), phase, labels, notes, group.spec.together)


def speaks_for(job: Job, task: Task) -> bool:
    """Does a pod say of its job, in a group of Kubernetes' own, what is not known yet?"""
    spec = cast(NativePodGroup, job.group).spec
    if spec.priority is None and not spec.priority_class_name and (task.pod.spec.priority or 0) > job.priority:
        return True
    queue = _queue_named(task)
    return bool(queue) and queue != job.queue and QUEUE_ANNOTATION not in job.annotations


def _queue_named(task: Task) -> str:
    return task.annotations.get(QUEUE_ANNOTATION, "")


def _native_priority(state: ClusterState, job: Job, group: NativePodGroup) -> int:
    """Its own, else that of its class, else the highest of its pods."""
    spec = group.spec
    if spec.priority is not None:
        return spec.priority
    if spec.priority_class_name:
        return priority_of(state, spec.priority_class_name)
    given = [task.pod.spec.priority for task in job._tasks.values() if task.pod.spec.priority is not None]
    return max(given) if given else priority_of(state, "")


def priority_of(state: ClusterState, class_name: str) -> int:
    """The value of a priority class; of none: the global default, else 0."""
    classes = state.kind("PriorityClass")
    named = classes.get(class_name) if class_name else None
    if named is not None:
        return cast(PriorityClass, named).value
    for other in classes.values():
        if cast(PriorityClass, other).global_default:
            return cast(PriorityClass, other).value
    return 0
