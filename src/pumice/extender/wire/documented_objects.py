"""Objects in the documented form: lower-case names, cores and MiB, only what the documentation names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from pumice.errors import InvalidInput
from pumice.extender.wire import from_kube
from pumice.extender.wire.amounts import from_documented, to_documented
from pumice.extender.wire.forms import Form, Forms
from pumice.extender.wire.gojson import numbers
from pumice.extender.wire.objects import (
    STATUS_BITS,
    Amounts,
    WireGpu,
    WireJob,
    WireNode,
    WireQueue,
    WireSnapshot,
    WireTaint,
    WireTask,
)

_Texts: TypeAlias = dict[str, str]
_Numbers: TypeAlias = dict[str, int | float]


class DocTask(msgspec.Struct):
    """A task as documented."""

    uid: str | None = None
    namespace: str | None = None
    name: str | None = None
    job: str | None = None
    queue: str | None = None
    role: str | None = None
    resources: _Numbers | None = None
    priority: int | None = None
    labels: _Texts | None = None
    annotations: _Texts | None = None
    nodeName: str | None = None  # noqa: N815
    phase: str | None = None


class DocTaint(msgspec.Struct):
    """A taint as in Kubernetes."""

    key: str = ""
    value: str = ""
    effect: str = ""


class DocNode(msgspec.Struct):
    """A node as documented."""

    name: str
    labels: _Texts | None = None
    annotations: _Texts | None = None
    taints: list[DocTaint] | None = None
    allocatable: _Numbers | None = None
    idle: _Numbers | UnsetType | None = UNSET
    used: _Numbers | UnsetType | None = UNSET


class DocJob(msgspec.Struct):
    """A job as documented."""

    uid: str | None = None
    namespace: str | None = None
    name: str | None = None
    queue: str | None = None
    minAvailable: int = 0  # noqa: N815
    priority: int = 0
    annotations: _Texts | None = None
    members: list[DocTask] | None = None


class DocQueue(msgspec.Struct):
    """A queue as documented."""

    name: str
    weight: int = 0
    capability: _Numbers | None = None
    deserved: _Numbers | None = None
    guarantee: _Numbers | None = None
    allocated: _Numbers | None = None
    state: str | None = None


class DocSnapshot(msgspec.Struct):
    """A cluster in the documented form."""

    jobs: list[DocJob] | None = None
    nodes: list[DocNode] | None = None
    queues: list[DocQueue] | None = None


class DocGpu(msgspec.Struct):
    """A device: share used (0 to 1) and MiB in all."""

    index: str
    used: float = 0.0
    memory: int | float = 0


def read_task(task: DocTask) -> WireTask:
    """The task that is told; what the documentation has no field for is as its annotations and requests say."""
    status = task.phase or "Pending"
    if status not in STATUS_BITS:
        raise InvalidInput(f"phase: must be one of {', '.join(STATUS_BITS)}, got {status!r}")
    labels, annotations, requests = task.labels or {}, task.annotations or {}, _base(task.resources)
    requests.pop("pods", None)
    return WireTask(
        uid=task.uid or "",
        namespace=task.namespace or "",
        name=task.name or "",
        job=task.job or "",
        queue=task.queue or "",
        role=task.role or "",
        requests=requests,
        priority=1 if task.priority is None else task.priority,
        labels=labels,
        annotations=annotations,
        node_name=task.nodeName or "",
        status=status,
        preemptable=from_kube.is_preemptable(labels, annotations),
        best_effort=from_kube.is_best_effort(requests),
    )


def write_task(task: WireTask) -> DocTask:
    """The task as documented."""
    return DocTask(
        uid=task.uid,
        namespace=task.namespace,
        name=task.name,
        job=task.job,
        queue=task.queue,
        role=task.role,
        resources=_shown({name: amount for name, amount in task.requests.items() if name != "pods"}),
        priority=task.priority,
        labels=task.labels,
        annotations=task.annotations,
        nodeName=task.node_name,
        phase=task.status,
    )


def read_node(node: DocNode) -> WireNode:
    """The node that is told."""
    allocatable = _base(node.allocatable)
    return WireNode(
        name=node.name,
        labels=node.labels or {},
        annotations=node.annotations or {},
        taints=[WireTaint(key=taint.key, value=taint.value, effect=taint.effect) for taint in node.taints or ()],
        allocatable=allocatable,
        idle=_base(node.idle) if isinstance(node.idle, dict) else None,
        used=_base(node.used) if isinstance(node.used, dict) else None,
        max_pods=int(allocatable.get("pods", 0)),
    )


def write_node(node: WireNode) -> DocNode:
    """The node as documented."""
    return DocNode(
        name=node.name,
        labels=node.labels,
        annotations=node.annotations,
        taints=[DocTaint(taint.key, taint.value, taint.effect) for taint in node.taints],
        allocatable=_shown(node.allocatable),
        idle=UNSET if node.idle is None else _shown(node.idle),
        used=UNSET if node.used is None else _shown(node.used),
    )


def read_job(job: DocJob) -> WireJob:
    """The job that is told."""
    return WireJob(
        uid=job.uid or "",
        namespace=job.namespace or "",
        name=job.name or "",
        queue=job.queue or "",
        min_available=job.minAvailable,
        priority=job.priority,
        annotations=job.annotations or {},
        tasks=[read_task(task) for task in job.members or ()],
    )


def write_job(job: WireJob) -> DocJob:
    """The job as documented."""
    return DocJob(
        uid=job.uid,
        namespace=job.namespace,
        name=job.name,
        queue=job.queue,
        minAvailable=job.min_available,
        priority=job.priority,
        annotations=job.annotations,
        members=[write_task(task) for task in job.tasks],
    )


def read_queue(queue: DocQueue) -> WireQueue:
    """The queue that is told."""
    return WireQueue(
        name=queue.name,
        weight=queue.weight,
        capability=_base(queue.capability),
        deserved=_base(queue.deserved),
        guarantee=_base(queue.guarantee),
        allocated=_base(queue.allocated),
        state=queue.state or "",
    )


def write_queue(queue: WireQueue) -> DocQueue:
    """The queue as documented."""
    return DocQueue(
        name=queue.name,
        weight=queue.weight,
        capability=_shown(queue.capability),
        deserved=_shown(queue.deserved),
        guarantee=_shown(queue.guarantee),
        allocated=_shown(queue.allocated),
        state=queue.state,
    )


def read_snapshot(snapshot: DocSnapshot) -> WireSnapshot:
    """The cluster that is told."""
    return WireSnapshot(
        jobs=[read_job(job) for job in snapshot.jobs or ()],
        nodes=[read_node(node) for node in snapshot.nodes or ()],
        queues=[read_queue(queue) for queue in snapshot.queues or ()],
    )


def write_snapshot(snapshot: WireSnapshot) -> DocSnapshot:
    """The cluster as documented."""
    return DocSnapshot(
        jobs=[write_job(job) for job in snapshot.jobs],
        nodes=[write_node(node) for node in snapshot.nodes],
        queues=[write_queue(queue) for queue in snapshot.queues],
    )


def read_gpu(gpu: DocGpu) -> WireGpu:
    """The device that is told."""
    return WireGpu(index=gpu.index, used_share=gpu.used, memory=int(from_documented("memory", gpu.memory)))


def write_gpu(gpu: WireGpu) -> DocGpu:
    """The device in documented units."""
    written = numbers({"used": gpu.used_share, "memory": to_documented("memory", gpu.memory)})
    return DocGpu(gpu.index, **written)


def _base(documented: Mapping[str, int | float] | None) -> Amounts:
    return {name: from_documented(name, number) for name, number in documented.items()} if documented else {}


def _shown(amounts: Amounts) -> _Numbers:
    return numbers({name: to_documented(name, amount) for name, amount in amounts.items()})


FORMS: Final[Forms] = {
    WireTask: Form(DocTask, read_task, write_task),
    WireNode: Form(DocNode, read_node, write_node),
    WireJob: Form(DocJob, read_job, write_job),
    WireQueue: Form(DocQueue, read_queue, write_queue),
    WireSnapshot: Form(DocSnapshot, read_snapshot, write_snapshot),
    WireGpu: Form(DocGpu, read_gpu, write_gpu),
}
"""Every kind of object in the documented form."""
