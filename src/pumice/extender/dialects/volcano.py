"""The volcano dialect as it is read: Volcano's Go structs with API objects inside, and what they say beyond those."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Final

import msgspec
from msgspec.structs import replace

from pumice.errors import InvalidInput
from pumice.extender.dialects.documented import (
    Amounts,
    Cluster,
    DocGpu,
    DocSnapshot,
    amounts_of,
    documented_ledger,
)
from pumice.extender.dialects.messages import (
    Ledger,
    Ledgers,
    checked,
    complete_pod,
    ledger,
    less,
    named_group,
    named_pod,
)
from pumice.extender.dialects.volcano_writing import VolcanoWriting
from pumice.extender.protocol import PartKind
from pumice.model import api
from pumice.model.status import TaskStatus

_STATUSES: Final = {status.bit: status for status in TaskStatus}
_PER_UNIT: Final = {"memory": 1, "pods": 1}
_USUAL: Final = 1000


class GoResource(msgspec.Struct):
    """Amounts: milli-cores, bytes, thousandths (``pods``: whole pods)."""

    MilliCPU: int | float = 0
    Memory: int | float = 0
    ScalarResources: dict[str, int | float] | None = None

    def named(self) -> dict[str, int | float]:
        """The amounts by name."""
        return {"cpu": self.MilliCPU, "memory": self.Memory, **(self.ScalarResources or {})}

    def ledger(self) -> Ledger:
        """The amounts in the units of the ledgers."""
        return ledger(self.named(), _PER_UNIT, _USUAL)

    def quantities(self) -> dict[str, api.Quantity]:
        """The amounts as a manifest would write them."""
        return {name: amount / _PER_UNIT.get(name, _USUAL) for name, amount in self.named().items()}


class GoTask(msgspec.Struct, dict=True, kw_only=True):
    """What is read of TaskInfo; ``queue`` is said in both forms only."""

    UID: str = ""
    Job: str = ""
    Name: str = ""
    Namespace: str = ""
    TaskRole: str = ""
    Resreq: GoResource | None = None
    node: str = msgspec.field(default="", name="NodeName")
    Status: int = 1
    Priority: int = 1
    Preemptable: bool = True
    Pod: api.Pod | None = None
    PodAnnotations: dict[str, str] | None = None
    queue: str | None = None

    @property
    def status(self) -> TaskStatus:
        """Its status.

        :raises InvalidInput: there is no such status.
        """
        status = _STATUSES.get(self.Status)
        if status is None:
            raise InvalidInput(f"Status of task {self.UID!r}: must be one of {list(_STATUSES)}, got {self.Status}")
        return status

    @property
    def bare(self) -> bool:
        """Is only its name told?"""
        return self.Pod is None and self.Resreq is None

    @cached_property
    def pod(self) -> api.Pod:
        """The pod.

        :raises InvalidInput: no name, or a status that there is not.
        """
        status = self.status
        if self.bare:
            return named_pod(self.Namespace, self.Name, self.UID, self.Job.partition("/")[2])
        pod = complete_pod(
            self.Pod or _pod_of(self.Resreq or GoResource()),
            namespace=self.Namespace,
            name=self.Name,
            uid=self.UID,
            job=self.Job,
            role=self.TaskRole,
            annotations=self.PodAnnotations or {},
            preemptable=self.Preemptable,
            priority=self.Priority,
            node=self.node,
            status=status,
        )
        checked(pod)
        return pod


def _pod_of(requests: GoResource) -> api.Pod:
    asked = {name: amount for name, amount in requests.quantities().items() if name != "pods"}
    container = api.Container(name="main", resources=api.ResourceRequirements(requests=asked))
    return api.Pod(spec=api.PodSpec(containers=(container,)), status=api.PodStatus(phase="Pending"))


class GoNode(msgspec.Struct, dict=True, kw_only=True):
    """What is read of NodeInfo."""

    Name: str
    Node: api.NodeObject | None = None
    Releasing: GoResource | None = None
    Pipelined: GoResource | None = None
    Idle: GoResource | None = None
    Used: GoResource | None = None
    Allocatable: GoResource | None = None
    Tasks: dict[str, GoTask] | None = None

    @cached_property
    def node(self) -> api.NodeObject:
        """The node.

        :raises InvalidInput: no name.
        """
        node = self.Node
        if node is None:
            listed = self.Allocatable.quantities() if self.Allocatable is not None else None
            node = api.NodeObject(status=api.NodeStatus(allocatable=listed, capacity=listed))
        if node.metadata.name != self.Name:
            node = replace(node, metadata=replace(node.metadata, name=self.Name))
        checked(node)
        return node

    @property
    def bare(self) -> bool:
        """Is only its name told?"""
        return self.Node is None and self.Allocatable is None

    @property
    def tasks(self) -> list[GoTask] | None:
        """What stands on it, where that is told."""
        return None if self.Tasks is None else list(self.Tasks.values())

    @cached_property
    def ledgers(self) -> Ledgers | None:
        """What is free and taken.

        :raises InvalidInput: more of something than a cluster has.
        """
        idle, used = self.Idle, self.Used
        if idle is None and used is None:
            return None
        whole: Ledger = self.Allocatable.ledger() if self.Allocatable is not None else {}
        return Ledgers(
            idle.ledger() if idle is not None else less(whole, used.ledger() if used is not None else {}),
            used.ledger() if used is not None else less(whole, idle.ledger() if idle is not None else {}),
            self.Releasing.ledger() if self.Releasing is not None else {},
            self.Pipelined.ledger() if self.Pipelined is not None else {},
        )


class GoJob(msgspec.Struct, dict=True, kw_only=True):
    """What is read of JobInfo; of a job's tasks, which stand there four times, only one set."""

    UID: str = ""
    Name: str = ""
    Namespace: str = ""
    Queue: str = ""
    priority: int = msgspec.field(default=0, name="Priority")
    min_available: int = msgspec.field(default=0, name="MinAvailable")
    Tasks: dict[str, GoTask] | None = None
    TaskMinAvailable: dict[str, int] | None = None
    PodGroup: api.PodGroup | None = None

    @cached_property
    def group(self) -> api.PodGroup:
        """Its pod group.

        :raises InvalidInput: no name.
        """
        group = self.PodGroup or api.PodGroup(
            spec=api.PodGroupSpec(min_member=self.min_available, min_task_member=self.TaskMinAvailable)
        )
        namespace, name = (self.Namespace, self.Name) if self.Name else self.UID.partition("/")[::2]
        return named_group(group, namespace, name, self.Queue)

    @cached_property
    def tasks(self) -> list[GoTask]:
        """Its tasks."""
        tasks = (self.Tasks or {}).values()
        return [task if task.Job else replace(task, Job=self.group.key) for task in tasks]

    @property
    def bare(self) -> bool:
        """Are only names and numbers told?"""
        return self.PodGroup is None


