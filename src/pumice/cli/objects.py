"""``pumice job`` and ``pumice queue``: what stands in a cluster, with Volcano's columns."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from pumice.cli import render
from pumice.cli.amounts import short
from pumice.cli.options import JsonOption, Output, OutputOption, as_json
from pumice.cli.sources import PathsArgument, cluster_of, find_job
from pumice.config.problems import nearest
from pumice.errors import InvalidInput
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus
from pumice.state.cluster import ClusterState

S = TaskStatus
jobs = typer.Typer(help="Jobs of a cluster.", no_args_is_help=True)
queues = typer.Typer(help="Queues of a cluster.", no_args_is_help=True)

JOB_COLUMNS = (
    *("Name", "Creation", "Phase", "JobType", "Replicas", "Min"),
    *("Pending", "Running", "Succeeded", "Failed", "Unknown", "RetryCount"),
)
QUEUE_COLUMNS = ("Name", "Weight", "State", "Parent", "Inqueue", "Pending", "Running", "Unknown", "Completed")
_VERSION = "volcano.sh/job-version"
_TYPE = "volcano.sh/job-type"


@jobs.command("list")
def job_list(
    paths: PathsArgument,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only jobs of this queue.")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only jobs of this namespace.")] = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """List the jobs."""
    state = cluster_of(paths)
    chosen = [
        state.jobs[uid]
        for uid in sorted(state.jobs)
        if queue in (None, state.jobs[uid].queue) and namespace in (None, state.jobs[uid].namespace)
    ]
    rows = [job_row(job, with_namespace=namespace is None) for job in chosen]
    if as_json(output, json):
        render.data([_named(JOB_COLUMNS, row) for row in rows])
    else:
        render.table(JOB_COLUMNS, rows)


@jobs.command("view")
def job_view(
    job: Annotated[str, typer.Argument(metavar="JOB", help="namespace/name, or the name where it is unique.")],
    paths: PathsArgument,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Show one job and its tasks."""
    found = find_job(cluster_of(paths), job)
    if as_json(output, json):
        render.data(job_data(found))
    else:
        _show_job(found)


@queues.command("list")
def queue_list(paths: PathsArgument, output: OutputOption = Output.TABLE, json: JsonOption = False) -> None:
    """List the queues."""
    state = cluster_of(paths)
    rows = [queue_row(state.queues[name]) for name in sorted(state.queues)]
    if as_json(output, json):
        render.data([_named(QUEUE_COLUMNS, row) for row in rows])
    else:
        render.table(QUEUE_COLUMNS, rows)


@queues.command("get")
def queue_get(
    name: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")],
    paths: PathsArgument,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Show one queue."""
    state = cluster_of(paths)
    queue = _find_queue(state, name)
    sums = {
        "allocated": queue.allocated,
        "pending": queue.pending,
        "deserved": queue.deserved,
        "guarantee": queue.guarantee,
        "capability": queue.capability,
    }
    if as_json(output, json):
        written = {what: amounts.as_written() for what, amounts in sums.items()}
        render.data({**_named(QUEUE_COLUMNS, queue_row(queue)), **written, "jobs": sorted(queue.jobs)})
        return
    render.table(QUEUE_COLUMNS, [queue_row(queue)])
    render.line()
    render.pairs([(what, short(amounts.as_written())) for what, amounts in sums.items() if amounts.names()])


def job_row(job: Job, *, with_namespace: bool = True) -> tuple[Any, ...]:
    """A job in Volcano's columns."""
    versions = [int(v) for t in job.tasks.values() if (v := t.annotations.get(_VERSION, "")).isdigit()]
    counted = (S.PENDING, S.RUNNING, S.SUCCEEDED, S.FAILED, S.UNKNOWN)
    return (
        job.uid if with_namespace else job.name,
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
        **_named(JOB_COLUMNS, job_row(job)),
        "Queue": job.queue,
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


def _show_job(job: Job) -> None:
    render.heading(job.uid, f"queue {job.queue or '-'}, priority {job.priority}")
    render.line()
    render.table(JOB_COLUMNS, [job_row(job)])
    render.line()
    render.table(
        ["Task", "Role", "Status", "Node", "Requests"],
        [
            (t.name, t.role or "-", t.status.title, t.node_name or "-", short(t.requests.as_written()))
            for t in sorted(job.tasks.values(), key=lambda t: t.name)
        ],
    )
    for condition in (job.group.status.conditions or []) if job.group is not None else []:
        render.line(f"{condition.type}: {condition.message or condition.reason}")


def _find_queue(state: ClusterState, name: str) -> Queue:
    if name in state.queues:
        return state.queues[name]
    near = nearest(name, state.queues)
    hint = f"; did you mean {near!r}?" if near else ""
    raise InvalidInput(f"queue {name!r}: there is none of that name{hint}")


def _named(columns: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(columns, row, strict=True))


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat() if seconds else "-"
