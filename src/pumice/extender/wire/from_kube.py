"""Neutral values out of Kubernetes objects (pods, nodes, queues, pod groups), by Volcano's rules.

Every function here raises ``msgspec.ValidationError`` (which names the path) where a part of the object has another
type than Kubernetes gives it, and ``InvalidInput`` where an amount is no quantity.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import msgspec

from pumice.extender.wire import amounts
from pumice.extender.wire.objects import Amounts, Json, WireNode, WireQueue, WireTaint, WireTask

GROUP: Final = "scheduling.k8s.io/group-name"
QUEUE: Final = "scheduling.volcano.sh/queue-name"
ROLE: Final = "volcano.sh/task-spec"
PREEMPTABLE: Final = "volcano.sh/preemptable"
TASK_PRIORITY: Final = "volcano.sh/task-priority"

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_SMALLEST: Final = 0.1
_INTEGER: Final = re.compile("[+-]?[0-9]+")

_Quantities: TypeAlias = dict[str, str | int | float]
_Texts: TypeAlias = dict[str, str]


class Metadata(msgspec.Struct):
    """What is read of an object's metadata."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    creationTimestamp: str | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    labels: _Texts | None = None
    annotations: _Texts | None = None


class _Resources(msgspec.Struct):
    requests: _Quantities | None = None


class _Container(msgspec.Struct):
    resources: _Resources | None = None
    restartPolicy: str | None = None  # noqa: N815


class _PodSpec(msgspec.Struct):
    containers: list[_Container] | None = None
    initContainers: list[_Container] | None = None  # noqa: N815
    resources: _Resources | None = None
    overhead: _Quantities | None = None
    nodeName: str | None = None  # noqa: N815
    priority: int | None = None
    schedulingGates: list[Json] | None = None  # noqa: N815


class _PodStatus(msgspec.Struct):
    phase: str | None = None


class _Pod(msgspec.Struct):
    metadata: Metadata | None = None
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _Taint(msgspec.Struct):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class _NodeSpec(msgspec.Struct):
    taints: list[_Taint] | None = None
    unschedulable: bool | None = None


class _NodeStatus(msgspec.Struct):
    allocatable: _Quantities | None = None
    capacity: _Quantities | None = None


class _Node(msgspec.Struct):
    metadata: Metadata | None = None
    spec: _NodeSpec | None = None


class _Sized(msgspec.Struct):
    status: _NodeStatus | None = None


class _Guarantee(msgspec.Struct):
    resource: _Quantities | None = None


class _QueueSpec(msgspec.Struct):
    priority: int | None = None
    parent: str | None = None
    reclaimable: bool | None = None
    capability: _Quantities | None = None
    deserved: _Quantities | None = None
    guarantee: _Guarantee | None = None


class _QueueStatus(msgspec.Struct):
    state: str | None = None
    allocated: _Quantities | None = None


class _Queue(msgspec.Struct):
    metadata: Metadata | None = None
    spec: _QueueSpec | None = None
    status: _QueueStatus | None = None


class _PodGroupSpec(msgspec.Struct):
    minResources: _Quantities | None = None  # noqa: N815


class _PodGroupStatus(msgspec.Struct):
    phase: str | None = None


