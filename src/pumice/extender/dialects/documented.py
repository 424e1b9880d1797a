"""The documented dialect as it is read: lower-case names, cores and MiB, only what the documentation names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, TypeAlias, cast

import msgspec

from pumice.errors import InvalidInput
from pumice.extender.dialects.documented_writing import DocumentedWriting
from pumice.extender.dialects.told import (
    DEFAULT_NAMESPACE,
    STATUSES,
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
from pumice.extender.protocol import PartKind
from pumice.model import api
from pumice.model.status import TaskStatus

_Texts: TypeAlias = dict[str, str]
DocNumbers: TypeAlias = dict[str, int | float]
_MIB: Final = 2**20
MOST: Final = 7 * 10**13
"""Of anything, in documented units; ledgers hold a thousand times as much."""
MOST_MEMORY: Final = 6 * 10**10
"""MiB."""


class DocTask(msgspec.Struct):
    """A task as documented."""

    uid: str | None = None
    namespace: str | None = None
    name: str | None = None
    job: str | None = None
    queue: str | None = None
    role: str | None = None
    resources: DocNumbers | None = None
    priority: int | float | None = None
    labels: _Texts | None = None
    annotations: _Texts | None = None
    nodeName: str | None = None  # noqa: N815
    phase: str | None = None

    def told(self, job: str = "", queue: str = "") -> ToldTask:
        """The task that is told. Without resources, labels and annotations it is told by name only.

        :raises InvalidInput: a phase that there is not, no name, or an amount that is none.
        """
        status = STATUSES.get(self.phase or "Pending")
        if status is None:
            raise InvalidInput(f"phase: must be one of {', '.join(STATUSES)}, got {self.phase!r}")
        namespace, name, uid, node = self.namespace or "", self.name or "", self.uid or "", self.nodeName or ""
        job, queue = self.job or job, self.queue or queue
        priority = None if self.priority is None else whole("priority", self.priority)
        if self.resources is None and self.labels is None and self.annotations is None:
            named = named_pod(namespace, name, uid, job.partition("/")[2])
            checked(named)
            return ToldTask(named, status, node, queue, bare=True)
        if negative := [name for name, amount in (self.resources or {}).items() if amount < 0]:
            raise InvalidInput(f"resources {', '.join(negative)}: must not be negative")
        asked = {name: amount for name, amount in quantities(self.resources).items() if name != "pods"}
        container = api.Container(name="main", resources=api.ResourceRequirements(requests=asked))
        pod = complete_pod(
            api.Pod(
                metadata=api.Metadata(labels=self.labels),
                spec=api.PodSpec(containers=(container,)),
                status=api.PodStatus(phase=_phase(status)),
            ),
            namespace=namespace,
            name=name,
            uid=uid,
            job=job,
            role=self.role or "",
            annotations=self.annotations or {},
            preemptable=True,
            priority=priority,
            node=node,
            status=status,
        )
        checked(pod)
        return ToldTask(pod, status, node, queue)


class DocNode(msgspec.Struct):
    """A node as documented."""

    name: str
    labels: _Texts | None = None
    annotations: _Texts | None = None
    taints: tuple[api.Taint, ...] | None = None
    allocatable: DocNumbers | None = None
    idle: DocNumbers | None = None
    used: DocNumbers | None = None

    def told(self) -> ToldNode:
        """The node that is told. Without anything but a name it is told by name only.

        :raises InvalidInput: no name, or an amount that is none.
        """
        meta = api.Metadata(name=self.name, labels=self.labels, annotations=self.annotations)
        if self.allocatable is None and self.labels is None and self.annotations is None and self.taints is None:
            named = api.NodeObject(metadata=meta)
            checked(named)
            return ToldNode(named, self._ledgers(), bare=True)
        listed = quantities(self.allocatable)
        node = api.NodeObject(
            metadata=meta,
            spec=api.NodeSpec(taints=self.taints),
            status=api.NodeStatus(allocatable=listed, capacity=listed),
        )
        checked(node)
        return ToldNode(node, self._ledgers())

    def _ledgers(self) -> Ledgers | None:
        idle, used = self.idle, self.used
        if idle is None and used is None:
            return None
        whole = _ledger(self.allocatable)
        taken = _ledger(used) if used is not None else less(whole, _ledger(idle))
        return Ledgers(_ledger(idle) if idle is not None else less(whole, taken), taken)


class DocJob(msgspec.Struct):
    """A job as documented."""

    uid: str | None = None
    namespace: str | None = None
    name: str | None = None
    queue: str | None = None
    minAvailable: int | float = 0  # noqa: N815
    priority: int | float = 0
    annotations: _Texts | None = None
    members: list[DocTask] | None = None

    def told(self) -> ToldJob:
        """The job that is told. Without annotations it is told by name, queue, minimum and priority.

        :raises InvalidInput: no name, or a value that breaks a rule.
        """
        namespace, name = (self.namespace or "", self.name) if self.name else (self.uid or "").partition("/")[::2]
        uid = f"{namespace or DEFAULT_NAMESPACE}/{name}"
        least = whole("minAvailable", self.minAvailable)
        if least < 0:
            raise InvalidInput(f"minAvailable: must not be negative, got {least}")
        group = api.PodGroup(
            metadata=api.Metadata(annotations=self.annotations), spec=api.PodGroupSpec(min_member=least)
        )
        tasks = tuple(task.told(uid, self.queue or "") for task in self.members or ())
        group = named_group(group, namespace, name, self.queue or "")
        return ToldJob(group, whole("priority", self.priority), least, tasks, bare=self.annotations is None)


class DocQueue(msgspec.Struct):
    """A queue as documented."""

    name: str
    weight: int | float = 0
    capability: DocNumbers | None = None
    deserved: DocNumbers | None = None
    guarantee: DocNumbers | None = None
    allocated: DocNumbers | None = None
    state: str | None = None

    def told(self) -> ToldQueue:
        """The queue that is told.

        :raises InvalidInput: no name, or an amount that is none.
        """
        spec = api.QueueSpec(
            weight=whole("weight", self.weight),
            capability=quantities(self.capability),
            deserved=quantities(self.deserved),
            guarantee=api.Guarantee(resource=quantities(self.guarantee)),
        )
        queue = api.QueueObject(
            metadata=api.Metadata(name=self.name), spec=spec, status=api.QueueStatus(state=self.state or "")
        )
        checked(queue)
        return ToldQueue(queue, _ledger(self.allocated) if self.allocated is not None else None)


class DocSnapshot(msgspec.Struct):
    """A cluster in the documented form."""

    jobs: list[DocJob] | None = None
    nodes: list[DocNode] | None = None
    queues: list[DocQueue] | None = None

    def told(self) -> ToldSnapshot:
        """The cluster that is told.

        :raises InvalidInput: a value that breaks a rule.
        """
        return ToldSnapshot(
            tuple(job.told() for job in self.jobs or ()),
            tuple(node.told() for node in self.nodes or ()),
            tuple(queue.told() for queue in self.queues or ()),
        )


class _Opening(msgspec.Struct):
    snapshot: DocSnapshot | None = None

    def told(self) -> ToldSnapshot:
        return (self.snapshot or DocSnapshot()).told()


class DocGpu(msgspec.Struct):
    """A device: share used (0 to 1) and MiB in all."""

    index: str
    used: float = 0.0
    memory: int | float = 0

    def told(self) -> str:
        """Its index."""
        return self.index


def quantities(documented: Mapping[str, int | float] | None) -> dict[str, api.Quantity]:
    """Documented amounts as a manifest would write them.

    :raises InvalidInput: more, or less, than a cluster has.
    """
    found: dict[str, api.Quantity] = {}
    for name, amount in (documented or {}).items():
        most = MOST_MEMORY if name == "memory" else MOST
        if not -most <= amount <= most:
            raise InvalidInput(f"amount of {name}: must be below {most}, got {amount}")
        found[name] = round(amount * _MIB if name == "memory" else amount, 9)
    return found


def whole(name: str, number: int | float) -> int:
    """A whole number of 32 bits; 3.0 is one.

    :raises InvalidInput: it is none.
    """
    if number != int(number) or not -(2**31) <= number < 2**31:
        raise InvalidInput(f"{name}: must be a whole number of 32 bits, got {number}")
    return int(number)


def _ledger(documented: Mapping[str, int | float] | None) -> Ledger:
    return ledger(cast("dict[str, int | float]", quantities(documented)), {}, 1)


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
