"""Public logs: Alibaba's openb (pods and nodes), Microsoft's Philly, the Standard Workload Format."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pumice.errors import InvalidInput
from pumice.sim.traces.model import TraceError, TraceJob, TraceNode, TracePod
from pumice.sim.traces.source import Notes, Row, lines, number_of, rows

POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
TIME_COLUMNS = ("creation_time", "deletion_time", "scheduled_time")
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class OpenbOptions:
    """How a pod list is understood."""

    times: bool = True
    """Use the recorded times. If not, or where the list has none, the pods arrive one by one, a second apart, in the
    order of the list, and never end: the way of the published experiments."""
    queue_by_qos: bool = False
    """Give every QoS class (LS, BE, …) its own queue, named in lower case, instead of one queue ``default``."""


def read_openb(path: Path, options: OpenbOptions, notes: Notes) -> Iterator[TraceJob]:
    """Yield one job per line of a pod list, in the file's order."""
    seen: set[str] = set()
    for index, row in enumerate(rows(path, POD_COLUMNS)):
        name = row.name("name")
        if name in seen:
            raise row.error("name", "must be unique")
        seen.add(name)
        submit, duration = float(index), math.inf
        if options.times and any(row.has(column) for column in TIME_COLUMNS):
            submit, duration = _times(row, notes)
        elif options.times:
            notes.changed("pods without times, which arrive one second apart and never end", name)
        queue = row.text("qos", "default").lower() if options.queue_by_qos else "default"
        yield TraceJob(name, submit, duration, (_pod(row),), min_available=1, queue=queue, line=row.line)


def _pod(row: Row) -> TracePod:
    devices = row.integer("num_gpu")
    milli = row.integer("gpu_milli")
    if milli > 1000:
        raise row.error("gpu_milli", "must be at most 1000, thousandths of each device")
    if (devices == 0) != (milli == 0):
        raise row.error("gpu_milli", f"must be 0 exactly where num_gpu is 0 (num_gpu is {devices})")
    models = tuple(model.strip() for model in row.text("gpu_spec").split("|") if model.strip())
    memory = row.integer("memory_mib") * _MIB
    return TracePod(1, row.integer("cpu_milli"), memory, milli, devices, models)


def _times(row: Row, notes: Notes) -> tuple[float, float]:
    created, deleted = row.integer("creation_time"), row.integer("deletion_time")
    if deleted < created:
        raise row.error("deletion_time", f"must not be before creation_time ({created})")
    started = created
    if row.has("scheduled_time"):
        started = row.integer("scheduled_time")
        if not created <= started <= deleted:
            raise row.error(
                "scheduled_time", f"must be between creation_time ({created}) and deletion_time ({deleted})"
            )
    else:
        notes.changed(
            "pods that never started in the log, which run for as long as they waited there", row.name("name")
        )
    if deleted == started:
        notes.changed("pods that ran for less than a second, which run for one", row.name("name"))
    return float(created), float(max(1, deleted - started))


def read_nodes(path: Path | str) -> tuple[TraceNode, ...]:
    """Return the nodes of an openb node list, in the file's order.

    :raises TraceError: the file cannot be read, or a line breaks a rule.
    """
    nodes: dict[str, TraceNode] = {}
    for row in rows(Path(path), NODE_COLUMNS):
        name = row.name("sn")
        if name in nodes:
            raise row.error("sn", "must be unique")
        memory = row.integer("memory_mib") * _MIB
        nodes[name] = TraceNode(name, row.integer("cpu_milli"), memory, row.integer("gpu"), row.text("model"))
    return tuple(nodes.values())


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


def read_philly(path: Path, options: PhillyOptions, notes: Notes) -> Iterator[TraceJob]:
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


def read_swf(path: Path, options: SwfOptions, notes: Notes) -> Iterator[TraceJob]:
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
