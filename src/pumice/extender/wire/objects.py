"""What messages speak of: tasks, nodes, jobs, queues, free of any JSON shape.

Amounts are exact numbers in base units: cpu in milli-cores, memory in bytes, pods in whole pods, everything else in
thousandths. They are ``int`` wherever they are whole. ``None`` means «the sender did not tell»; an empty text, list
or mapping means that there is nothing.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

Amounts: TypeAlias = dict[str, int | float]
"""Resource name -> amount in base units."""

Json: TypeAlias = dict[str, Any]
"""A JSON object that is passed on as it came."""

STATUS_BITS: Final = {
    "Pending": 1,
    "Allocated": 2,
    "Pipelined": 4,
    "Binding": 8,
    "Bound": 16,
    "Running": 32,
    "Releasing": 64,
    "Succeeded": 128,
    "Failed": 256,
    "Unknown": 512,
}
"""Every task status and the number under which Volcano sends it."""

HOLDING: Final = frozenset({"Allocated", "Binding", "Bound", "Running"})
"""The statuses whose tasks count as allocated in their job."""


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all neutral values: compared by content, never changed."""


class WireTask(Wire, frozen=True, kw_only=True):
    """One pod. ``requests`` leaves out the one place of a pod that every task takes (``pods: 1`` in Volcano)."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    job: str = ""
    """UID of its job: ``<namespace>/<pod group>``; empty for a pod without one."""
    queue: str = ""
    """Empty where the sender does not tell (Volcano and kube-scheduler do not)."""
    role: str = ""
    requests: Amounts = {}
    priority: int = 1
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_name: str = ""
    status: str = "Pending"
    """One of ``STATUS_BITS``."""
    preemptable: bool = True
    best_effort: bool = False
    gated: bool = False
    """The pod has a scheduling gate."""
    creation: str = ""
    """RFC 3339."""
    pod: Json | None = None
    """The Kubernetes object as the API server has it."""
    extra: Json = {}
    """What the sender said beyond these fields, by its own names; only the dialect it came from writes it again."""


class WireTaint(Wire, frozen=True, kw_only=True):
    """One taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class WireGpu(Wire, frozen=True, kw_only=True):
    """One device of a node. ``index`` is a text, as in KAI."""

    index: str
    used_share: float = 0.0
    """From 0 (free) to 1."""
    memory: int = 0
    """Bytes of the whole device; 0 if unknown."""


class WireNode(Wire, frozen=True, kw_only=True):
    """One node. Where a sender gives names only, everything but ``name`` is as below."""

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: list[WireTaint] = []
    unschedulable: bool = False
    allocatable: Amounts = {}
    capacity: Amounts | None = None
    idle: Amounts | None = None
    used: Amounts | None = None
    releasing: Amounts | None = None
    pipelined: Amounts | None = None
    max_pods: int = 0
    tasks: list[WireTask] = []
    node: Json | None = None
    """The Kubernetes object as the API server has it."""
    extra: Json = {}
    """As ``WireTask.extra``."""

    def free(self) -> Amounts:
        """What is idle: as told, else what is allocatable less what is used."""
        if self.idle is not None:
            return self.idle
        used = self.used or {}
        return {name: amount - used.get(name, 0) for name, amount in self.allocatable.items()}


class WireSubJob(Wire, frozen=True, kw_only=True):
    """One sub-group of a job; ``task_uids`` are UIDs of tasks of that job."""

    uid: str
    group: str
    min_available: int = 1
    priority: int = 0
    match_index: int = 0
    task_uids: list[str] = []
    extra: Json = {}
    """As ``WireTask.extra``."""


class WireJob(Wire, frozen=True, kw_only=True):
    """One pod group with its tasks."""

    uid: str = ""
    """``<namespace>/<name>``."""
    namespace: str = ""
    name: str = ""
    queue: str = ""
    min_available: int = 0
    role_minimums: dict[str, int] = {}
    priority: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    tasks: list[WireTask] = []
    preemptable: bool = False
    phase: str = ""
    """``Pending``, ``Inqueue``, ``Running``, ``Unknown``, ``Completed``, or empty: not told."""
    min_resources: Amounts | None = None
    allocated: Amounts | None = None
    requested: Amounts | None = None
    creation: str = ""
    """RFC 3339."""
    sub_jobs: list[WireSubJob] = []
    """Empty: one sub-job that holds all tasks."""
    pod_group: Json | None = None
    """The Kubernetes object as the API server has it."""
    extra: Json = {}
    """As ``WireTask.extra``."""


class WireQueue(Wire, frozen=True, kw_only=True):
    """One queue."""

    name: str
    weight: int = 0
    priority: int = 0
    parent: str = ""
    reclaimable: bool = True
    capability: Amounts = {}
    deserved: Amounts = {}
    guarantee: Amounts = {}
    allocated: Amounts = {}
    state: str = ""
    """``Open``, ``Closed``, ``Closing``, ``Unknown``, or empty: not told."""
    hierarchy: str = ""
    hierarchy_weights: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation: str = ""
    """RFC 3339."""
    queue: Json | None = None
    """The Kubernetes object as the API server has it."""


class WireSnapshot(Wire, frozen=True, kw_only=True):
    """The cluster when a session opens."""

    jobs: list[WireJob] = []
    nodes: list[WireNode] = []
    queues: list[WireQueue] = []
    namespaces: Json = {}
    """Namespace -> quota status; only namespaces that own a ResourceQuota."""
    revocable_nodes: list[str] = []
    """Names of nodes in a revocable zone."""


class WireVictims(Wire, frozen=True, kw_only=True):
    """Who would have to go from one node; a task may be known by its UID only."""

    tasks: list[WireTask] = []
    pdb_violations: int = 0
