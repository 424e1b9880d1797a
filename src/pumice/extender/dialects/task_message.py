"""What a message tells of a task, in the documented form or in Volcano's; names and amounts in either.

Documented are cores and MiB, Go has thousandths; both are read in units of the ledgers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType, field
from msgspec.structs import replace

from pumice.errors import InvalidInput
from pumice.model import api
from pumice.model.dimensions import offered_dim, unit_of
from pumice.model.resources import LIMIT, Number, is_counted
from pumice.model.status import TaskStatus
from pumice.model.task import GROUP_ANNOTATION, PREEMPTABLE_KEY, ROLE_KEY, group_named

Ledger = Mapping[int, Number]
"""Amounts in the units of the ledgers, by dimension."""
MOST: Final = 7 * 10**13
"""Of anything, in documented units; ledgers hold a thousand times as much."""
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
"""Cores, MiB, whole units. What is allowed stands at the types, and the OpenAPI document is made from them."""


class Ledgers(NamedTuple):
    """What is free, taken, given back and promised on a node."""

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
"""What a pod shows under the name that its task's status has."""
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
        """Is only its name told?"""
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