class GoQueue(msgspec.Struct, dict=True, kw_only=True):
    """What is read of QueueInfo; amounts are said in both forms only, and are those of this moment."""

    Name: str
    Weight: int = 0
    Queue: api.QueueObject | None = None
    capability: Amounts | None = None
    deserved: Amounts | None = None
    guarantee: Amounts | None = None
    allocated: Amounts | None = None

    @cached_property
    def queue(self) -> api.QueueObject:
        """The queue.

        :raises InvalidInput: no name, or more of something than a cluster has.
        """
        queue = self.Queue or api.QueueObject(spec=api.QueueSpec(weight=self.Weight))
        if queue.metadata.name != self.Name:
            queue = replace(queue, metadata=replace(queue.metadata, name=self.Name))
        if self.allocated is not None:
            said = amounts_of(self)
            queue = replace(queue, spec=replace(queue.spec, **said))
        checked(queue)
        return queue

    @cached_property
    def held(self) -> Ledger | None:
        """What it holds, where that is said."""
        return documented_ledger(self.allocated) if self.allocated is not None else None


class _Quotas(msgspec.Struct):
    QuotaStatus: dict[str, api.QuotaStatus] | None = None


class GoSnapshot(msgspec.Struct, kw_only=True):
    """What is read of the body of onSessionOpen; in both forms the amounts of queues are the documented ones."""

    Jobs: dict[str, GoJob] | None = None
    Nodes: dict[str, GoNode] | None = None
    Queues: dict[str, GoQueue] | None = None
    NamespaceInfo: dict[str, _Quotas] | None = None
    snapshot: DocSnapshot | None = None

    def cluster(self) -> Cluster:
        """The cluster that is told."""
        quotas = [
            api.ResourceQuota(
                metadata=api.Metadata(namespace=namespace, name=name), spec=api.QuotaStatus(hard=one.hard), status=one
            )
            for namespace, info in (self.NamespaceInfo or {}).items()
            for name, one in (info.QuotaStatus or {}).items()
        ]
        jobs, nodes, queues = self.Jobs or {}, self.Nodes or {}, self.Queues or {}
        for said in (self.snapshot.queues if self.snapshot is not None else None) or ():
            if (own := queues.get(said.name)) is not None:
                own.capability, own.deserved, own.guarantee = said.capability, said.deserved, said.guarantee
                own.allocated = said.allocated
        return Cluster(list(jobs.values()), list(nodes.values()), list(queues.values()), quotas)


class Volcano(VolcanoWriting):
    """What Volcano's Go code really sends and reads. The verbs that it does not have speak of the same objects."""

    shapes: ClassVar[dict[PartKind, Any]] = {
        PartKind.TASK: GoTask,
        PartKind.NODE: GoNode,
        PartKind.JOB: GoJob,
        PartKind.QUEUE: GoQueue,
        PartKind.GPU: DocGpu,
        PartKind.SNAPSHOT: GoSnapshot,
    }
