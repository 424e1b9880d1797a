"""The volcano dialect as it is read: Volcano's Go structs with API objects inside, and what they say beyond those."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec
from msgspec.structs import replace

from pumice.errors import InvalidInput
from pumice.extender.dialects.documented import DocGpu
from pumice.extender.dialects.told import (
    Ledger,
    Ledgers,
    ToldJob,
    ToldNode,
    ToldQueue,
    ToldSnapshot,
    ToldTask,
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


class GoTask(msgspec.Struct, kw_only=True):
    """What is read of TaskInfo; ``queue`` is said in both forms only."""

    UID: str = ""
    Job: str = ""
    Name: str = ""
    Namespace: str = ""
    TaskRole: str = ""
    Resreq: GoResource | None = None
    NodeName: str = ""
    Status: int = 1
    Priority: int = 1
    Preemptable: bool = True
    Pod: api.Pod | None = None
    PodAnnotations: dict[str, str] | None = None
    queue: str | None = None

    def told(self, queue: str = "") -> ToldTask:
        """The task that is told.

        :raises InvalidInput: a status that there is not, or no name.
        """
        status = _STATUSES.get(self.Status)
        if status is None:
            raise InvalidInput(f"Status of task {self.UID!r}: must be one of {list(_STATUSES)}, got {self.Status}")
        queue = self.queue or queue
        group = self.Job.partition("/")[2]
        if self.Pod is None and self.Resreq is None:
            pod = named_pod(self.Namespace, self.Name, self.UID, group)
            return ToldTask(pod, status, self.NodeName, queue, bare=True)
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
            node=self.NodeName,
            status=status,
        )
        checked(pod)
        return ToldTask(pod, status, self.NodeName, queue)


def _pod_of(requests: GoResource) -> api.Pod:
    asked = {name: amount for name, amount in requests.quantities().items() if name != "pods"}
    container = api.Container(name="main", resources=api.ResourceRequirements(requests=asked))
    return api.Pod(spec=api.PodSpec(containers=(container,)), status=api.PodStatus(phase="Pending"))


class GoNode(msgspec.Struct, kw_only=True):
    """What is read of NodeInfo."""

    Name: str
    Node: api.NodeObject | None = None
    Releasing: GoResource | None = None
    Pipelined: GoResource | None = None
    Idle: GoResource | None = None
    Used: GoResource | None = None
    Allocatable: GoResource | None = None
    Tasks: dict[str, GoTask] | None = None

    def told(self) -> ToldNode:
        """The node that is told.

        :raises InvalidInput: no name, or an amount that breaks a rule.
        """
        if self.Node is None and self.Allocatable is None:
            return ToldNode(api.NodeObject(metadata=api.Metadata(name=self.Name)), bare=True)
        node = self.Node
        if node is None:
            listed = (self.Allocatable or GoResource()).quantities()
            node = api.NodeObject(status=api.NodeStatus(allocatable=listed, capacity=listed))
        if node.metadata.name != self.Name:
            node = replace(node, metadata=replace(node.metadata, name=self.Name))
        checked(node)
        return ToldNode(node, self._ledgers(), tuple(task.told() for task in (self.Tasks or {}).values()))

    def _ledgers(self) -> Ledgers | None:
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


class GoJob(msgspec.Struct, kw_only=True):
    """What is read of JobInfo; of a job's tasks, which stand there four times, only one set."""

    UID: str = ""
    Name: str = ""
    Namespace: str = ""
    Queue: str = ""
    Priority: int = 0
    MinAvailable: int = 0
    Tasks: dict[str, GoTask] | None = None
    TaskMinAvailable: dict[str, int] | None = None
    PodGroup: api.PodGroup | None = None

    def told(self) -> ToldJob:
        """The job that is told; its tasks are in its queue.

        :raises InvalidInput: no name, or a value that breaks a rule.
        """
        group = self.PodGroup or api.PodGroup(
            spec=api.PodGroupSpec(min_member=self.MinAvailable, min_task_member=self.TaskMinAvailable)
        )
        namespace, name = (self.Namespace, self.Name) if self.Name else self.UID.partition("/")[::2]
        tasks = tuple(
            (task if task.Job else replace(task, Job=f"{namespace}/{name}")).told(self.Queue)
            for task in (self.Tasks or {}).values()
        )
        group = named_group(group, namespace, name, self.Queue)
        return ToldJob(group, self.Priority, self.MinAvailable, tasks, bare=self.PodGroup is None)


class GoQueue(msgspec.Struct, kw_only=True):
    """What is read of QueueInfo."""

    Name: str
    Weight: int = 0
    Queue: api.QueueObject | None = None

    def told(self) -> ToldQueue:
        """The queue that is told, but for what it holds.

        :raises InvalidInput: no name.
        """
        queue = self.Queue or api.QueueObject(spec=api.QueueSpec(weight=self.Weight))
        if queue.metadata.name != self.Name:
            queue = replace(queue, metadata=replace(queue.metadata, name=self.Name))
        checked(queue)
        return ToldQueue(queue)


class _Quotas(msgspec.Struct):
    QuotaStatus: dict[str, api.QuotaStatus] | None = None


class GoSnapshot(msgspec.Struct, kw_only=True):
    """What is read of the body of onSessionOpen."""

    Jobs: dict[str, GoJob] | None = None
    Nodes: dict[str, GoNode] | None = None
    Queues: dict[str, GoQueue] | None = None
    NamespaceInfo: dict[str, _Quotas] | None = None

    def told(self) -> ToldSnapshot:
        """The cluster that is told.

        :raises InvalidInput: a value that breaks a rule.
        """
        quotas = (
            api.ResourceQuota(
                metadata=api.Metadata(namespace=namespace, name=name), spec=api.QuotaStatus(hard=one.hard), status=one
            )
            for namespace, info in (self.NamespaceInfo or {}).items()
            for name, one in (info.QuotaStatus or {}).items()
        )
        return ToldSnapshot(
            tuple(job.told() for job in (self.Jobs or {}).values()),
            tuple(node.told() for node in (self.Nodes or {}).values()),
            tuple(queue.told() for queue in (self.Queues or {}).values()),
            tuple(quotas),
        )


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
