"""Jobs and queues in Volcano's columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from pumice.cli import render
from pumice.cli.amounts import short
from pumice.framework.quota import published
from pumice.model import keys
from pumice.model.job import Job
from pumice.model.limit import shown
from pumice.model.quantity import whole_number
from pumice.model.queue import Queue
from pumice.model.resources import Number
from pumice.model.status import TaskStatus

S = TaskStatus
Amounts: TypeAlias = Mapping[str, Number]
Sums: TypeAlias = Mapping[str, Amounts]
Gauges: TypeAlias = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]
JOB_COLUMNS = (
    *("Name", "Queue", "Creation", "Phase", "JobType", "Replicas", "Min"),
    *("Pending", "Running", "Succeeded", "Failed", "Unknown", "RetryCount"),
)
JOB_SPARE = ("RetryCount", "Unknown", "Succeeded", "Failed", "JobType", "Creation", "Running", "Pending")
"""What a narrow terminal does without, the first one first."""
QUEUE_COLUMNS = ("Name", "Weight", "State", "Parent", "Inqueue", "Pending", "Running", "Unknown", "Completed")
_VERSION = keys.JOB_VERSION
_TYPE = keys.JOB_TYPE


def job_row(job: Job, *, with_namespace: bool = True) -> tuple[Any, ...]:
    """A job in Volcano's columns."""
    versions = [whole_number(t.annotations.get(_VERSION, "")) or 0 for t in job.tasks.values()]
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
        spare=["Role"],
    )
    for condition in (job.group.status.conditions or []) if job.group is not None else []:
        render.line(f"{condition.type}: {condition.message or condition.reason}")


def queue_data(queue: Queue, sums: Sums) -> dict[str, Any]:
    """A queue with its amounts and jobs, for programs."""
    return {**named(QUEUE_COLUMNS, queue_row(queue)), **sums, "jobs": sorted(queue.jobs)}


def show_queue(queue: Queue, sums: Sums) -> None:
    """Print a queue and its amounts."""
    show_queues([queue_row(queue)])
    render.line()
    names = sorted({n for amounts in sums.values() for n in amounts if n != "pods"}, key=lambda n: ("/" not in n, n))
    told = [what for what, amounts in sums.items() if what == "allocated" or any(amounts.get(n) for n in names)]
    titles = [what.replace("_", " ").capitalize() for what in told]
    render.table(
        ["Resource", *titles],
        [(name, *(shown(name, sums[what][name]) if name in sums[what] else "-" for what in told)) for name in names],
        spare=[title for title in ("Pending", "Guarantee") if title in titles],
    )


def queue_sums(queue: Queue, now: Amounts, after: Amounts, gauges: Gauges) -> Sums:
    """What a queue holds *now* and *after* a cycle, what waits in it, and what it may have, by resource.

    What it deserves is what the cycle's plugins found; the queue's own words where none of them published it.
    """
    return {
        "allocated": now,
        "pending": queue.pending.as_written(),
        "after_cycle": after,
        "deserved": published(gauges, queue.name, "deserved") or queue.deserved.as_written(),
        "guarantee": queue.guarantee.as_written(),
        "capability": queue.capability.as_written(),
    }


def named(columns: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
    """A row for programs."""
    return dict(zip(columns, row, strict=True))


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat() if seconds else "-"
