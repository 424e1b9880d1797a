"""Our own trace format: a CSV with a header, one line per kind of pod. The columns are documented in docs/traces.md."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TextIO

from pumice.errors import InvalidInput
from pumice.model import quantity
from pumice.model.resources import LIMIT
from pumice.sim.traces.model import Trace, TraceError, TraceJob, TracePod
from pumice.sim.traces.source import Row, number_of, rows

REQUIRED = ("job", "submit_s", "duration_s")
COLUMNS = (
    *REQUIRED, "tasks", "min_available", "cpu", "memory", "gpu", "gpu_fraction", "gpu_models", "queue", "user",
    "priority", "declared_s",
)  # fmt: skip
NEVER = "inf"
"""The value of ``duration_s`` for a job that never ends."""
MOST_TASKS = 1_000_000


def read_jobs(path: Path) -> Iterator[TraceJob]:
    """Yield the jobs in the file's order."""
    return jobs_of(rows(path, REQUIRED, known=COLUMNS, comments=True))


def read_table(table: Any, name: str = "jobs") -> Trace:
    """Return the jobs of a table in memory: a DataFrame (pandas, polars), an Arrow table, or columns by name.

    It has the columns of the CSV. Missing values are empty cells; text without a line break is what it seems.

    :raises TraceError: a column or value breaks a rule.
    """
    path, columns = Path(name), _columns(table)
    for column in REQUIRED:
        if column not in columns:
            raise TraceError(path, f"the table has no such column; it has {', '.join(columns)}", column=column)
    for column in columns:
        if column not in COLUMNS:
            raise TraceError(path, f"no column of this format; the columns are {', '.join(COLUMNS)}", column=column)
    cells = zip(*columns.values(), strict=True)
    lines = (
        Row(path, number, {column: _cell(value) for column, value in zip(columns, line, strict=True)})
        for number, line in enumerate(cells, 1)
    )
    return Trace(path, "table", tuple(sorted(jobs_of(lines), key=lambda job: job.submit_s)))


def _columns(table: Any) -> dict[str, list[Any]]:
    names = getattr(table, "column_names", None) or getattr(table, "columns", None)
    names = list(table) if names is None else list(names)
    found = {str(name): table[name] for name in names}
    return {name: column.tolist() if hasattr(column, "tolist") else list(column) for name, column in found.items()}


def _cell(value: Any) -> str:
    value = value.as_py() if hasattr(value, "as_py") else value
    if value is None or value != value:  # NaN, NaT
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def jobs_of(lines: Iterable[Row]) -> Iterator[TraceJob]:
    """Yield the jobs of rows in their order. Rows that follow each other and name one job are its kinds of pods."""
    seen: set[str] = set()
    job: TraceJob | None = None
    lowest: Row | None = None  # the line that states min_available
    for row in lines:
        name = row.name("job")
        if job is not None and job.name == name:
            job = _with_more_pods(job, row)
            continue
        if job is not None:
            yield _finished(job, lowest)
        if name in seen:
            raise row.error("job", "must be unique; the lines of one job must follow each other")
        seen.add(name)
        job, lowest = _first_line(row), row
    if job is not None:
        yield _finished(job, lowest)


def _first_line(row: Row) -> TraceJob:
    return TraceJob(
        name=row.name("job"),
        submit_s=row.seconds("submit_s"),
        duration_s=_duration(row),
        pods=(_pod(row),),
        min_available=row.integer("min_available", least=1, default=0),
        queue=row.text("queue", "default"),
        user=row.text("user"),
        priority=_priority(row),
        run_time_declared_s=row.seconds("declared_s") if row.has("declared_s") else None,
        line=row.line,
    )


def _with_more_pods(job: TraceJob, row: Row) -> TraceJob:
    """The same job with the pods of a further line, which may repeat what the first one said but not change it."""
    same: tuple[tuple[str, Callable[[Row], object], object], ...] = (
        ("submit_s", lambda line: line.seconds("submit_s"), job.submit_s),
        ("duration_s", _duration, job.duration_s),
        ("min_available", lambda line: line.integer("min_available", least=1), job.min_available),
        ("queue", lambda line: line.text("queue"), job.queue),
        ("user", lambda line: line.text("user"), job.user),
        ("priority", _priority, job.priority),
        ("declared_s", lambda line: line.seconds("declared_s"), job.run_time_declared_s),
    )
    for column, value, first in same:
        if row.has(column) and value(row) != first:
            raise row.error(column, f"must be empty or as in the job's first line ({first})")
    return replace(job, pods=(*job.pods, _pod(row)))


