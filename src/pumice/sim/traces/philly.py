"""The job table of Microsoft's Philly trace of 2017: GPU training jobs, each a gang."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pumice.errors import InvalidInput
from pumice.sim.traces.model import TraceJob, TracePod
from pumice.sim.traces.source import Notes, rows

COLUMNS = ("job_id", "submit_s", "duration_s", "num_gpus", "vc")


@dataclass(frozen=True, slots=True)
class PhillyOptions:
    """How a job is cut into pods, and what the table does not say."""

    gpus_per_pod: int = 8
    """A job of n GPUs is a gang of n // 8 pods of 8 and one of n % 8, where that is not 0."""
    cpu_milli_per_gpu: int = 0
    memory_bytes_per_gpu: int = 0
    """The trace has no CPU and memory figures: by default only GPUs are scarce."""

    def __post_init__(self) -> None:
        if self.gpus_per_pod < 1:
            raise InvalidInput(f"gpus_per_pod: must be at least 1, got {self.gpus_per_pod}")


def read_jobs(path: Path, options: PhillyOptions, notes: Notes) -> Iterator[TraceJob]:
    """Yield one job per line, in the file's order. The virtual cluster is the queue."""
    seen: set[int] = set()
    for row in rows(path, COLUMNS):
        number = row.integer("job_id")
        if number in seen:
            raise row.error("job_id", "must be unique")
        seen.add(number)
        pods = _gang(row.integer("num_gpus", least=1), options)
        yield TraceJob(
            name=f"philly-{number:06d}",  # of one length, so that the order of names is the order of numbers
            submit_s=row.seconds("submit_s"),
            duration_s=row.seconds("duration_s"),
            pods=pods,
            min_available=sum(pod.count for pod in pods),
            queue=row.name("vc"),
            line=row.line,
        )


def _gang(gpus: int, options: PhillyOptions) -> tuple[TracePod, ...]:
    whole, rest = divmod(gpus, options.gpus_per_pod)
    groups = ((whole, options.gpus_per_pod), (1, rest))
    return tuple(
        TracePod(count, each * options.cpu_milli_per_gpu, each * options.memory_bytes_per_gpu, 1000, each)
        for count, each in groups
        if count and each
    )
