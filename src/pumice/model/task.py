"""A task (one pod) as plugins see it, and the class of tasks that every built-in filter and score treats alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from pumice.model import keys
from pumice.model.api import Pod, PodSpec
from pumice.model.gpu import GpuRequest, gpu_request
from pumice.model.mapping import ReadOnlyMap, labels_of
from pumice.model.request import asked_by
from pumice.model.resources import CPU, MEMORY, Resources
from pumice.model.sealed import Sealed
from pumice.model.status import TaskStatus

if TYPE_CHECKING:
    from pumice.model.job import Job, SubJob
    from pumice.model.node import Node

GROUP_ANNOTATION = keys.GROUP_ANNOTATION
ROLE_KEY = keys.ROLE_KEY
TASK_PRIORITY_ANNOTATION = keys.TASK_PRIORITY_ANNOTATION
PREEMPTABLE_KEY = keys.PREEMPTABLE_KEY
QUEUE_GATE = "scheduling.volcano.sh/queue-allocation-gate"
GPU_ANNOTATIONS = (keys.GPU_FRACTION, keys.GPU_MEMORY, keys.GPU_DEVICES)
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")


def group_named(notes: Mapping[str, str] | None, spec: PodSpec) -> str:
    """The name of the PodGroup that a pod belongs to: by its annotation (Volcano's, else KAI's), else by its spec."""
    said = notes.get(GROUP_ANNOTATION) or notes.get(keys.POD_GROUP_ANNOTATION) if notes else None
    if said:
        return said
    return spec.scheduling_group.pod_group_name if spec.scheduling_group is not None else ""


class TaskClass(Sealed):
    """Everything about a task that a built-in filter or score may look at; equal tasks share one.

    *memo* is for plugins to keep what they derive from the class (keyed by plugin), for as long as the class lives.
    """

    __slots__ = (
        *("nonzero_cpu", "nonzero_memory", "best_effort", "dims", "fit_dims", "fit_values", "gpu", "gpu_annotations"),
        *("id", "items", "memo", "namespace", "requests", "requires_gpu", "spec", "values", "__weakref__"),
    )

    def __init__(self, number: int, spec: PodSpec, namespace: str, gpu_annotations: tuple[str | None, ...]) -> None:
        requests, nonzero_cpu, nonzero_memory = asked_by(spec)
        self.id = number
        self.spec = spec
        self.namespace = namespace
        self.gpu_annotations = gpu_annotations
        self.memo: dict[Any, Any] = {}
        self.requests: Resources = requests
        self.nonzero_cpu, self.nonzero_memory = nonzero_cpu, nonzero_memory
        self.items: tuple[tuple[int, int], ...] = tuple(sorted((d, int(v)) for d, v in requests.items()))
        fit = dict(self.items)
        fit.setdefault(CPU, 0)
        fit.setdefault(MEMORY, 0)
        self.fit_dims: tuple[int, ...] = tuple(sorted(fit))
        self.fit_values: tuple[int, ...] = tuple(fit[d] for d in self.fit_dims)
        self.dims: npt.NDArray[np.intp] = np.array([d for d, _ in self.items], dtype=np.intp)
        self.values: npt.NDArray[np.int64] = np.array([v for _, v in self.items], dtype=np.int64)
        self.dims.flags.writeable = self.values.flags.writeable = False
        self.best_effort: bool = requests.is_empty
        self.gpu: GpuRequest | None = gpu_request(requests, gpu_annotations)
        self.requires_gpu: bool = self.gpu is not None


class Task(Sealed):
    """One pod. Read-only: everything is changed by the state alone."""

    __slots__ = (
        *("annotations", "assumed_at", "best_effort", "creation", "devices", "evicted", "gates", "invalid", "job"),
        *("job_key", "klass", "labels", "name", "namespace", "node", "nominated_node", "order", "pod", "preemptable"),
        *("priority", "role", "status", "sub_job", "uid"),
    )

    uid: Final[str]
    name: Final[str]
    namespace: Final[str]
    job: Final[Job]
    """The job it belongs to; pods of other schedulers have none (None)."""
    job_key: Final[str]
    """The UID of the job that its pod names, or nothing."""
    sub_job: Final[SubJob | None]
    """The part of the job it belongs to; None in a job without sub-group policies."""
    role: Final[str]
    priority: Final[int]
    status: Final[TaskStatus]
    labels: Final[ReadOnlyMap[str, str]]
    annotations: Final[ReadOnlyMap[str, str]]
    preemptable: Final[bool]
    best_effort: Final[bool]
    """Asks for nothing."""
    creation: Final[float]
    """Creation time in seconds."""
    order: Final[int | None]
    """The index at the end of its name."""
    klass: Final[TaskClass]
    node: Final[Node | None]
    nominated_node: Final[str]
    pod: Final[Pod]
    gates: Final[tuple[str, ...]]
    invalid: Final[str]
    """Why it can never be scheduled as written, or nothing."""
    devices: Final[tuple[int, ...]]
    """The GPU devices it holds on its node."""
    evicted: Final[bool]
    """Was evicted in this session."""
    assumed_at: Final[float | None]
    """When its bind or eviction was sent; None when nothing is on its way."""

    def __init__(
        self,
        pod: Pod,
        klass: TaskClass,
        job_key: str,
        role: str,
        priority: int,
        preemptable: bool,
        invalid: str = "",
    ) -> None:
        meta = pod.metadata
        self.uid = meta.uid or f"{meta.namespace}/{meta.name}"
        self.name, self.namespace = meta.name, meta.namespace
        self.labels, self.annotations = labels_of(meta.labels), labels_of(meta.annotations)
        self.creation = meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0
        self.pod, self.klass, self.job_key = pod, klass, job_key
        self.role, self.priority, self.preemptable = role, priority, preemptable
        self.best_effort = klass.best_effort and not invalid  # nobody knows what an invalid one asks for
        self.gates = tuple([g.name for g in pod.spec.scheduling_gates]) if pod.spec.scheduling_gates else ()
        self.nominated_node = pod.status.nominated_node_name
        self.status = TaskStatus.PENDING
        self.job = None  # type: ignore[assignment]
        self.sub_job = None
        self.node = None
        self.evicted = False
        self.assumed_at = None
        self.invalid = invalid
        self.devices = ()
        self.order = pod_index(meta.name)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def requests(self) -> Resources:
        """Its requests, the pod slot included."""
        return self.klass.requests

    @property
    def requires_gpu(self) -> bool:
        """Asks for a GPU, whole or in part."""
        return self.klass.requires_gpu

    @property
    def preemptible(self) -> bool:
        """KAI's spelling of `preemptable`."""
        return self.preemptable

    @property
    def row(self) -> int:
        """The row of its node in the node table; -1 without one."""
        return self.node.row if self.node is not None else -1

    @property
    def node_name(self) -> str:
        """The node it is or will be on, or nothing."""
        return self.node.name if self.node is not None else ""

    @property
    def gated(self) -> bool:
        """Has a scheduling gate that is not the queue-admission gate."""
        return any(g != QUEUE_GATE for g in self.gates)

    def __repr__(self) -> str:
        return f"<Task {self.key} {self.status.title}{' on ' + self.node_name if self.node else ''}>"


class TaskMap(ReadOnlyMap[str, Task]):
    """Tasks by UID."""

    __slots__ = ()
    holds = Task


_LONGEST_NAME: Final = 253
"""Kubernetes knows no longer ones."""


def pod_index(name: str) -> int | None:
    """The index at the end of a pod's name (``job-role-3``), for names of three parts or more; None for none."""
    before, _, last = name.rpartition("-")
    digits = "-" in before and last.isascii() and last.isdigit() and len(last) <= _LONGEST_NAME
    return int(last) if digits else None
