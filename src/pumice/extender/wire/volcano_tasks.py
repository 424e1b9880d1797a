"""Tasks and nodes as Volcano's Go code sends them.

What Volcano says beyond the neutral fields is kept in ``extra`` by its Go name, if it differs from the usual, so that
an object that came from Volcano goes back whole. Amounts that come from here always name cpu and memory.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pumice.errors import InvalidInput
from pumice.extender.wire import from_kube, to_kube
from pumice.extender.wire.gojson import sorted_map
from pumice.extender.wire.gostructs import GoNode, GoTask
from pumice.extender.wire.objects import STATUS_BITS, WireNode, WireTask
from pumice.extender.wire.volcano_parts import amounts_of, extra_of, resource_of, usual, with_extra

_STATUS_NAMES: Final = {bit: name for name, bit in STATUS_BITS.items()}
# The fields without a neutral name, and their usual values.
_USUAL_TASK: Final = usual(
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
_USUAL_NODE: Final = usual(
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


def read_task(task: GoTask) -> WireTask:
    """The task that Volcano sent; its queue is not told."""
    status = _STATUS_NAMES.get(task.Status)
    if status is None:
        raise InvalidInput(f"Status of task {task.UID!r}: must be one of {list(_STATUS_NAMES)}, got {task.Status}")
    extra = extra_of(task, _USUAL_TASK)
    requests = amounts_of(task.Resreq) or {}
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
    requests = resource_of({**task.requests, "pods": 1})
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
    return with_extra(go, task.extra)


def read_node(node: GoNode) -> WireNode:
    """The node that Volcano sent."""
    meta, taints, unschedulable = from_kube.node_head(node.Node)
    return WireNode(
        name=node.Name,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        taints=taints,
        unschedulable=unschedulable,
        allocatable=amounts_of(node.Allocatable) or {},
        capacity=amounts_of(node.Capacity),
        idle=amounts_of(node.Idle),
        used=amounts_of(node.Used),
        releasing=amounts_of(node.Releasing),
        pipelined=amounts_of(node.Pipelined),
        max_pods=node.Allocatable.MaxTaskNum if node.Allocatable else 0,
        tasks=[read_task(task) for task in (node.Tasks or {}).values()],
        node=node.Node,
        extra=extra_of(node, _USUAL_NODE),
    )


def write_node(node: WireNode) -> GoNode:
    """The node as Volcano would send it; what is not told is nothing (idle: what is allocatable less what is used)."""
    capacity = node.allocatable if node.capacity is None else node.capacity
    go = GoNode(
        Name=node.name,
        Node=to_kube.node_of(node),
        Releasing=resource_of(node.releasing or {}),
        Pipelined=resource_of(node.pipelined or {}),
        Idle=resource_of(node.free(), node.max_pods),
        Used=resource_of(node.used or {}),
        Allocatable=resource_of(node.allocatable, node.max_pods),
        Capacity=resource_of(capacity, int(capacity.get("pods", 0))),
        Tasks=sorted_map({f"{task.namespace}/{task.name}": write_task(task) for task in node.tasks}),
    )
    return with_extra(go, node.extra)


def _bit(task: WireTask) -> int:
    bit = STATUS_BITS.get(task.status)
    if bit is None:
        raise InvalidInput(f"status of task {task.uid!r}: must be one of {', '.join(STATUS_BITS)}, got {task.status!r}")
    return bit
