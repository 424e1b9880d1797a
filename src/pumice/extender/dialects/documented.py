"""The documented dialect as it is read: lower-case names, cores and MiB, only what the documentation names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from pumice.errors import InvalidInput
from pumice.extender.dialects.documented_writing import DocumentedWriting
from pumice.extender.dialects.messages import (
    STATUSES,
    Ledger,
    Ledgers,
    complete_pod,
    ledger,
    less,
    named_group,
    named_pod,
)
from pumice.extender.protocol import PartKind
from pumice.model import api
from pumice.model.status import TaskStatus

Texts: TypeAlias = dict[str, str]
MOST: Final = 7 * 10**13
"""Of anything, in documented units; ledgers hold a thousand times as much."""
MOST_MEMORY: Final = 6 * 10**10
"""MiB."""
_MIB: Final = 2**20


def _between(least: int, most: int) -> dict[str, Any]:
    return {"type": "number", "minimum": least * most, "maximum": most}


def _memory(least: int) -> Meta:
    return Meta(extra_json_schema={"properties": {"memory": _between(least, MOST_MEMORY)}})


Name: TypeAlias = Annotated[str, Meta(pattern="^[^/]+$")]
Namespace: TypeAlias = Annotated[str, Meta(pattern="^[^/]*$")]
Whole: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Phase: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": [*STATUSES, ""]})]
_Request: TypeAlias = Annotated[float, Meta(extra_json_schema=_between(0, MOST))]
_Amount: TypeAlias = Annotated[float, Meta(extra_json_schema=_between(-1, MOST))]
Requests: TypeAlias = Annotated[dict[str, _Request], _memory(0)]
Amounts: TypeAlias = Annotated[dict[str, _Amount], _memory(-1)]
"""Cores, MiB, whole units. What is allowed stands at the types, and the OpenAPI document is made from them."""


class DocTask(msgspec.Struct, dict=True, kw_only=True):
    """A task as documented. Without resources, labels and annotations it is told by name only."""

    name: Name
    uid: str | None = None
    namespace: Namespace | None = None
    job: str | None = None
    queue: str | None = None
    role: str | None = None
    resources: Requests | None = None
    priority: Whole | None = None
    labels: Texts | None = None
    annotations: Texts | None = None
    place: str | None = msgspec.field(default=None, name="nodeName")
    phase: Phase | None = None

    @property
    def node(self) -> str:
        """Where it is."""
        return self.place or ""

    @property
    def status(self) -> TaskStatus:
        """Its status.

        :raises InvalidInput: there is no such phase.
        """
        status = STATUSES.get(self.phase or "Pending")
        if status is None:
            raise InvalidInput(f"phase: must be one of {', '.join(STATUSES)}, got {self.phase!r}")
        return status

    @property
    def bare(self) -> bool:
        """Is only its name told?"""
        return self.resources is None and self.labels is None and self.annotations is None

    @cached_property
    def pod(self) -> api.Pod:
        """The pod.

        :raises InvalidInput: more of something than a cluster has.
        """
        namespace, uid, job = self.namespace or "", self.uid or "", self.job or ""
        status = self.status
        if self.bare:
            return named_pod(namespace, self.name, uid, job.partition("/")[2])
        asked = {name: amount for name, amount in quantities(self.resources, 0).items() if name != "pods"}
        container = api.Container(name="main", resources=api.ResourceRequirements(requests=asked))
        return complete_pod(
            api.Pod(
                metadata=api.Metadata(labels=self.labels),
                spec=api.PodSpec(containers=(container,)),
                status=api.PodStatus(phase=_phase(status)),
            ),
            namespace=namespace,
            name=self.name,
            uid=uid,
            job=job,
            role=self.role or "",
            annotations=self.annotations or {},
            preemptable=True,
            priority=self.priority,
            node=self.node,
            status=status,
        )


class DocNode(msgspec.Struct, dict=True, kw_only=True):
    """A node as documented. Without anything but a name it is told by name only."""

    tasks: ClassVar[None] = None

    name: Name
    labels: Texts | None = None
    annotations: Texts | None = None
    taints: tuple[api.Taint, ...] | None = None
    allocatable: Amounts | None = None
    idle: Amounts | None = None
    used: Amounts | None = None

    @cached_property
    def node(self) -> api.NodeObject:
        """The node.

        :raises InvalidInput: more of something than a cluster has.
        """
        listed = quantities(self.allocatable)
        return api.NodeObject(
            metadata=api.Metadata(name=self.name, labels=self.labels, annotations=self.annotations),
            spec=api.NodeSpec(taints=self.taints),
            status=api.NodeStatus(allocatable=listed, capacity=listed),
        )

    @property
    def bare(self) -> bool:
        """Is only its name told?"""
        return self.allocatable is None and self.labels is None and self.annotations is None and self.taints is None

    @cached_property
    def ledgers(self) -> Ledgers | None:
        """What is free and taken.

        :raises InvalidInput: more of something than a cluster has.
        """
        idle, used = self.idle, self.used
        if idle is None and used is None:
            return None
        whole = documented_ledger(self.allocatable)
        taken = documented_ledger(used) if used is not None else less(whole, documented_ledger(idle))
        return Ledgers(documented_ledger(idle) if idle is not None else less(whole, taken), taken)


class DocJob(msgspec.Struct, dict=True, kw_only=True):
    """A job as documented. Without annotations it is told by name, queue, minimum and priority."""

    name: Name | UnsetType = UNSET
    uid: str | None = None
    namespace: Namespace | None = None
    queue: str | None = None
    min_available: Annotated[int, Meta(ge=0, le=2**31 - 1)] = msgspec.field(default=0, name="minAvailable")
    priority: Whole = 0
    annotations: Texts | None = None
    members: list[DocTask] | None = None

    @cached_property
    def group(self) -> api.PodGroup:
        """Its pod group.

        :raises InvalidInput: no name.
        """
        namespace, name = (self.namespace or "", self.name) if self.name else (self.uid or "").partition("/")[::2]
        group = api.PodGroup(
            metadata=api.Metadata(annotations=self.annotations), spec=api.PodGroupSpec(min_member=self.min_available)
        )
        return named_group(group, namespace, name, self.queue or "")

    @cached_property
    def tasks(self) -> list[DocTask]:
        """Its tasks."""
        return [task if task.job else replace(task, job=self.group.key) for task in self.members or ()]

    @property
    def bare(self) -> bool:
        """Are only names and numbers told?"""
        return self.annotations is None


class DocQueue(msgspec.Struct, dict=True, kw_only=True):
    """A queue as documented."""

    name: Name
    weight: Whole = 0
    capability: Amounts | None = None
    deserved: Amounts | None = None
    guarantee: Amounts | None = None
    allocated: Amounts | None = None
    state: str | None = None

    @cached_property
    def queue(self) -> api.QueueObject:
        """The queue.

        :raises InvalidInput: more of something than a cluster has.
        """
        return api.QueueObject(
            metadata=api.Metadata(name=self.name),
            spec=api.QueueSpec(weight=self.weight, **amounts_of(self)),
            status=api.QueueStatus(state=self.state or ""),
        )

    @cached_property
    def held(self) -> Ledger | None:
        """What it holds."""
        return documented_ledger(self.allocated) if self.allocated is not None else None


class Cluster(NamedTuple):
    """What is told when a session opens: messages, and objects that are only kept."""

    jobs: Sequence[Any]
    nodes: Sequence[Any]
    queues: Sequence[Any]
    others: Sequence[api.AnyObject] = ()


class DocSnapshot(msgspec.Struct):
    """A cluster in the documented form."""

    jobs: list[DocJob] | None = None
    nodes: list[DocNode] | None = None
    queues: list[DocQueue] | None = None


class _Opening(msgspec.Struct):
    snapshot: DocSnapshot | None = None

    def cluster(self) -> Cluster:
        told = self.snapshot or DocSnapshot()
        return Cluster(told.jobs or (), told.nodes or (), told.queues or ())


class DocGpu(msgspec.Struct):
    """A device: share used (0 to 1) and MiB in all."""

    index: str
    used: float = 0.0
    memory: float = 0.0


def quantities(documented: Mapping[str, float] | None, least: int = -1) -> dict[str, api.Quantity]:
    """Documented amounts as a manifest would write them; *least* is 0 or -1 (may be negative).

    :raises InvalidInput: more, or less, than a cluster has.
    """
    found: dict[str, api.Quantity] = {}
    for name, amount in (documented or {}).items():
        most = MOST_MEMORY if name == "memory" else MOST
        if not least * most <= amount <= most:
            rule = f"must be below {most}" if amount > 0 or least else "must not be negative"
            raise InvalidInput(f"amount of {name}: {rule}, got {amount}")
        found[name] = round(amount * _MIB if name == "memory" else amount, 9)
    return found


def amounts_of(queue: Any) -> dict[str, Any]:
    """What the spec of a queue says where the documented amounts are these.

    :raises InvalidInput: more, or less, than a cluster has.
    """
    guarantee = api.Guarantee(resource=quantities(queue.guarantee))
    return {
        "capability": quantities(queue.capability),
        "deserved": quantities(queue.deserved),
        "guarantee": guarantee,
    }


def documented_ledger(documented: Mapping[str, float] | None) -> Ledger:
    """Documented amounts in the units of the ledgers.

    :raises InvalidInput: more, or less, than a cluster has.
    """
    return ledger(cast("dict[str, float]", quantities(documented)), {}, 1)


def _phase(status: TaskStatus) -> str:
    if status in (TaskStatus.RUNNING, TaskStatus.RELEASING):
        return "Running"
    return status.title if status in (TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.UNKNOWN) else "Pending"


class Documented(DocumentedWriting):
    """For services written from the documentation."""

    shapes: ClassVar[dict[PartKind, Any]] = {
        PartKind.TASK: DocTask,
        PartKind.NODE: DocNode,
        PartKind.JOB: DocJob,
        PartKind.QUEUE: DocQueue,
        PartKind.GPU: DocGpu,
        PartKind.SNAPSHOT: _Opening,
    }
