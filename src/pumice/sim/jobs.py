"""Jobs submitted to the embedded cluster, as the job controller expands them from any source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from pumice.model import keys
from pumice.model.api import PodGroup, PodSpec, ResourceList
from pumice.model.request import asked_by
from pumice.model.resources import CPU, MEMORY, dim
from pumice.model.task import GPU_RESOURCES
from pumice.sim.speed import Speed
from pumice.workloads.vcjob import Reaction

SIM_RUN_ANNOTATION = keys.SIM_RUN_ANNOTATION
"""How long a pod really runs in the simulator, as a Go duration; else the declared time."""
SIM_FAILS_ANNOTATION = keys.SIM_FAILS_ANNOTATION
"""A pod fails after running so long; a number of attempts may follow: ``10m x2`` fails twice, then runs through."""
SIM_CHECKPOINT_ANNOTATION = keys.SIM_CHECKPOINT_ANNOTATION
"""Work is saved each time so much was done; without it an interrupted pod begins anew."""


GPU_MILLI = -1
"""The dimension of the embedded cluster's own ledger for GPUs, whole and shared together."""


class Work(Enum):
    """How a job's run time is counted."""

    GANG = "gang"
    """It counts while enough pods run; then everything ends together."""
    EACH = "each"
    """Every pod needs its own run time from its own start."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The amounts of one pod, for records."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_milli: int = 0
    items: tuple[tuple[int, int], ...] = ()
    """(dimension, amount) of everything that is asked for by name, in ledger units."""
    held: tuple[tuple[int, int], ...] = ()
    """The same and, under `GPU_MILLI`, thousandths of GPUs, whole or shared."""


def demand_of(spec: PodSpec, gpu_milli: int | None = None) -> Demand:
    """The amounts of a pod of *spec*; with *gpu_milli* if it holds parts of devices.

    :raises InvalidInput: a request that is no quantity.
    """
    requests, _, _ = asked_by(spec)
    items = tuple(sorted((d, int(v)) for d, v in requests.items()))
    whole = sum(int(requests.get(dim(name))) for name in GPU_RESOURCES)
    gpus = whole if gpu_milli is None else gpu_milli
    held = (*items, (GPU_MILLI, gpus)) if gpus else items
    return Demand(int(requests.get(CPU)), int(requests.get(MEMORY)), gpus, items, held)


@dataclass(frozen=True, slots=True)
class PodKind:
    """Equal pods of a job: one role, or one line of a trace."""

    role: str
    names: tuple[str, ...]
    spec: PodSpec
    demand: Demand
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    run_s: float = math.inf
    fails_after_s: float = math.inf
    failing_attempts: int = 0
    """How often it fails before it runs through."""
    reactions: Mapping[str, Reaction] = field(default_factory=dict)
    """By event (``PodFailed``, ``PodEvicted``, ``TaskCompleted``), before those of the job."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job, ready to be submitted."""

    name: str
    submit_s: float
    kinds: tuple[PodKind, ...]
    min_available: int
    work: Work = Work.GANG
    run_s: float | None = None
    """The run time if nobody disturbs it: what GANG counts, and what records show. None: unknown or endless."""
    namespace: str = "default"
    queue: str = "default"
    user: str = ""
    priority: int = 0
    priority_class: str = ""
    role_minimums: dict[str, int] | None = None
    min_resources: ResourceList | None = None
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    reactions: Mapping[str, Reaction] = field(default_factory=dict)
    retries: int = 3
    """How often a failed job is tried again before it has failed for good."""
    checkpoint_s: float = 0.0
    speed: Speed | None = None
    """How fast GANG works by what it got; None: always as fast."""
    parallelism: int = 0
    """How many pods there are at a time; 0: all of them."""
    placed: Mapping[str, str] = field(default_factory=dict)
    """Pods that run from the start, and on which node."""
    origin: str = ""
    """The source, for messages: ``jobs.yaml:12``."""
    group: PodGroup | None = None
    """Other fields of its PodGroup: topology, sub-groups, kind."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def tasks(self) -> int:
        """All pods."""
        return sum([len(kind.names) for kind in self.kinds])
