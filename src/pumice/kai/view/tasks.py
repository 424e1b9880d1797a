"""Tasks of a session of KAI: their stages, and what they ask for."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from pumice.kai.view.queues import GPU_NAMES, NOTHING, Amounts
from pumice.kai.view.zones import ZonePlacement
from pumice.model.gpu import WHOLE, GpuRequest
from pumice.model.keys import MIG_RESOURCES, RECEIVED_TYPE
from pumice.model.node import Node
from pumice.model.resources import CPU, MEMORY, dim, dim_name
from pumice.model.status import TaskStatus
from pumice.model.task import Task, TaskClass
from pumice.state.devices import GROUP_LABEL, DeviceTable, groups_named

if TYPE_CHECKING:
    from pumice.kai.view.jobs import JobView, PodSet


class TaskStage(Enum):
    """The status of a task in a session of KAI."""

    __hash__ = object.__hash__  # sets of stages are asked all the time

    PENDING = "Pending"
    GATED = "Gated"
    ALLOCATED = "Allocated"
    PIPELINED = "Pipelined"
    BINDING = "Binding"
    BOUND = "Bound"
    RUNNING = "Running"
    RELEASING = "Releasing"
    STUCK = "StuckInReleasing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


ALLOCATED: Final = frozenset({TaskStage.ALLOCATED, TaskStage.BINDING, TaskStage.BOUND, TaskStage.RUNNING})
"""Holds room now: counts in its queue."""
ACTIVE: Final = ALLOCATED | {TaskStage.PIPELINED}
"""Has a place or a promised one (active-allocated)."""
USED: Final = ACTIVE | {TaskStage.RELEASING, TaskStage.STUCK}
"""Is on a node, also on its way out (active-used)."""
ALIVE: Final = ACTIVE | {TaskStage.PENDING, TaskStage.GATED}
"""Runs or may still run."""


_MIG: Final = re.compile(r"nvidia\.com/mig-(\d+)g\.\d+gb(.*)", re.ASCII)
_STAGES: Final = {
    TaskStatus.PENDING: TaskStage.PENDING,
    TaskStatus.ALLOCATED: TaskStage.ALLOCATED,
    TaskStatus.PIPELINED: TaskStage.PIPELINED,
    TaskStatus.BINDING: TaskStage.BINDING,
    TaskStatus.BOUND: TaskStage.BOUND,
    TaskStatus.RUNNING: TaskStage.RUNNING,
    TaskStatus.RELEASING: TaskStage.RELEASING,
    TaskStatus.SUCCEEDED: TaskStage.SUCCEEDED,
    TaskStatus.FAILED: TaskStage.FAILED,
    TaskStatus.UNKNOWN: TaskStage.UNKNOWN,
}


class TaskRequest:
    """The requests of the tasks of one class; equal tasks share one."""

    __slots__ = (
        *("amounts", "booked", "claimed", "claims", "cpu_only", "devices", "gpus", "items", "mig", "quota", "shared"),
    )

    def __init__(self, klass: TaskClass, claims: tuple[tuple[str, int], ...] = ()) -> None:
        """*claims*: device claims with the GPUs that each counts as."""
        gpu_dims = [dim(name) for name in GPU_NAMES]
        self.items: tuple[tuple[int, int], ...] = tuple((d, v) for d, v in klass.items if d not in gpu_dims)
        """Everything but GPUs, in ledger units."""
        gpu = klass.gpu
        self.shared: GpuRequest | None = gpu if gpu is not None and not gpu.whole else None
        """A share of so many devices."""
        self.gpus = gpu.devices * WHOLE if gpu is not None and gpu.whole else 0
        """Whole devices, in thousandths."""
        self.booked = (*self.items, (gpu_dims[0], self.gpus)) if self.gpus else self.items
        """Everything but shares of GPUs and claims: what is taken of a node, in ledger units."""
        self.devices = gpu.devices if gpu is not None else 0
        self.mig: tuple[tuple[int, int], ...] = tuple(
            (d, v) for d, v in self.items if dim_name(d).startswith(MIG_RESOURCES)
        )
        slices = sum(mig_slices(dim_name(d)) * v / 1000 for d, v in self.mig)
        share = self.shared.devices * self.shared.part if self.shared is not None else 0.0
        asked = dict(klass.items)
        self.quota: Amounts = (
            float(asked.get(CPU, 0)),
            float(asked.get(MEMORY, 0)),
            self.gpus / WHOLE + share + slices + sum(n for _, n in claims),
        )
        """The amounts that it counts in its queue; without GPU memory, which depends on the node."""
        self.claims = claims
        self.claimed = sum(n for _, n in claims) * WHOLE
        """GPUs of its claims, in thousandths."""
        self.cpu_only = gpu is None and not self.mig and not self.claimed
        self.amounts: dict[int, float] = {d: float(v) for d, v in self.items}
        """All that makes one request smaller than another; -1 stands for GPUs, -2 for memory of shared ones."""
        self.amounts[-1] = self.quota[2]
        if self.shared is not None:
            self.amounts[-2] = float(self.shared.memory)


def mig_slices(name: str) -> int:
    """How many GPUs an instance of a MIG resource counts as in quotas; 0 for what is none, or of a special profile."""
    found = _MIG.fullmatch(name)
    return int(found[1]) if found is not None and not found[2] else 0


def request_of(klass: TaskClass, claims: tuple[tuple[str, int], ...] = ()) -> TaskRequest:
    """The requests of the tasks of a class, with these device claims."""
    if claims:
        return TaskRequest(klass, claims)
    known: TaskRequest | None = klass.memo.get("kai.request")
    if known is None:
        known = klass.memo["kai.request"] = TaskRequest(klass)
    return known


class TaskView:
    """One task; whatever it does not have itself it has from the task that it is a view of."""

    __slots__ = (
        *("accepted", "began", "groups", "job", "node", "podset", "request", "stage", "task", "tried", "uid"),
        *("virtual", "zones"),
    )

    job: JobView
    podset: PodSet

    def __init__(
        self,
        task: Task,
        stuck_since: float,
        claims: tuple[tuple[str, int], ...] = (),
        devices: DeviceTable | None = None,
    ) -> None:
        """*stuck_since*: a running pod that was to be gone before that is taken to be stuck."""
        self.task = task
        self.uid = task.uid
        self.request = request_of(task.klass, claims)
        self.stage = _stage_of(task, stuck_since)
        self.node: Node | None = task.node
        shares = task.node is not None and self.request.shared is not None
        self.groups: tuple[str, ...] = ()
        """The shared GPUs that it has: as the ledger of devices knows, else as it says itself."""
        if shares and task.node is not None:
            self.groups = (devices.groups_of(task, task.node.row) if devices is not None else ()) or groups_named(task)
        self.tried: tuple[str, ...] = ()
        """Shared GPUs elsewhere that it, on its way out, was to have and did not get; KAI tells these of it."""
        self.virtual = False
        """Whether this session made its stage."""
        self.accepted: Amounts = NOTHING
        """The amounts that it counts in its queue at its place."""
        self.began: Node | None = None
        """The place at the opening of the session."""
        self.zones: ZonePlacement | None = None
        """The NUMA zones that it uses on its node, as far as known."""

    def __getattr__(self, name: str) -> Any:
        if name == "podset" and self.job.root is not None:  # which gives its tasks their sets when it is first made
            return object.__getattribute__(self, "podset")
        return getattr(object.__getattribute__(self, "task"), name)

    @property
    def status(self) -> TaskStage:
        """Where it stands."""
        return self.stage

    @property
    def job_less(self) -> bool:
        """Report whether it is of no visible job."""
        try:
            object.__getattribute__(self, "job")
        except AttributeError:
            return True
        return False

    @property
    def node_name(self) -> str:
        """The node it is or will be on, or nothing."""
        return self.node.name if self.node is not None else ""

    def __repr__(self) -> str:
        return f"<TaskView {self.task.key} {self.stage.value} {self.node_name}>"


def _stage_of(task: Task, stuck_since: float) -> TaskStage:
    stage = _STAGES[task.status]
    if stage is TaskStage.PENDING and (task.gates or task.invalid):
        return TaskStage.GATED  # nobody knows what a pod asks for that cannot be read
    if stage is TaskStage.RELEASING and task.pod.status.phase == "Running":
        deleted = task.pod.metadata.deletion_timestamp
        if deleted is not None and deleted.timestamp() < stuck_since:
            return TaskStage.STUCK
    return stage


def is_there(task: TaskView) -> bool:
    """Report whether it is on its node, or promised a place, for all tasks that are placed now."""
    return task.stage in USED and not (task.stage is TaskStage.RELEASING and task.virtual)


def group_notes(groups: tuple[str, ...]) -> dict[str, str]:
    """The data of a bind about the shared GPUs of a pod, in the words of KAI's binder."""
    named = {GROUP_LABEL: groups[0]} if len(groups) == 1 else {f"{GROUP_LABEL}/{name}": name for name in groups}
    return {**named, RECEIVED_TYPE: "Fraction"}
