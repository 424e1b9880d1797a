"""The Standard Workload Format of the Parallel Workloads Archive: rigid jobs of so many processors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pumice.errors import InvalidInput
from pumice.sim.traces.errors import TraceError
from pumice.sim.traces.model import TraceJob, TracePod
from pumice.sim.traces.source import Notes, lines, number_of

FIELDS = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "CPU time", "memory",
    "requested processors", "requested time", "requested memory", "status", "user", "group", "application", "queue",
    "partition", "preceding job", "think time",
)  # fmt: skip
_WHOLE = (0, 1, 4, 7, 11, 12, 14)
"""Positions of the fields that are used and must be whole numbers."""


@dataclass(frozen=True, slots=True)
class SwfOptions:
    """The meaning of a processor, and the source of queues."""

    cpu_milli: int = 1000
    """CPU of one processor. A job of n processors is a gang of n such pods."""
    memory_bytes: int = 0
    """Memory of one processor; the log's own figures are not used, most logs have none."""
    queue_by: Literal["none", "queue", "group", "user"] = "none"
    """The field that names the queue; unknown values and "none" give ``default``."""

    def __post_init__(self) -> None:
        if self.cpu_milli < 1:
            raise InvalidInput(f"cpu_milli: must be at least 1, got {self.cpu_milli}")


def is_record(text: str) -> bool:
    """Whether *text* looks like a line of a log: 18 numbers."""
    values = text.split()
    return len(values) == len(FIELDS) and all(number_of(value) is not None for value in values)


def read_jobs(path: Path, options: SwfOptions, notes: Notes) -> Iterator[TraceJob]:
    """Yield the jobs with a positive run time and size, in the file's order; the others are counted in *notes*."""
    seen: set[int] = set()
    for line, text in lines(path):
        if not text.strip() or text.lstrip().startswith(";"):
            continue
        record = _record(path, line, text)
        number, submit, run, processors = int(record[0]), record[1], record[3], int(record[4])
        if number in seen:
            raise TraceError(path, "must be unique", line=line, column=FIELDS[0], value=str(number))
        seen.add(number)
        if submit < 0:
            raise TraceError(path, "must be at least 0", line=line, column=FIELDS[1], value=text.split()[1])
        if processors <= 0:
            processors = int(record[7])
        if run <= 0 or processors <= 0:
            notes.left_out("jobs without a positive run time and size, left out", submit)
            continue
        yield TraceJob(
            name=f"swf-{number:06d}",
            submit_s=submit,
            duration_s=run,
            pods=(TracePod(processors, options.cpu_milli, options.memory_bytes),),
            min_available=processors,
            queue=_queue(record, options),
            user=_label("user", record[11]),
            run_time_declared_s=record[8] if record[8] > 0 else None,
            line=line,
        )


def _record(path: Path, line: int, text: str) -> list[float]:
    values = text.split()
    if len(values) != len(FIELDS):
        raise TraceError(path, f"must have {len(FIELDS)} numbers, has {len(values)}", line=line)
    record: list[float] = []
    for index, value in enumerate(values):
        number = number_of(value)
        if number is None:
            raise TraceError(path, "must be a number", line=line, column=FIELDS[index], value=value)
        if index in _WHOLE and not number.is_integer():
            raise TraceError(path, "must be a whole number", line=line, column=FIELDS[index], value=value)
        record.append(number)
    return record


def _queue(record: list[float], options: SwfOptions) -> str:
    if options.queue_by == "none":
        return "default"
    return _label(options.queue_by, record[FIELDS.index(options.queue_by)]) or "default"


def _label(kind: str, number: float) -> str:
    return f"{kind}-{int(number)}" if number >= 0 else ""
