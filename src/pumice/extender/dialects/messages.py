"""What a message tells of a task, node, job, queue or cluster, in the documented form or in Volcano's.

The fields are those of the JSON: lower case is documented, Go's case is Volcano's. If an object has a name of
Volcano's, its fields count. What is derived from them
(``pod``, ``status``, ``node``, ``ledgers``, ``tasks``, ``group``, ``queue``, ``held``) is the API object and what
stands beside it; *bare* is what tells no more than names. Nothing else stands between these and what plugins see.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType, field
from msgspec.structs import replace

from pumice.extender.dialects.task_message import (
    DEFAULT_NAMESPACE,
    Amounts,
    GoResource,
    Ledger,
    Ledgers,
    Name,
    Namespace,
    TaskMessage,
    Texts,
    Whole,
    checked,
    given,
    ledger,
    less,
    quantities,
)
from pumice.extender.protocol import PartKind
from pumice.model import api


class NodeMessage(msgspec.Struct, dict=True, kw_only=True):
    """A node."""

    name: Name | UnsetType = UNSET
    labels: Texts | None = None
    annotations: Texts | None = None
    taints: tuple[api.Taint, ...] | None = None
    allocatable: Amounts | None = None
    idle: Amounts | None = None
    used: Amounts | None = None
    Name: str = ""
    Node: api.NodeObject | None = None
    Releasing: GoResource | None = None
    Pipelined: GoResource | None = None
    Idle: GoResource | None = None
    Used: GoResource | None = None
    Allocatable: GoResource | None = None
    Tasks: dict[str, TaskMessage] | None = None

    def __post_init__(self) -> None:
        _ = self.node, self.ledgers

    @cached_property
    def node(self) -> api.NodeObject:
        """The node.

        :raises InvalidInput: no name, or more of something than a cluster has.
        """
        node = self.Node
        if node is None:
            listed = self.Allocatable.quantities() if self.Allocatable is not None else quantities(self.allocatable)
            node = api.NodeObject(
                metadata=api.Metadata(labels=self.labels, annotations=self.annotations),
                spec=api.NodeSpec(taints=self.taints),
                status=api.NodeStatus(allocatable=listed, capacity=listed),
            )
        name = self.Name or given(self.name)
        if node.metadata.name != name:
            node = replace(node, metadata=replace(node.metadata, name=name))
        checked(node)
        return node

    @property
    def bare(self) -> bool:
        """Is only its name told?"""
        if self.Name:
            return self.Node is None and self.Allocatable is None
        return self.allocatable is None and self.labels is None and self.annotations is None and self.taints is None

    @property
    def tasks(self) -> list[TaskMessage] | None:
        """What stands on it, where that is told."""
        return None if self.Tasks is None else list(self.Tasks.values())

    @cached_property
    def ledgers(self) -> Ledgers | None:
        """What is free and taken.

        :raises InvalidInput: more of something than a cluster has.
        """
        go = bool(self.Name)
        idle, used = ledger(self.Idle if go else self.idle), ledger(self.Used if go else self.used)
        if idle is None and used is None:
            return None
        whole = ledger(self.Allocatable if go else self.allocatable)
        return Ledgers(
            less(whole, used) if idle is None else idle,
            less(whole, idle) if used is None else used,
            ledger(self.Releasing) or {},
            ledger(self.Pipelined) or {},
        )


class JobMessage(msgspec.Struct, dict=True, kw_only=True):
    """A job; of its tasks, which stand in Volcano's four times, only one set is read."""

    name: Name | UnsetType = UNSET
    uid: str | None = None
    namespace: Namespace | None = None
    queue: str | None = None
    min_available: Annotated[float, Meta(ge=0, le=2**31 - 1, multiple_of=1)] = field(default=0, name="minAvailable")
    priority: Whole = 0
    annotations: Texts | None = None
    members: list[TaskMessage] | None = None
    UID: str = ""
    Name: str = ""
    Namespace: str = ""
    Queue: str = ""
    Priority: int = 0
    MinAvailable: int = 0
    Tasks: dict[str, TaskMessage] | None = None
    TaskMinAvailable: dict[str, int] | None = None
    PodGroup: api.PodGroup | None = None

    def __post_init__(self) -> None:
        _ = self.tasks

    @cached_property
    def group(self) -> api.PodGroup:
        """Its pod group, under the name and in the queue that the job is said to have.

        :raises InvalidInput: no name, or one with a slash.
        """
        go = self._go
        namespace, name, uid = (self.Namespace, self.Name, self.UID) if go else (self.namespace, self.name, self.uid)
        if not name:
            namespace, _, name = (uid or "").partition("/")
        namespace, queue = namespace or DEFAULT_NAMESPACE, self.Queue if go else self.queue
        group = self.PodGroup or api.PodGroup(
            metadata=api.Metadata(annotations=self.annotations),
            spec=api.PodGroupSpec(min_member=self.counts[1], min_task_member=self.TaskMinAvailable),
        )
        meta = group.metadata
        if (meta.namespace, meta.name) != (namespace, name):
            group = replace(group, metadata=replace(meta, namespace=namespace, name=name))
        if queue and group.spec.queue != queue:
            group = replace(group, spec=replace(group.spec, queue=queue))
        checked(group)
        return group

    @property
    def counts(self) -> tuple[int, int]:
        """Its priority, and how many of its tasks it needs at once."""
        return (self.Priority, self.MinAvailable) if self._go else (int(self.priority), int(self.min_available))

    @cached_property
    def tasks(self) -> list[TaskMessage]:
        told, job = (self.Tasks or {}).values() if self._go else self.members or (), self.group.key
        return [task if task.Job or task.job else replace(task, Job=job, job=job) for task in told]

    @property
    def bare(self) -> bool:
        """Are only names and numbers told?"""
        return self.PodGroup is None if self._go else self.annotations is None

    @property
    def _go(self) -> bool:
        return bool(self.Name or self.UID)


