"""Jobs and queues in Volcano's columns."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from pumice.cli import render
from pumice.cli.amounts import short
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.resources import Resources
from pumice.model.status import TaskStatus

S = TaskStatus
JOB_COLUMNS = (
    *("Name", "Queue", "Creation", "Phase", "JobType", "Replicas", "Min"),
    *("Pending", "Running", "Succeeded", "Failed", "Unknown", "RetryCount"),
)
JOB_SPARE = ("RetryCount", "Unknown", "Succeeded", "Failed", "JobType", "Creation", "Running", "Pending")
"""What a narrow terminal does without, the first one first."""
QUEUE_COLUMNS = ("Name", "Weight", "State", "Parent", "Inqueue", "Pending", "Running", "Unknown", "Completed")
_VERSION = "volcano.sh/job-version"
_TYPE = "volcano.sh/job-type"


def job_row(job: Job, *, with_namespace: bool = True) -> tuple[Any, ...]:
    """A job in Volcano's columns."""
    versions = [int(v) for t in job.tasks.values() if (v := t.annotations.get(_VERSION, "")).isdigit()]
    counted = (S.PENDING, S.RUNNING, S.SUCCEEDED, S.FAILED, S.UNKNOWN)
    return (
        job.uid if with_namespace else job.name,
        job.queue or "-",
        _date(job.creation),
        str(job.phase) or "-",
        job.labels.get(_TYPE, "Batch"),
        len(job.tasks),
        job.min_available,
        *(job.count(status) for status in counted),
        max(versions, default=0),
    )


def queue_row(queue: Queue) -> tuple[Any, ...]:
    """A queue in Volcano's columns; jobs without a phase count as pending."""
    phases = Counter(str(job.phase) or "Pending" for job in queue.jobs.values())
    counts = (phases[p] for p in ("Inqueue", "Pending", "Running", "Unknown", "Completed"))
    return (queue.name, queue.weight, queue.state or "-", queue.parent or "-", *counts)


def job_data(job: Job) -> dict[str, Any]:
    """A job with its tasks, for programs."""
    return {
        **named(JOB_COLUMNS, job_row(job)),
        "Priority": job.priority,
        "Conditions": job.group.status.conditions or [] if job.group is not None else [],
        "Tasks": [
            {
                "Name": task.key,
                "Role": task.role,
                "Status": task.status.title,
                "Node": task.node_name,
                "Requests": task.requests.as_written(),
            }
            for task in sorted(job.tasks.values(), key=lambda t: t.name)
        ],
    }


def show_jobs(rows: list[tuple[Any, ...]]) -> None:
    """Print a table of jobs."""
    render.table(JOB_COLUMNS, rows, names=("Name", "Queue"), spare=JOB_SPARE)


def show_queues(rows: list[tuple[Any, ...]]) -> None:
    """Print a table of queues."""
    render.table(QUEUE_COLUMNS, rows, names=("Name", "Parent"), spare=("Unknown", "Completed", "Parent", "Inqueue"))


def show_job(job: Job) -> None:
    """Print a job and its tasks."""
    render.heading(job.uid, f"queue {job.queue or '-'}, priority {job.priority}")
    render.line()
    show_jobs([job_row(job)])
    render.line()
    render.table(
        ["Task", "Role", "Status", "Node", "Requests"],
        [
            (t.name, t.role or "-", t.status.title, t.node_name or "-", short(t.requests.as_written()))
            for t in sorted(job.tasks.values(), key=lambda t: t.name)
        ],
        names=["Task", "Role", "Node"],
        wrap=["Requests"],
    )
    for condition in (job.group.status.conditions or []) if job.group is not None else []:
        render.line(f"{condition.type}: {condition.message or condition.reason}")


def queue_data(queue: Queue) -> dict[str, Any]:
    """A queue with its amounts and jobs, for programs."""
    written = {what: amounts.as_written() for what, amounts in _sums(queue).items()}
    return {**named(QUEUE_COLUMNS, queue_row(queue)), **written, "jobs": sorted(queue.jobs)}


def show_queue(queue: Queue) -> None:
    """Print a queue and its amounts."""
    show_queues([queue_row(queue)])
    render.line()
    told = {what: amounts for what, amounts in _sums(queue).items() if amounts.names()}
    render.pairs([(what, short(amounts.as_written())) for what, amounts in told.items()])


def _sums(queue: Queue) -> dict[str, Resources]:
    return {
        "allocated": queue.allocated,
        "pending": queue.pending,
        "deserved": queue.deserved,
        "guarantee": queue.guarantee,
        "capability": queue.capability,
    }


def named(columns: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
    """A row for programs."""
    return dict(zip(columns, row, strict=True))


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat() if seconds else "-"
