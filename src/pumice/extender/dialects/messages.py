"""The data of a message about a task, node, job, queue or cluster, in the documented form or in Volcano's.

The fields are those of the JSON: lower case is documented, Go's case is Volcano's. If an object has a name of
Volcano's, its fields count. The derived parts (``pod``, ``status``, ``node``, ``ledgers``, ``tasks``, ``group``,
``queue``, ``held``) are the API object and its context. *bare* marks a message with names only. Nothing else stands
between these and what plugins see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType, field
from msgspec.structs import replace

from pumice.errors import InvalidInput
from pumice.extender.protocol import PartKind
from pumice.model import api
from pumice.model.resources import LIMIT, Number, is_counted, offered_dim, unit_of
from pumice.model.status import TaskStatus
from pumice.model.task import GROUP_ANNOTATION, PREEMPTABLE_KEY, ROLE_KEY, group_named

Ledger = Mapping[int, Number]
"""Amounts in the units of the ledgers, by dimension."""
MOST: Final = 7 * 10**13
"""Amounts in documented units; ledgers hold a thousand times as much."""
MOST_MEMORY: Final = 6 * 10**10
"""MiB."""
_MIB: Final = 2**20
_GO_UNITS: Final = {"memory": 1, "pods": 1}
"""So many of Go's make one as written in a manifest; of everything else a thousand."""


def _between(least: int, most: int) -> dict[str, Any]:
    return {"type": "number", "minimum": least * most, "maximum": most}


def _memory(least: int) -> Meta:
    return Meta(extra_json_schema={"properties": {"memory": _between(least, MOST_MEMORY)}})


_Request: TypeAlias = Annotated[float, Meta(extra_json_schema=_between(0, MOST))]
_Amount: TypeAlias = Annotated[float, Meta(extra_json_schema=_between(-1, MOST))]
Requests: TypeAlias = Annotated[dict[str, _Request], _memory(0)]
Amounts: TypeAlias = Annotated[dict[str, _Amount], _memory(-1)]
"""Cores, MiB, whole units. The types state the permitted values, and the OpenAPI document is made from them."""


class Ledgers(NamedTuple):
    """The amounts that are free, used, released and promised on a node."""

    idle: Ledger
    used: Ledger
    releasing: Ledger = {}
    pipelined: Ledger = {}


class GoResource(msgspec.Struct):
    """Amounts: milli-cores, bytes, thousandths (``pods``: whole pods)."""

    MilliCPU: int | float = 0
    Memory: int | float = 0
    ScalarResources: dict[str, int | float] | None = None

    def quantities(self) -> dict[str, api.Quantity]:
        """The amounts as a manifest would write them."""
        return {name: amount / _GO_UNITS.get(name, 1000) for name, amount in self._named().items()}

    def _named(self) -> dict[str, int | float]:
        return {"cpu": self.MilliCPU, "memory": self.Memory, **(self.ScalarResources or {})}


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


def ledger(told: GoResource | Mapping[str, float] | None) -> Ledger | None:
    """Amounts of either form in ledger units, of the names that are counted; nothing of nothing.

    :raises InvalidInput: one that no machine has and that sums could not hold.
    """
    if told is None:
        return None
    if isinstance(told, GoResource):
        amounts, units, usual = told._named(), _GO_UNITS, 1000
    else:
        amounts, units, usual = cast("dict[str, int | float]", quantities(told)), {}, 1
    found: dict[int, int] = {}
    for name, amount in amounts.items():
        if not is_counted(name):
            continue
        scaled = amount * unit_of(name) // units.get(name, usual)
        if not -LIMIT < scaled < LIMIT:
            raise InvalidInput(f"amount of {name}: must be below {LIMIT} in ledger units, got {amount}")
        found[offered_dim(name)] = int(scaled)
    return found


def less(left: Ledger | None, right: Ledger | None) -> Ledger:
    """The difference, dimension by dimension."""
    left, right = left or {}, right or {}
    return {d: left.get(d, 0) - right.get(d, 0) for d in left.keys() | right.keys()}


# -- tasks ------------------------------------------------------------------------------------------------------------
DEFAULT_NAMESPACE: Final = "default"
_PHASES: Final = {status.title: status for status in TaskStatus}
_BITS: Final = {status.bit: status for status in TaskStatus}
_SHOWN: Final = frozenset({TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.UNKNOWN})
"""The pod phase for a task status."""
_UNPLACED: Final = frozenset({TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.PIPELINED})

Texts: TypeAlias = dict[str, str]
Name: TypeAlias = Annotated[str, Meta(pattern="^[^/]+$")]
Namespace: TypeAlias = Annotated[str, Meta(pattern="^[^/]*$")]
Whole: TypeAlias = Annotated[float, Meta(ge=-(2**31), le=2**31 - 1, multiple_of=1)]
"""To JSON 1.0 is as whole as 1."""
Phase: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": [*_PHASES, ""]})]


