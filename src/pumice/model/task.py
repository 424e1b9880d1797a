"""A task (one pod) as plugins see it, and the class of tasks that every built-in filter and score treats alike."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pumice.model.api import Pod, PodSpec
from pumice.model.gpu import gpu_request
from pumice.model.request import pod_request
from pumice.model.resources import CPU, MEMORY, Resources
from pumice.model.status import TaskStatus

if TYPE_CHECKING:
    from pumice.model.job import Job, SubJob
    from pumice.model.node import Node

GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
ROLE_KEY = "volcano.sh/task-spec"
TASK_PRIORITY_ANNOTATION = "volcano.sh/task-priority"
PREEMPTABLE_KEY = "volcano.sh/preemptable"
QUEUE_GATE = "scheduling.volcano.sh/queue-allocation-gate"
GPU_ANNOTATIONS = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")


def reader(slot: str) -> Any:
    """A read-only attribute over a private slot: plugins read, only the state writes."""
    return property(attrgetter(slot))


class TaskClass:
    """Everything about a task that a built-in filter or score may look at; equal tasks share one.

    *memo* is for plugins to keep what they derive from the class (keyed by plugin), for as long as the class lives.
    """

    __slots__ = (
        *("assumed_cpu", "assumed_memory", "best_effort", "dims", "fit_dims", "fit_values", "gpu", "gpu_annotations"),
        *("id", "items", "memo", "namespace", "requests", "requires_gpu", "spec", "values"),
    )

    def __init__(self, number: int, spec: PodSpec, namespace: str, gpu_annotations: tuple[str | None, ...]) -> None:
        self.id = number
        self.spec = spec
        self.namespace = namespace
        self.gpu_annotations = gpu_annotations
        self.set_requests(*pod_request(spec))
        self.memo: dict[Any, Any] = {}

    def set_requests(self, requests: Resources, assumed_cpu: int, assumed_memory: int) -> None:
        """Derive everything that depends on what is asked for."""
        self.requests = requests
        self.assumed_cpu, self.assumed_memory = assumed_cpu, assumed_memory
        self.items: tuple[tuple[int, int], ...] = tuple(sorted((d, int(v)) for d, v in requests.items()))
        fit = dict(self.items)
        fit.setdefault(CPU, 0)
        fit.setdefault(MEMORY, 0)
        self.fit_dims: tuple[int, ...] = tuple(sorted(fit))
        self.fit_values: tuple[int, ...] = tuple(fit[d] for d in self.fit_dims)
        self.dims: npt.NDArray[np.intp] = np.array([d for d, _ in self.items], dtype=np.intp)
        self.values: npt.NDArray[np.int64] = np.array([v for _, v in self.items], dtype=np.int64)
        self.best_effort = requests.is_empty
        self.gpu = gpu_request(requests, self.gpu_annotations)
        self.requires_gpu = self.gpu is not None


class Task:
    """One pod. Read-only: everything is changed by the state alone."""

    __slots__ = (
        *("_annotations", "_assumed_at", "_best_effort", "_class", "_creation", "_devices", "_evicted", "_gates"),
        *("_invalid", "_job", "_job_key", "_labels", "_name", "_namespace", "_node", "_nominated", "_pod"),
        *("_preemptable", "_priority", "_role", "_row", "_status", "_sub_job", "_uid", "_wanted_devices", "order"),
    )

    uid: str = reader("_uid")
    name: str = reader("_name")
    namespace: str = reader("_namespace")
    job: Job = reader("_job")
    """The job it belongs to; pods of other schedulers have none (None)."""
    sub_job: SubJob = reader("_sub_job")
    role: str = reader("_role")
    priority: int = reader("_priority")
    status: TaskStatus = reader("_status")
    labels: Mapping[str, str] = reader("_labels")
    annotations: Mapping[str, str] = reader("_annotations")
    preemptable: bool = reader("_preemptable")
    preemptible: bool = reader("_preemptable")
    best_effort: bool = reader("_best_effort")
    """Asks for nothing."""
    creation: float = reader("_creation")
    """Creation time in seconds."""
    klass: TaskClass = reader("_class")
    node: Node | None = reader("_node")
    nominated_node: str = reader("_nominated")
    pod: Pod = reader("_pod")
    gates: tuple[str, ...] = reader("_gates")
    invalid: str = reader("_invalid")
    """Why it can never be scheduled as written, or nothing."""
    devices: tuple[int, ...] = reader("_devices")
    """The GPU devices it holds on its node."""

    def __init__(self, pod: Pod, klass: TaskClass, job_key: str, role: str, priority: int, preemptable: bool) -> None:
        meta = pod.metadata
        self._uid = meta.uid or f"{meta.namespace}/{meta.name}"
        self._name, self._namespace = meta.name, meta.namespace
        self._labels: Mapping[str, str] = meta.labels or {}
        self._annotations: Mapping[str, str] = meta.annotations or {}
        self._creation = meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0
        self._pod, self._class, self._job_key = pod, klass, job_key
        self._role, self._priority, self._preemptable = role, priority, preemptable
        self._best_effort = klass.best_effort
        self._gates = tuple(g.name for g in pod.spec.scheduling_gates or ())
        self._nominated = pod.status.nominated_node_name
        self._status = TaskStatus.PENDING
        self._job: Job | None = None
        self._sub_job: SubJob | None = None
        self._node: Node | None = None
        self._row = -1
        self._evicted = False
        self._assumed_at: float | None = None
        self._invalid = ""
        self._devices: tuple[int, ...] = ()
        self._wanted_devices: tuple[int, ...] = ()
        self.order = pod_index(meta.name)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self._namespace}/{self._name}"

    @property
    def requests(self) -> Resources:
        """What it asks for, the pod slot included."""
        return self._class.requests

    @property
    def requires_gpu(self) -> bool:
        """Asks for a GPU, whole or in part."""
        return self._class.requires_gpu

    @property
    def node_name(self) -> str:
        """The node it is or will be on, or nothing."""
        return self._node.name if self._node is not None else ""

    @property
    def gated(self) -> bool:
        """Has a scheduling gate that is not the queue-admission gate."""
        return any(g != QUEUE_GATE for g in self._gates)

    @property
    def evicted(self) -> bool:
        """Was evicted in this session."""
        return self._evicted

    def __repr__(self) -> str:
        return f"<Task {self.key} {self._status.title}{' on ' + self.node_name if self._node else ''}>"


def pod_index(name: str) -> int | None:
    """The index at the end of a pod's name (``job-role-3``), for names of three parts or more."""
    parts = name.split("-")
    return int(parts[-1]) if len(parts) >= 3 and parts[-1].isascii() and parts[-1].isdigit() else None