class PodGroup(msgspec.Struct):
    """What is read of a pod group."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: _PodGroupSpec = msgspec.field(default_factory=_PodGroupSpec)
    status: _PodGroupStatus = msgspec.field(default_factory=_PodGroupStatus)

    def min_resources(self) -> Amounts | None:
        """The resources asked for as a minimum; ``None`` if none are."""
        asked = self.spec.minResources
        return None if asked is None else amounts.from_quantities(asked)


class _Headed(msgspec.Struct):
    metadata: Metadata | None = None


def metadata(thing: Json | None) -> Metadata:
    """The metadata of any Kubernetes object; empty if it has none."""
    return (msgspec.convert(thing, _Headed).metadata if thing else None) or Metadata()


def pod_group(thing: Json | None) -> PodGroup:
    """What is read of a pod group; empty if there is none."""
    return msgspec.convert(thing or {}, PodGroup)


def task_from_pod(pod: Json) -> WireTask:
    """The task that a pod stands for; its queue is known only if an annotation names it."""
    shape = msgspec.convert(pod, _Pod)
    meta, spec = shape.metadata or Metadata(), shape.spec or _PodSpec()
    labels, annotations = meta.labels or {}, meta.annotations or {}
    namespace, group = meta.namespace or "", annotations.get(GROUP)
    requests = _requests(spec)
    return WireTask(
        uid=meta.uid or "",
        namespace=namespace,
        name=meta.name or "",
        job=f"{namespace}/{group}" if group else "",
        queue=annotations.get(QUEUE, ""),
        role=annotations.get(ROLE) or labels.get(ROLE, ""),
        requests=requests,
        priority=_priority(spec, annotations),
        labels=labels,
        annotations=annotations,
        node_name=spec.nodeName or "",
        status=_status(meta, spec, shape.status),
        preemptable=is_preemptable(labels, annotations),
        best_effort=is_best_effort(requests),
        gated=bool(spec.schedulingGates),
        creation=meta.creationTimestamp or "",
        pod=pod,
    )


def node_from_node(node: Json) -> WireNode:
    """The node that a Kubernetes node stands for; what is placed on it is not told."""
    meta, taints, unschedulable = node_head(node)
    status = msgspec.convert(node, _Sized).status or _NodeStatus()
    allocatable = amounts.from_quantities(status.allocatable)
    return WireNode(
        name=meta.name or "",
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        taints=taints,
        unschedulable=unschedulable,
        allocatable=allocatable,
        capacity=amounts.from_quantities(status.capacity),
        max_pods=int(allocatable.get("pods", 0)),
        node=node,
    )


def node_head(node: Json | None) -> tuple[Metadata, list[WireTaint], bool]:
    """Metadata and taints of a Kubernetes node, and whether it is unschedulable."""
    shape = msgspec.convert(node or {}, _Node)
    spec = shape.spec or _NodeSpec()
    taints = [WireTaint(key=t.key or "", value=t.value or "", effect=t.effect or "") for t in spec.taints or ()]
    return shape.metadata or Metadata(), taints, bool(spec.unschedulable)


def queue_from_queue(queue: Json | None) -> WireQueue:
    """The queue that a Kubernetes queue stands for, but for what Volcano keeps beside it: weight and hierarchy."""
    shape = msgspec.convert(queue or {}, _Queue)
    meta, spec, status = shape.metadata or Metadata(), shape.spec or _QueueSpec(), shape.status or _QueueStatus()
    return WireQueue(
        name=meta.name or "",
        priority=spec.priority or 0,
        parent=spec.parent or "",
        reclaimable=spec.reclaimable is not False,
        capability=amounts.from_quantities(spec.capability),
        deserved=amounts.from_quantities(spec.deserved),
        guarantee=amounts.from_quantities(spec.guarantee.resource if spec.guarantee else None),
        allocated=amounts.from_quantities(status.allocated),
        state=status.state or "",
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        creation=meta.creationTimestamp or "",
        queue=queue,
    )


def is_preemptable(labels: _Texts, annotations: _Texts) -> bool:
    """Whether a task may be a victim: as it says itself, else yes."""
    said = annotations.get(PREEMPTABLE, labels.get(PREEMPTABLE))
    return True if said is None else said in _TRUE


def is_best_effort(requests: Amounts) -> bool:
    """Whether these requests are nothing to speak of."""
    return all(amount < _SMALLEST for name, amount in requests.items() if name != "pods")


def _requests(spec: _PodSpec) -> Amounts:
    """What a pod takes: its containers together, or its largest initial step if that is more."""
    regular = amounts.total([_asked(container.resources) for container in spec.containers or ()])
    restartable: Amounts = {}
    largest: Amounts = {}
    for container in spec.initContainers or ():
        asked = _asked(container.resources)
        step = amounts.total([restartable, asked])
        if container.restartPolicy == "Always":
            regular, restartable = amounts.total([regular, asked]), step
        largest = amounts.largest(largest, step)
    asked = amounts.largest(regular, largest) | _asked(spec.resources)
    result = amounts.total([asked, amounts.from_quantities(spec.overhead)])
    result.pop("pods", None)
    return result


def _asked(resources: _Resources | None) -> Amounts:
    return amounts.from_quantities(resources.requests) if resources else {}


def _priority(spec: _PodSpec, annotations: _Texts) -> int:
    said = annotations.get(TASK_PRIORITY, "")
    if _INTEGER.fullmatch(said) and -(2**31) <= int(said) < 2**31:
        return int(said)
    return 1 if spec.priority is None else spec.priority


def _status(meta: Metadata, spec: _PodSpec, status: _PodStatus | None) -> str:
    phase = status.phase if status else None
    if phase in ("Succeeded", "Failed"):
        return phase
    if phase in ("Running", "Pending") and meta.deletionTimestamp:
        return "Releasing"
    if phase == "Running":
        return "Running"
    if phase == "Pending":
        return "Bound" if spec.nodeName else "Pending"
    return "Unknown"