class TaskMessage(msgspec.Struct, dict=True, kw_only=True):
    """A task."""

    name: Name | UnsetType = UNSET
    uid: str | None = None
    namespace: Namespace | None = None
    job: str | None = None
    queue: str | None = None
    role: str | None = None
    resources: Requests | None = None
    priority: Whole | None = None
    labels: Texts | None = None
    annotations: Texts | None = None
    place: str | None = field(default=None, name="nodeName")
    phase: Phase | None = None
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
    PodAnnotations: Texts | None = None

    def __post_init__(self) -> None:
        _ = self.pod  # a rule that is broken is found when it is read

    @property
    def node(self) -> str:
        """Where it is."""
        return (self.NodeName if self._go else self.place) or ""

    @property
    def status(self) -> TaskStatus:
        """Its status.

        :raises InvalidInput: there is no such phase or status.
        """
        if self._go and self.Status not in _BITS:
            raise InvalidInput(f"Status of task {self.UID!r}: must be one of {list(_BITS)}, got {self.Status}")
        status = _BITS[self.Status] if self._go else _PHASES.get(self.phase or "Pending")
        if status is None:
            raise InvalidInput(f"phase: must be one of {', '.join(_PHASES)}, got {self.phase!r}")
        return status

    @property
    def bare(self) -> bool:
        """Report whether only its name is told."""
        if self._go:
            return self.Pod is None and self.Resreq is None
        return self.resources is None and self.labels is None and self.annotations is None

    @property
    def _go(self) -> bool:
        return bool(self.Name or self.UID)

    @cached_property
    def pod(self) -> api.Pod:
        """The pod, with what is said of its task beside it; the very pod of the message where that says all.

        :raises InvalidInput: no name, a status that there is not, or more of something than a cluster has.
        """
        go, status = self._go, self.status
        namespace = (self.Namespace if go else self.namespace) or ""
        name, uid = (self.Name, self.UID) if go else (given(self.name), self.uid or "")
        group = ((self.Job if go else self.job) or "").partition("/")[2]
        if self.bare:
            named = {GROUP_ANNOTATION: group} if group else None
            namespace = namespace or DEFAULT_NAMESPACE
            return api.Pod(metadata=api.Metadata(name=name, namespace=namespace, uid=uid, annotations=named))
        pod = self.Pod if self.Pod is not None else self._made_up(status)
        meta, spec = pod.metadata, pod.spec
        notes = dict(meta.annotations or {}) | dict((self.PodAnnotations if go else self.annotations) or {})
        if group:
            notes[GROUP_ANNOTATION] = group
        if role := self.TaskRole if go else self.role:
            notes.setdefault(ROLE_KEY, role)
        if not self.Preemptable:
            notes.setdefault(PREEMPTABLE_KEY, "false")
        namespace, uid = namespace or meta.namespace or DEFAULT_NAMESPACE, uid or meta.uid
        if (meta.name, meta.namespace, meta.uid) != (name, namespace, uid) or notes != (meta.annotations or {}):
            meta = replace(meta, name=name, namespace=namespace, uid=uid, annotations=notes)
        priority = self.Priority if go else self.priority
        if priority is not None and spec.priority != priority:
            spec = replace(spec, priority=int(priority))
        if self.node and status not in _UNPLACED and spec.node_name != self.node:
            spec = replace(spec, node_name=self.node)
        if meta is not pod.metadata or spec is not pod.spec:
            pod = replace(pod, metadata=meta, spec=spec)
        checked(pod)
        return pod

    def _made_up(self, status: TaskStatus) -> api.Pod:
        """A pod that asks for what its task is said to ask for."""
        asked = self.Resreq.quantities() if self.Resreq is not None else quantities(self.resources, 0)
        asked.pop("pods", None)
        container = api.Container(name="main", resources=api.ResourceRequirements(requests=asked))
        phase = status.title if status in _SHOWN else "Running" if status is TaskStatus.RELEASING else "Pending"
        return api.Pod(
            metadata=api.Metadata(labels=self.labels),
            spec=api.PodSpec(containers=(container,)),
            status=api.PodStatus(phase=phase),
        )


def uid_of(pod: api.Pod) -> str:
    """The UID of a pod's task: its own, or ``namespace/name``."""
    return pod.metadata.uid or pod.key


def group_of(pod: api.Pod) -> str:
    """The UID of the job of a pod's task, or nothing."""
    group = group_named(pod.metadata.annotations, pod.spec)
    return f"{pod.metadata.namespace}/{group}" if group else ""


def checked(thing: api.AnyObject) -> None:
    """Nothing, if the object has the names that it needs.

    :raises InvalidInput: it has none, or one with a slash.
    """
    meta, kind = thing.metadata, thing.kind_name
    for part in (meta.name, meta.namespace) if kind in ("Pod", "PodGroup") else (meta.name,):
        if not part or "/" in part:
            raise InvalidInput(f"{kind} {thing.key!r}: must have names, and no slash in them")


def given(name: str | UnsetType) -> str:
    if isinstance(name, UnsetType):
        raise InvalidInput("Object missing required field `name`")
    return name


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
        """Report whether only its name is told."""
        if self.Name:
            return self.Node is None and self.Allocatable is None
        return self.allocatable is None and self.labels is None and self.annotations is None and self.taints is None

    @property
    def tasks(self) -> list[TaskMessage] | None:
        """Its tasks, if told."""
        return None if self.Tasks is None else list(self.Tasks.values())

    @cached_property
    def ledgers(self) -> Ledgers | None:
        """The free and used amounts.

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
        """Report whether only names and numbers are told."""
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
        """The amounts that it holds, if told."""
        return ledger(self.allocated)


class GpuMessage(msgspec.Struct):
    """A device: share used (0 to 1) and MiB in all."""

    index: str
    used: float = 0.0
    memory: float = 0.0


class Cluster(NamedTuple):
    """The data of an opened session: messages, and objects that are only kept."""

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
