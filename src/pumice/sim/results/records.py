"""The record of a run: facts as they happened, nothing derived. Times are seconds of virtual time.

A job is known by its key, ``namespace/name``; pods, evictions and beneficiaries refer to it by that.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from pumice.errors import InvalidInput, decoder_words

JobOutcome = Literal["completed", "running", "pending", "failed"]
Window = tuple[float, float]
"""From when, up to but not including when."""
SEED, SHAKEN, BLOCKS = "seed", "seed of this trace", "seed of its parts drawn anew"
"""The population of a run: a day that is drawn, a shaken trace, or a trace made of its own parts, drawn with
replacement. Runs of the last kind share their parts, so many of them are no more evidence than the parts are."""
PodOutcome = Literal["completed", "running", "evicted", "restarted", "failed"]


class RecordedReason(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why something waits: one reason, as the scheduler gave it."""

    text: str
    plugin: str = ""
    nodes: int = 0
    """Nodes it was said of; 0 where it is not about nodes."""


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node and what it offers, for as long as it was there."""

    name: str
    cpu_milli: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    gpu_model: str = ""
    since: float = 0.0
    until: float | None = None
    """When it left; ``None`` if it stayed."""


class QueueRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A queue and its weight."""

    name: str
    weight: float = 1.0
    parent: str = ""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job from its submission to its end, or to the end of the run."""

    name: str
    namespace: str = "default"
    queue: str = "default"
    user: str = ""
    priority: int = 0
    submit: float
    start: float | None = None
    """When the gang first ran; ``None`` if it never did."""
    end: float | None = None
    """When the job was done or had failed for good; ``None`` if it was not."""
    duration: float | None = None
    """Run time that the job needs if nobody disturbs it; ``None`` where unknown or endless."""
    gpus: float = 0.0
    cpus: float = 0.0
    memory_bytes: int = 0
    pods: int = 1
    stood: bool = False
    """It ran already when the run began, so that nothing is known of its wait."""
    outcome: JobOutcome
    reasons: tuple[RecordedReason, ...] = ()
    """Why it waits at the end of the run; for jobs that are pending."""

    def __post_init__(self) -> None:
        if self.start is not None and self.start < self.submit:
            raise InvalidInput(f"job {self.key}: start {self.start:g} must not be before submit {self.submit:g}")
        begin = self.submit if self.start is None else self.start
        if self.end is not None and self.end < begin:
            raise InvalidInput(
                f"job {self.key}: end {self.end:g} must not be before {begin:g}, its start or submission"
            )
        if self.outcome == "completed" and (self.start is None or self.end is None):
            raise InvalidInput(f"job {self.key}: outcome 'completed' needs a start and an end")

    @property
    def key(self) -> str:
        """The name that pods and evictions refer to."""
        return f"{self.namespace}/{self.name}"


class PodRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stay of a pod on a node. A pod that is evicted and placed again has two records."""

    job: str
    """Key of the job."""
    name: str
    node: str
    start: float
    end: float | None = None
    """``None`` if it still ran at the end of the run."""
    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_milli: int = 0
    """Thousandths of a GPU that the pod held, all devices together."""
    outcome: PodOutcome = "completed"
    """``evicted``: the scheduler took it away; ``restarted``: its gang fell with an evicted pod."""
    lost_s: float = 0.0
    """Seconds of this stay whose work had to be done again."""

    def __post_init__(self) -> None:
        if self.end is not None and self.end < self.start:
            raise InvalidInput(
                f"pod {self.name} of {self.job}: end {self.end:g} must not be before start {self.start:g}"
            )


class EvictionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pod taken off its node by the scheduler, and for whom."""

    time: float
    pod: str
    job: str
    queue: str
    action: str
    """The action that did it: ``preempt``, ``reclaim``, …"""
    node: str = ""
    gpu_milli: int = 0
    ran_s: float = 0.0
    """How long this stay had lasted."""
    beneficiary: str = ""
    """Key of the job that was given the room; empty if nobody was."""
    beneficiary_queue: str = ""


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A measurement at one instant that cannot be derived later; it is valid until the next sample."""

    time: float
    fragmentation: float | None = None
    """Share (0 to 1) of the free GPU capacity that lies where the workload's typical pods cannot use it; ``None``
    when nothing is free."""


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The inputs of a run, so that it can be repeated: digests are SHA-256 of the files as they were read."""

    scenario: str = ""
    """File of the scenario."""
    scenario_digest: str = ""
    inputs: dict[str, str] = {}
    """Digest of every other file that was read (traces, manifests, confs, plugins), by name as the scenario says it."""
    python: str = ""
    numpy: str = ""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that a run of the simulator leaves behind."""

    name: str
    conf_digest: str = ""
    seed: int = 0
    version: str = ""
    trace: str = ""
    """The workload, in a few words."""
    horizon: float
    """When the run ended."""
    nodes: tuple[NodeRecord, ...] = ()
    queues: tuple[QueueRecord, ...] = ()
    jobs: tuple[JobRecord, ...] = ()
    pods: tuple[PodRecord, ...] = ()
    evictions: tuple[EvictionRecord, ...] = ()
    samples: tuple[Sample, ...] = ()
    """In the order of time."""
    partial: bool = False
    """The run was stopped before its end."""
    warnings: tuple[str, ...] = ()
    """Doubts about the run: everything that the command wrote to stderr."""
    notes: tuple[str, ...] = ()
    """The inputs that were left out or changed."""
    unit: str = SEED
    """The population of the run in a comparison: `SEED`, `SHAKEN`, `BLOCKS`, or a ``part of 7 d``."""
    measure: Window | None = None
    """Jobs submitted in it count in figures, the others are load; ``None``: all count."""
    origin: Origin = Origin()
    format: int = 1
    """Version of this shape, for readers of the file."""

    def measures(self, job: JobRecord) -> bool:
        """Report whether a job counts in figures."""
        return self.measure is None or self.measure[0] <= job.submit < self.measure[1]

    def __post_init__(self) -> None:
        keys = {job.key for job in self.jobs}
        if len(keys) != len(self.jobs):
            raise InvalidInput(f"run {self.name!r}: every job must be there once, by namespace and name")
        for pod in self.pods:
            if pod.job not in keys:
                raise InvalidInput(f"run {self.name!r}: pod {pod.name} belongs to job {pod.job}, which is not there")


def encode(run: RunRecord) -> bytes:
    """Return the record as JSON; the same record gives the same bytes."""
    return msgspec.json.encode(run, order="deterministic")


def decode(data: bytes) -> RunRecord:
    """Return the record that ``encode`` wrote.

    :raises InvalidInput: the data is not such a record.
    """
    try:
        return msgspec.json.decode(data, type=RunRecord)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"not the record of a run: {decoder_words(error)}") from error
