"""The common form of traces: jobs of pods, and nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from pumice.errors import PumiceError


class TraceError(PumiceError):
    """A trace file breaks a rule; says which file, line, column and value, and the rule.

    ``jobs.csv:17: duration_s: must be a number of seconds of at least 0, got 'abc'``
    """

    def __init__(
        self, file: Path, rule: str, *, line: int | None = None, column: str | None = None, value: str | None = None
    ) -> None:
        place = str(file) if line is None else f"{file}:{line}"
        about = "" if column is None else f" {column}:"
        got = "" if value is None else f", got {_short(value)!r}"
        super().__init__(f"{place}:{about} {rule}{got}")
        self.file, self.rule, self.line, self.column, self.value = file, rule, line, column, value


def _short(value: str, length: int = 60) -> str:
    return value if len(value) <= length else value[: length - 1] + "…"


@dataclass(frozen=True, slots=True)
class TracePod:
    """``count`` pods that are all alike."""

    count: int
    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_milli: int = 0
    """Thousandths wanted of *each* device: 1000 is a whole GPU, 0 none."""
    gpu_devices: int = 0
    """Devices wanted by each pod."""
    gpu_models: tuple[str, ...] = ()
    """Models that will do; empty means any."""

    @property
    def gpus(self) -> float:
        """GPUs that one of these pods holds, fractions included."""
        return self.gpu_devices * self.gpu_milli / 1000


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace: what arrives when, what it asks for, and how long it runs once it has it."""

    name: str
    submit_s: float
    duration_s: float
    """Run time from the moment that enough pods run; ``math.inf`` for a job that never ends."""
    pods: tuple[TracePod, ...]
    min_available: int
    """Pods that must start together."""
    queue: str = "default"
    user: str = ""
    priority: int = 0
    run_time_declared_s: float | None = None
    """The run time that the user announced, for schedulers that plan with it; ``None`` where nobody did."""
    line: int = field(default=0, compare=False)
    """The line of the trace on which it stands, the first of several; 0 where it was not read."""

    @property
    def tasks(self) -> int:
        """All pods of the job, also those above ``min_available``."""
        return sum(pod.count for pod in self.pods)

    @property
    def gpus(self) -> float:
        """GPUs that the whole job holds, fractions included."""
        return sum(pod.count * pod.gpus for pod in self.pods)


@dataclass(frozen=True, slots=True)
class TraceNode:
    """One node of a node list."""

    name: str
    cpu_milli: int
    memory_bytes: int
    gpus: int
    gpu_model: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as read: jobs in the order of submission (the file's order among equals), and what was left out."""

    path: Path
    format: str
    jobs: tuple[TraceJob, ...]
    notes: tuple[str, ...] = ()
    """One sentence for each kind of thing that was left out or changed, with its count."""

    def __iter__(self) -> Iterator[TraceJob]:
        return iter(self.jobs)

    def faster(self, factor: float) -> Trace:
        """Return the same jobs, which come so many times as often; submissions are cut to whole seconds."""
        jobs = tuple(replace(job, submit_s=float(math.floor(job.submit_s / factor))) for job in self.jobs)
        return replace(self, jobs=jobs)

    def __len__(self) -> int:
        return len(self.jobs)
