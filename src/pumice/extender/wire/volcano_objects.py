"""Objects as Volcano's Go code sends them.

What Volcano says beyond the neutral fields is kept in ``extra`` by its Go name, if it differs from the usual, so that
an object that came from Volcano goes back whole. Amounts that come from here always name cpu and memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar, cast

import msgspec

from pumice.errors import InvalidInput
from pumice.extender.wire import from_kube, to_kube
from pumice.extender.wire.amounts import tidy, total
from pumice.extender.wire.documented_objects import DocGpu, read_gpu, write_gpu
from pumice.extender.wire.forms import Form, Forms
from pumice.extender.wire.gojson import number, numbers, sorted_map
from pumice.extender.wire.gostructs import GoJob, GoNode, GoQueue, GoResource, GoSnapshot, GoSubJob, GoTask
from pumice.extender.wire.objects import (
    HOLDING,
    STATUS_BITS,
    Amounts,
    Json,
    WireGpu,
    WireJob,
    WireNode,
    WireQueue,
    WireSnapshot,
    WireSubJob,
    WireTask,
)

Go = TypeVar("Go", bound=msgspec.Struct)

_STATUS_NAMES: Final = {bit: name for name, bit in STATUS_BITS.items()}


def _usual(thing: msgspec.Struct, *names: str) -> Json:
    return {name: getattr(thing, name) for name in names}


# The fields without a neutral name, and their usual values.
_USUAL_TASK: Final = _usual(
    GoTask(),
    "DRAResreq",
    "ResourceClaimKeys",
    "ResourceClaimDRAResreq",
    "EvictionOccurred",
    "JobAllocatedHyperNode",
    "LastTransaction",
    "VolumeReady",
    "HasRestartableInitContainer",
    "RevocableZone",
    "NumaInfo",
    "CustomBindErrHandlerSucceeded",
)
_USUAL_NODE: Final = _usual(
    GoNode(Name=""),
    "State",
    "ResourceUsage",
    "NumaInfo",
    "UnassignedNumaPods",
    "NumaSchedulerInfo",
    "RevocableZone",
    "Others",
    "OversubscriptionNode",
    "OfflineJobEvicting",
    "OversubscriptionResource",
    "ImageStates",
    "Generation",
    "BindGeneration",
)
_USUAL_SUB_JOB: Final = _usual(GoSubJob(), "AllocatedHyperNode", "NominatedHyperNode", "NetworkTopology")
_USUAL_JOB: Final = _usual(
    GoJob(),
    "PgUID",
    "WaitingTime",
    "JobFitErrors",
    "NodesFitErrors",
    "AllocatedHyperNode",
    "NetworkTopology",
    "MinSubJobs",
    "ScheduleStartTimestamp",
    "RevocableZone",
    "Budget",
)


def read_task(task: GoTask) -> WireTask:
    """The task that Volcano sent; its queue is not told."""
    status = _STATUS_NAMES.get(task.Status)
    if status is None:
        raise InvalidInput(f"Status of task {task.UID!r}: must be one of {list(_STATUS_NAMES)}, got {task.Status}")
    extra = _extra(task, _USUAL_TASK)
    requests = _amounts(task.Resreq) or {}
    if requests.pop("pods", None) != 1:
        extra["Resreq"] = msgspec.to_builtins(task.Resreq)
    if task.InitResreq != task.Resreq:
        extra["InitResreq"] = msgspec.to_builtins(task.InitResreq)
    if task.PodAnnotations is None:
        extra["PodAnnotations"] = None
    if task.Pod is None:
        extra["Pod"] = None
    meta = from_kube.metadata(task.Pod)
    return WireTask(
        uid=task.UID,
        namespace=task.Namespace,
        name=task.Name,
        job=task.Job,
        role=task.TaskRole,
        requests=requests,
        priority=task.Priority,
        labels=meta.labels or {},
        annotations=task.PodAnnotations or meta.annotations or {},
        node_name=task.NodeName,
        status=status,
        preemptable=task.Preemptable,
        best_effort=task.BestEffort,
        gated=task.SchGated,
        creation=meta.creationTimestamp or "",
        pod=task.Pod,
        extra=extra,
    )


def write_task(task: WireTask) -> GoTask:
    """The task as Volcano would send it."""
    requests = _resource({**task.requests, "pods": 1})
    go = GoTask(
        UID=task.uid,
        Job=task.job,
        Name=task.name,
        Namespace=task.namespace,
        TaskRole=task.role,
        Resreq=requests,
        InitResreq=requests,
        NodeName=task.node_name,
        Status=_bit(task),
        Priority=task.priority,
        Preemptable=task.preemptable,
        BestEffort=task.best_effort,
        SchGated=task.gated,
        Pod=to_kube.pod_of(task),
        PodAnnotations=sorted_map(task.annotations),
    )
    return _with_extra(go, task.extra)


def read_node(node: GoNode) -> WireNode:
    """The node that Volcano sent."""
    meta, taints, unschedulable = from_kube.node_head(node.Node)
    return WireNode(
        name=node.Name,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        taints=taints,
        unschedulable=unschedulable,
        allocatable=_amounts(node.Allocatable) or {},
        capacity=_amounts(node.Capacity),
        idle=_amounts(node.Idle),
        used=_amounts(node.Used),
        releasing=_amounts(node.Releasing),
        pipelined=_amounts(node.Pipelined),
        max_pods=node.Allocatable.MaxTaskNum if node.Allocatable else 0,
        tasks=[read_task(task) for task in (node.Tasks or {}).values()],
        node=node.Node,
        extra=_extra(node, _USUAL_NODE),
    )


def write_node(node: WireNode) -> GoNode:
    """The node as Volcano would send it; what is not told is nothing (idle: what is allocatable less what is used)."""
    capacity = node.allocatable if node.capacity is None else node.capacity
    go = GoNode(
        Name=node.name,
        Node=to_kube.node_of(node),
        Releasing=_resource(node.releasing or {}),
        Pipelined=_resource(node.pipelined or {}),
        Idle=_resource(node.free(), node.max_pods),
        Used=_resource(node.used or {}),
        Allocatable=_resource(node.allocatable, node.max_pods),
        Capacity=_resource(capacity, int(capacity.get("pods", 0))),
        Tasks=sorted_map({f"{task.namespace}/{task.name}": write_task(task) for task in node.tasks}),
    )
    return _with_extra(go, node.extra)


def read_job(job: GoJob) -> WireJob:
    """The job that Volcano sent; its tasks are in its queue."""
    group = from_kube.pod_group(job.PodGroup)
    tasks = [msgspec.structs.replace(read_task(task), queue=job.Queue) for task in (job.Tasks or {}).values()]
    sub_jobs = [_read_sub_job(sub_job) for sub_job in (job.SubJobs or {}).values()]
    if sub_jobs == [_only_sub_job(job.UID, job.MinAvailable, tasks)]:
        sub_jobs = []
    return WireJob(
        uid=job.UID,
        namespace=job.Namespace,
        name=job.Name,
        queue=job.Queue,
        min_available=job.MinAvailable,
        role_minimums=job.TaskMinAvailable or {},
        priority=job.Priority,
        labels=group.metadata.labels or {},
        annotations=group.metadata.annotations or {},
        tasks=tasks,
        preemptable=job.Preemptable,
        phase=group.status.phase or "",
        min_resources=group.min_resources(),
        allocated=_amounts(job.Allocated),
        requested=_amounts(job.TotalRequest),
        creation=job.CreationTimestamp or "",
        sub_jobs=sub_jobs,
        pod_group=job.PodGroup,
        extra=_extra(job, _USUAL_JOB),
    )


def write_job(job: WireJob) -> GoJob:
    """The job as Volcano would send it, every task four times over."""
    tasks = {task.uid: write_task(task) for task in sorted(job.tasks, key=lambda task: task.uid)}
    sub_jobs = job.sub_jobs or [_only_sub_job(job.uid, job.min_available, job.tasks)]
    held = [task for task in job.tasks if task.status in HOLDING]
    go = GoJob(
        UID=job.uid,
        Name=job.name,
        Namespace=job.namespace,
        Queue=job.queue,
        Priority=job.priority,
        MinAvailable=job.min_available,
        SubJobs=sorted_map({sub_job.uid: _write_sub_job(job.uid, sub_job, tasks) for sub_job in sub_jobs}),
        TaskToSubJob=sorted_map({uid: sub_job.uid for sub_job in sub_jobs for uid in sub_job.task_uids}),
        TaskStatusIndex=_by_status(tasks),
        Tasks=tasks,
        TaskMinAvailable=sorted_map(job.role_minimums),
        TaskMinAvailableTotal=sum(job.role_minimums.values()),
        Allocated=_resource(_taken(held) if job.allocated is None else job.allocated),
        TotalRequest=_resource(_taken(job.tasks) if job.requested is None else job.requested),
        CreationTimestamp=job.creation or None,
        PodGroup=to_kube.pod_group_of(job),
        Preemptable=job.preemptable,
    )
    return _with_extra(go, job.extra)


def read_queue(queue: GoQueue) -> WireQueue:
    """The queue that Volcano sent."""
    return msgspec.structs.replace(
        from_kube.queue_from_queue(queue.Queue),
        name=queue.Name,
        weight=queue.Weight,
        hierarchy=queue.Hierarchy,
        hierarchy_weights=queue.Weights,
    )


def write_queue(queue: WireQueue) -> GoQueue:
    """The queue as Volcano would send it."""
    return GoQueue(
        UID=queue.name,
        Name=queue.name,
        Weight=queue.weight,
        Weights=queue.hierarchy_weights,
        Hierarchy=queue.hierarchy,
        Queue=to_kube.queue_of(queue),
    )


def read_snapshot(snapshot: GoSnapshot) -> WireSnapshot:
    """The cluster that Volcano sent."""
    return WireSnapshot(
        jobs=[read_job(job) for job in (snapshot.Jobs or {}).values()],
        nodes=[read_node(node) for node in (snapshot.Nodes or {}).values()],
        queues=[read_queue(queue) for queue in (snapshot.Queues or {}).values()],
        namespaces=snapshot.NamespaceInfo or {},
        revocable_nodes=list(snapshot.RevocableNodes or ()),
    )


def write_snapshot(snapshot: WireSnapshot) -> GoSnapshot:
    """The cluster as Volcano would send it."""
    nodes = {node.name: write_node(node) for node in snapshot.nodes}
    return GoSnapshot(
        Jobs=sorted_map({job.uid: write_job(job) for job in snapshot.jobs}),
        Nodes=sorted_map(nodes),
        Queues=sorted_map({queue.name: write_queue(queue) for queue in snapshot.queues}),
        NamespaceInfo=sorted_map(snapshot.namespaces),
        RevocableNodes={name: nodes[name] for name in sorted(snapshot.revocable_nodes) if name in nodes},
    )


def _read_sub_job(sub_job: GoSubJob) -> WireSubJob:
    return WireSubJob(
        uid=sub_job.UID,
        group=sub_job.GID,
        min_available=sub_job.MinAvailable,
        priority=sub_job.Priority,
        match_index=sub_job.MatchIndex,
        task_uids=list(sub_job.Tasks or ()),
        extra=_extra(sub_job, _USUAL_SUB_JOB),
    )


def _write_sub_job(job: str, sub_job: WireSubJob, tasks: Mapping[str, GoTask]) -> GoSubJob:
    members = {uid: tasks[uid] for uid in sorted(sub_job.task_uids) if uid in tasks}
    go = GoSubJob(
        GID=sub_job.group,
        UID=sub_job.uid,
        Job=job,
        MinAvailable=sub_job.min_available,
        Priority=sub_job.priority,
        MatchIndex=sub_job.match_index,
        Tasks=members,
        TaskStatusIndex=_by_status(members),
    )
    return _with_extra(go, sub_job.extra)


def _only_sub_job(job: str, min_available: int, tasks: list[WireTask]) -> WireSubJob:
    """The sub-job of a job without sub-groups."""
    return WireSubJob(
        uid=job,
        group=job,
        min_available=min_available,
        priority=max([0, *(task.priority for task in tasks)]),
        task_uids=sorted(task.uid for task in tasks),
    )


def _by_status(tasks: Mapping[str, GoTask]) -> dict[str, dict[str, GoTask]]:
    index: dict[str, dict[str, GoTask]] = {}
    for uid, task in tasks.items():
        index.setdefault(str(task.Status), {})[uid] = task
    return sorted_map(index)


def _taken(tasks: Iterable[WireTask]) -> Amounts:
    return total([{**task.requests, "pods": 1} for task in tasks])


def _bit(task: WireTask) -> int:
    bit = STATUS_BITS.get(task.status)
    if bit is None:
        raise InvalidInput(f"status of task {task.uid!r}: must be one of {', '.join(STATUS_BITS)}, got {task.status!r}")
    return bit


def _amounts(resource: GoResource | None) -> Amounts | None:
    if resource is None:
        return None
    named: Amounts = {"cpu": resource.MilliCPU, "memory": resource.Memory, **(resource.ScalarResources or {})}
    return {name: tidy(amount) for name, amount in named.items()}


def _resource(amounts: Amounts, max_tasks: int = 0) -> GoResource:
    scalars = numbers({name: amount for name, amount in amounts.items() if name not in ("cpu", "memory")})
    return GoResource(
        MilliCPU=cast("int", number(amounts.get("cpu", 0))),
        Memory=cast("int", number(amounts.get("memory", 0))),
        ScalarResources=scalars or None,
        MaxTaskNum=max_tasks,
    )


def _extra(go: msgspec.Struct, usual: Json) -> Json:
    return {name: msgspec.to_builtins(value) for name, known in usual.items() if (value := getattr(go, name)) != known}


def _with_extra(go: Go, extra: Json) -> Go:
    for name, value in extra.items():
        if name in go.__struct_fields__:
            setattr(go, name, value)
    return go


FORMS: Final[Forms] = {
    WireTask: Form(GoTask, read_task, write_task),
    WireNode: Form(GoNode, read_node, write_node),
    WireJob: Form(GoJob, read_job, write_job),
    WireQueue: Form(GoQueue, read_queue, write_queue),
    WireSnapshot: Form(GoSnapshot, read_snapshot, write_snapshot, inline=True),
    WireGpu: Form(DocGpu, read_gpu, write_gpu),
}
"""Every kind of object as Volcano sends it; devices, which it does not send, are as documented."""