def _finished(job: TraceJob, first: Row | None) -> TraceJob:
    if job.min_available > job.tasks and first is not None:
        raise first.error("min_available", f"must be at most the number of tasks ({job.tasks})")
    return replace(job, min_available=job.min_available or job.tasks)


def _duration(row: Row) -> float:
    return math.inf if row.text("duration_s") == NEVER else row.seconds("duration_s")


def _priority(row: Row) -> int:
    return row.integer("priority", least=-(2**31), most=2**31 - 1, default=0)


def _pod(row: Row) -> TracePod:
    fraction = _fraction(row)
    devices = row.integer("gpu", default=0 if fraction is None else 1)
    if fraction is not None and devices == 0:
        raise row.error("gpu", "must be at least 1, or empty, where gpu_fraction is given")
    return TracePod(
        count=row.integer("tasks", least=1, most=MOST_TASKS, default=1),
        cpu_milli=_quantity(row, "cpu", quantity.milli),
        memory_bytes=_quantity(row, "memory", quantity.value),
        gpu_milli=0 if devices == 0 else fraction or 1000,
        gpu_devices=devices,
        gpu_models=tuple(model.strip() for model in row.text("gpu_models").split("|") if model.strip()),
    )


def _fraction(row: Row) -> int | None:
    """Thousandths of each device, or None for whole ones."""
    if not row.has("gpu_fraction"):
        return None
    rule = "must be a multiple of 0.001 above 0 and up to 1"
    if number_of(row.text("gpu_fraction")) is None:
        raise row.error("gpu_fraction", rule)
    milli = Fraction(row.text("gpu_fraction")) * 1000
    if milli.denominator != 1 or not 0 < milli <= 1000:
        raise row.error("gpu_fraction", rule)
    return int(milli)


def _quantity(row: Row, column: str, parse: Callable[[str], int]) -> int:
    if not row.has(column):
        return 0
    try:
        amount = parse(row.text(column))
    except InvalidInput:
        amount = -1
    if not 0 <= amount < LIMIT:
        raise row.error(column, "must be a Kubernetes quantity of at least 0, such as 500m, 2 or 4Gi")
    return amount


def write(jobs: Iterable[TraceJob], stream: TextIO) -> None:
    """Write *jobs* so that ``read`` gives the same jobs back.

    :raises InvalidInput: a text has blanks around it or a line break, which the format does not carry.
    """
    writer = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for job in jobs:
        for text in (job.name, job.queue, job.user, *(model for pod in job.pods for model in pod.gpu_models)):
            if text != text.strip() or len(text.splitlines()) > 1:
                raise InvalidInput(f"job {job.name!r}: text must have no blanks around it and no line break: {text!r}")
        job_cells = _job_cells(job)
        for pod in job.pods:
            writer.writerow(job_cells | _pod_cells(pod))
            job_cells = {"job": job.name}  # further lines say only what is new


def _job_cells(job: TraceJob) -> dict[str, object]:
    return {
        "job": job.name,
        "submit_s": repr(job.submit_s),
        "duration_s": repr(job.duration_s),
        "min_available": job.min_available,
        "queue": job.queue,
        "user": job.user,
        "priority": job.priority,
        "declared_s": "" if job.run_time_declared_s is None else repr(job.run_time_declared_s),
    }


def _pod_cells(pod: TracePod) -> dict[str, object]:
    return {
        "tasks": pod.count,
        "cpu": quantity.milli_text(pod.cpu_milli),
        "memory": quantity.bytes_text(pod.memory_bytes),
        "gpu": pod.gpu_devices,
        "gpu_fraction": "" if pod.gpu_milli in (0, 1000) else f"{pod.gpu_milli / 1000:.3f}",
        "gpu_models": "|".join(pod.gpu_models),
    }
