"""The structs that Volcano sends, field by field in Go's order, with the values that are usual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pumice.extender.wire.objects import Json


class GoResource(msgspec.Struct):
    """Amounts: milli-cores, bytes, thousandths (``pods``: whole pods)."""

    MilliCPU: int | float = 0
    Memory: int | float = 0
    ScalarResources: dict[str, int | float] | None = None
    MaxTaskNum: int = 0


class Skipped(msgspec.Struct):
    """An object of which only the key is read. Tasks and nodes are such where they stand a second time."""


class GoTask(Skipped, kw_only=True):
    """TaskInfo."""

    UID: str = ""
    Job: str = ""
    Name: str = ""
    Namespace: str = ""
    TaskRole: str = ""
    Resreq: GoResource | None = None
    InitResreq: GoResource | None = None
    DRAResreq: Any = None
    ResourceClaimKeys: Any = None
    ResourceClaimDRAResreq: Any = None
    NodeName: str = ""
    EvictionOccurred: bool = False
    JobAllocatedHyperNode: str = ""
    Status: int = 1
    LastTransaction: Any = None
    Priority: int = 1
    VolumeReady: bool = False
    Preemptable: bool = False
    BestEffort: bool = False
    HasRestartableInitContainer: bool = False
    SchGated: bool = False
    RevocableZone: str = ""
    NumaInfo: Any = msgspec.field(default_factory=lambda: {"Policy": "", "ResMap": {}})
    Pod: Json | None = None
    PodAnnotations: dict[str, str] | None = None
    CustomBindErrHandlerSucceeded: bool = False


class GoNode(Skipped, kw_only=True):
    """NodeInfo."""

    Name: str
    Node: Json | None = None
    State: Json = msgspec.field(default_factory=lambda: {"Phase": 1, "Reason": ""})
    Releasing: GoResource | None = None
    Pipelined: GoResource | None = None
    Idle: GoResource | None = None
    Used: GoResource | None = None
    Allocatable: GoResource | None = None
    Capacity: GoResource | None = None
    ResourceUsage: Any = msgspec.field(
        default_factory=lambda: {"MetricsTime": "0001-01-01T00:00:00Z", "CPUUsageAvg": {}, "MEMUsageAvg": {}}
    )
    Tasks: dict[str, GoTask] | None = None
    NumaInfo: Any = None
    UnassignedNumaPods: Any = None
    NumaSchedulerInfo: Any = None
    RevocableZone: str = ""
    Others: Any = msgspec.field(default_factory=dict)
    OversubscriptionNode: bool = False
    OfflineJobEvicting: bool = False
    OversubscriptionResource: GoResource | None = msgspec.field(default_factory=GoResource)
    ImageStates: Any = msgspec.field(default_factory=dict)
    Generation: int = 0
    BindGeneration: int = 0


class GoSubJob(msgspec.Struct, kw_only=True):
    """SubJobInfo."""

    GID: str = ""
    UID: str = ""
    Job: str = ""
    MinAvailable: int = 0
    Priority: int = 0
    MatchIndex: int = 0
    Tasks: Mapping[str, Skipped] | None = None
    TaskStatusIndex: Mapping[str, Mapping[str, Skipped]] | None = None
    AllocatedHyperNode: str = ""
    NominatedHyperNode: str = ""
    NetworkTopology: Any = None


class GoJob(msgspec.Struct, kw_only=True):
    """JobInfo."""

    UID: str = ""
    PgUID: str = ""
    Name: str = ""
    Namespace: str = ""
    Queue: str = ""
    Priority: int = 0
    MinAvailable: int = 0
    WaitingTime: int | None = None
    JobFitErrors: str = ""
    NodesFitErrors: Any = msgspec.field(default_factory=dict)
    AllocatedHyperNode: str = ""
    NetworkTopology: Any = None
    SubJobs: dict[str, GoSubJob] | None = None
    TaskToSubJob: dict[str, str] | None = None
    MinSubJobs: Any = msgspec.field(default_factory=dict)
    TaskStatusIndex: Mapping[str, Mapping[str, Skipped]] | None = None
    Tasks: dict[str, GoTask] | None = None
    TaskMinAvailable: dict[str, int] | None = None
    TaskMinAvailableTotal: int = 0
    Allocated: GoResource | None = None
    TotalRequest: GoResource | None = None
    CreationTimestamp: str | None = None
    PodGroup: Json | None = None
    ScheduleStartTimestamp: str | None = None
    Preemptable: bool = False
    RevocableZone: str = ""
    Budget: Any = msgspec.field(default_factory=lambda: {"MinAvailable": "", "MaxUnavailable": ""})


class GoQueue(msgspec.Struct, kw_only=True):
    """QueueInfo."""

    UID: str = ""
    Name: str
    Weight: int = 0
    Weights: str = ""
    Hierarchy: str = ""
    Queue: Json | None = None


class GoSnapshot(msgspec.Struct, kw_only=True):
    """The body of onSessionOpen."""

    Jobs: dict[str, GoJob] | None = None
    Nodes: dict[str, GoNode] | None = None
    Queues: dict[str, GoQueue] | None = None
    NamespaceInfo: Json | None = None
    RevocableNodes: Mapping[str, Skipped] | None = None
    NodeList: None = None