class QueueMessage(msgspec.Struct, dict=True, kw_only=True):
    """A queue; its amounts, which Volcano does not tell, are those of this moment."""

    name: Name | UnsetType = UNSET
    weight: Whole = 0
    capability: Amounts | None = None
    deserved: Amounts | None = None
    guarantee: Amounts | None = None
    allocated: Amounts | None = None
    state: str | None = None
    Name: str = ""
    Weight: int = 0
    Queue: api.QueueObject | None = None

    def __post_init__(self) -> None:
        _ = self.queue, self.held

    @cached_property
    def queue(self) -> api.QueueObject:
        """The queue.

        :raises InvalidInput: no name, or more of something than a cluster has.
        """
        name, go = self.Name or given(self.name), bool(self.Name)
        queue = self.Queue or api.QueueObject(
            spec=api.QueueSpec(weight=self.Weight if go else int(self.weight)),
            status=api.QueueStatus(state="" if go else self.state or ""),
        )
        if queue.metadata.name != name:
            queue = replace(queue, metadata=replace(queue.metadata, name=name))
        if not go:
            spec = replace(
                queue.spec,
                capability=quantities(self.capability),
                deserved=quantities(self.deserved),
                guarantee=api.Guarantee(resource=quantities(self.guarantee)),
            )
            queue = replace(queue, spec=spec)
        checked(queue)
        return queue

    @cached_property
    def held(self) -> Ledger | None:
        """What it holds, where that is said."""
        return ledger(self.allocated)


class GpuMessage(msgspec.Struct):
    """A device: share used (0 to 1) and MiB in all."""

    index: str
    used: float = 0.0
    memory: float = 0.0


class Cluster(NamedTuple):
    """What is told when a session opens: messages, and objects that are only kept."""

    jobs: Sequence[JobMessage]
    nodes: Sequence[NodeMessage]
    queues: Sequence[QueueMessage]
    others: Sequence[api.AnyObject] = ()


class SnapshotMessage(msgspec.Struct):
    """A cluster in the documented form."""

    jobs: list[JobMessage] | None = None
    nodes: list[NodeMessage] | None = None
    queues: list[QueueMessage] | None = None


class _Quotas(msgspec.Struct):
    QuotaStatus: dict[str, api.QuotaStatus] | None = None


class OpeningMessage(msgspec.Struct, kw_only=True):
    """The body of onSessionOpen."""

    snapshot: SnapshotMessage | None = None
    Jobs: dict[str, JobMessage] | None = None
    Nodes: dict[str, NodeMessage] | None = None
    Queues: dict[str, QueueMessage] | None = None
    NamespaceInfo: dict[str, _Quotas] | None = None

    def cluster(self) -> Cluster:
        told, quotas = self.snapshot or SnapshotMessage(), self.NamespaceInfo or {}
        if self.Jobs is None and self.Nodes is None and self.Queues is None:
            return Cluster(told.jobs or (), told.nodes or (), told.queues or ())
        jobs, nodes, queues = self.Jobs or {}, self.Nodes or {}, self.Queues or {}
        others = [
            api.ResourceQuota(
                metadata=api.Metadata(namespace=namespace, name=name), spec=api.QuotaStatus(hard=one.hard), status=one
            )
            for namespace, info in quotas.items()
            for name, one in (info.QuotaStatus or {}).items()
        ]
        return Cluster(list(jobs.values()), list(nodes.values()), list(queues.values()), others)


SHAPES: Final[dict[PartKind, Any]] = {
    PartKind.TASK: TaskMessage,
    PartKind.NODE: NodeMessage,
    PartKind.JOB: JobMessage,
    PartKind.QUEUE: QueueMessage,
    PartKind.GPU: GpuMessage,
    PartKind.SNAPSHOT: OpeningMessage,
}
"""How each kind of part is read."""
