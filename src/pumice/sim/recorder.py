"""Writes down what happens in a run, to become a `RunRecord`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from sys import intern
from typing import Final

import numpy as np

from pumice.model import keys
from pumice.model.api import QueueObject
from pumice.model.gpu import WHOLE
from pumice.model.intents import Evict
from pumice.model.resources import CPU, MEMORY, Resources, dim
from pumice.model.task import GPU_RESOURCES
from pumice.sim.cluster import SimNode, SimPod
from pumice.sim.controller import SimJob
from pumice.sim.engine import Timeline
from pumice.sim.jobs import JobSpec
from pumice.sim.results.records import (
    EvictionRecord,
    JobOutcome,
    JobRecord,
    NodeRecord,
    PodOutcome,
    PodRecord,
    QueueRecord,
    RecordedReason,
    Sample,
)
from pumice.state.cluster import ClusterState

MODEL_LABEL: Final = keys.GPU_MODEL
"""The node label that names the model of its GPUs."""
SAMPLES: Final = 500


class Recorder:
    """Collects records as things happen. Jobs are kept in the order of their submission."""

    def __init__(self, timeline: Timeline, queue_of: Callable[[str], str] = lambda job: "") -> None:
        self._timeline = timeline
        self._queue_of = queue_of
        self._jobs: dict[int, JobRecord] = {}
        self.pods: list[PodRecord] = []
        self.evictions: list[EvictionRecord] = []
        self.samples: list[Sample] = []
        self._nodes: dict[str, list[NodeRecord]] = {}
        self._wanted: Counter[int] = Counter()
        """How many pods asked for how much of GPUs: what is typical of the workload."""
        self._next_sample = 0.0
        self.endings: dict[str, str] | None = None
        """How jobs ended, for whoever writes a history."""

    # -- being told -------------------------------------------------------------------------------------------------
    def submitted(self, spec: JobSpec) -> None:
        """A job arrives."""
        for kind in spec.kinds:
            if kind.demand.gpu_milli:
                self._wanted[kind.demand.gpu_milli] += len(kind.names)

    def job_over(self, job: SimJob, end: float, outcome: JobOutcome) -> None:
        self._jobs[job.number] = _job_record(job, end, outcome)
        if self.endings is not None:
            self.endings[job.key] = outcome

    def job_left(self, job: SimJob, reasons: tuple[RecordedReason, ...]) -> None:
        """The run ends and the job has not."""
        running = job.running > 0
        self._jobs[job.number] = _job_record(job, None, "running" if running else "pending", () if running else reasons)
        for pod in job.pods.values():
            if pod.started is not None:
                self.pods.append(_pod_record(pod, None, "running", 0.0))

    def stay_over(self, pod: SimPod, end: float, outcome: PodOutcome, lost_s: float) -> None:
        self.pods.append(_pod_record(pod, end, outcome, lost_s))

    def evicted(self, pod: SimPod, intent: Evict) -> None:
        now = self._timeline.now
        self.evictions.append(
            EvictionRecord(
                time=now,
                pod=pod.name,
                job=pod.job.key,
                queue=pod.job.spec.queue,
                action=intent.action,
                node=pod.node,
                gpu_milli=pod.kind.demand.gpu_milli,
                ran_s=now - pod.started if pod.started is not None else 0.0,
                beneficiary=intent.beneficiary,
                beneficiary_queue=self._queue_of(intent.beneficiary),
            )
        )

    def node_joined(self, node: SimNode) -> None:
        obj = node.object
        offered = Resources.parse(obj.status.allocatable)
        self._nodes.setdefault(obj.metadata.name, []).append(
            NodeRecord(
                name=obj.metadata.name,
                cpu_milli=int(offered.get(CPU)),
                memory_bytes=int(offered.get(MEMORY)),
                gpus=sum(int(offered.get(dim(name))) for name in GPU_RESOURCES) // 1000,
                gpu_model=(obj.metadata.labels or {}).get(MODEL_LABEL, ""),
                since=node.since,
            )
        )

    def node_left(self, node: SimNode) -> None:
        records = self._nodes[node.object.metadata.name]
        last = records[-1]
        records[-1] = NodeRecord(
            name=last.name,
            cpu_milli=last.cpu_milli,
            memory_bytes=last.memory_bytes,
            gpus=last.gpus,
            gpu_model=last.gpu_model,
            since=last.since,
            until=self._timeline.now,
        )

    # -- samples ----------------------------------------------------------------------------------------------------
    def sample(self, state: ClusterState, span: float) -> None:
        """Measure fragmentation, about `SAMPLES` times in the *span* of the workload, and at most once a minute."""
        now = self._timeline.now
        if now < self._next_sample or not self._wanted:
            return
        self._next_sample = now + max(span / SAMPLES, 60.0)
        self.samples.append(Sample(time=now, fragmentation=fragmentation(state, self._wanted)))

    # -- results ----------------------------------------------------------------------------------------------------
    @property
    def jobs(self) -> tuple[JobRecord, ...]:
        """Every job that was submitted."""
        return tuple(self._jobs[number] for number in sorted(self._jobs))

    @property
    def nodes(self) -> tuple[NodeRecord, ...]:
        """Every stay of every node."""
        return tuple(record for records in self._nodes.values() for record in records)


def fragmentation(state: ClusterState, wanted: Mapping[int, int]) -> float | None:
    """The share of free GPU capacity that typical pods could not use; None if none is free.

    *wanted*: how many pods ask for how much (thousandths: below 1000 a part of one device, else whole ones). A pod
    cannot use devices with too little left, nor any device on nodes with too few devices for it.
    """
    free = state.devices.free(np.arange(state.table.size))
    total = float(free.sum())
    if total == 0:
        return None
    unusable = 0.0
    free_by_devices: dict[int, list[float]] = {}
    """By how much is asked of a device: what is free on nodes with so many devices that have that."""
    for amount, count in sorted(wanted.items()):
        each, devices = (amount, 1) if amount < WHOLE else (WHOLE, -(-amount // WHOLE))
        if each not in free_by_devices:
            fits = free >= each
            left = np.where(fits, free, 0).sum(axis=1)
            free_by_devices[each] = np.bincount(fits.sum(axis=1), weights=left).tolist()
        unusable += count * (total - sum(free_by_devices[each][devices:]))
    return unusable / sum(wanted.values()) / total


def queue_record(obj: QueueObject) -> QueueRecord:
    """The record of a queue."""
    return QueueRecord(name=obj.metadata.name, weight=float(obj.spec.weight or 1), parent=obj.spec.parent)


def _pod_record(pod: SimPod, end: float | None, outcome: PodOutcome, lost_s: float) -> PodRecord:
    demand = pod.kind.demand
    return PodRecord(
        job=pod.job.key,
        name=pod.name,
        node=pod.node,
        start=pod.started or 0.0,
        end=end,
        cpu_milli=demand.cpu_milli,
        memory_bytes=demand.memory_bytes,
        gpu_milli=demand.gpu_milli,
        outcome=outcome,
        lost_s=lost_s,
    )


def _job_record(
    job: SimJob, end: float | None, outcome: JobOutcome, reasons: tuple[RecordedReason, ...] = ()
) -> JobRecord:
    spec = job.spec
    gpu_milli = cpu_milli = memory_bytes = pods = 0
    for kind in spec.kinds:
        demand, count = kind.demand, len(kind.names)
        gpu_milli += demand.gpu_milli * count
        cpu_milli += demand.cpu_milli * count
        memory_bytes += demand.memory_bytes * count
        pods += count
    return JobRecord(
        name=spec.name,
        namespace=intern(spec.namespace),  # what is left out of a record is known by identity
        queue=intern(spec.queue),
        user=spec.user,
        priority=spec.priority,
        submit=spec.submit_s,
        start=job.start,
        end=end,
        duration=spec.run_s,
        gpus=gpu_milli / 1000,
        cpus=cpu_milli / 1000,
        memory_bytes=memory_bytes,
        pods=pods,
        stood=bool(spec.placed) and job.start == spec.submit_s,
        outcome=outcome,
        reasons=reasons,
    )
