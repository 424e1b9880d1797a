"""``pumice status``: jobs, queues and nodes as they stand, in lists and one by one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pumice.cli import render
from pumice.cli.options import (
    AnswersPlace,
    JobArgument,
    NamespaceOption,
    Output,
    OutputOption,
    StatusOutput,
    StatusPlace,
    WrongUsage,
    run,
)
from pumice.words import counted

if TYPE_CHECKING:
    from pumice.answers.jobs import JobRow
    from pumice.answers.queues import Standing
    from pumice.answers.survey import NodeRow
    from pumice.framework.session.session import Session
    from pumice.model.job import Job
    from pumice.state.cluster import ClusterState


EVERY: Final = 2.0
"""Seconds between two looks of --watch."""

SPARE: Final = (
    *("RETRIES", "TYPE", "UNKNOWN", "SUCCEEDED", "FAILED", "CREATED", "PRIORITY", "MIN", "RUNNING", "PENDING"),
    *("ASKS", "QUEUE", "AGE", "PLACE"),
)
"""Columns that a narrow terminal does without, the first one first."""


class StatusKind(StrEnum):
    """What is shown."""

    JOB = "job"
    QUEUE = "queue"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Status:
    """The content of a cluster at one instant."""

    now: float
    jobs: list[JobRow]
    queues: list[Standing]
    nodes: list[NodeRow]
    state: ClusterState
    tasks: dict[str, list[dict[str, Any]]]
    """Job -> its pods, if one job is shown."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list: its title, its cell, and what the list is sorted by."""

    title: str
    cell: Callable[[Any], Any]
    order: Callable[[Any], Any]
    wide: bool = False


def status(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[job|queue|node [NAME]]", help="A kind, and the one to show; else all jobs."),
    ] = None,
    *,
    source: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="PATH", help="Manifests, or one saved cycle (repeatable); else the cluster."),
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Only jobs of this queue.")] = None,
    namespace: NamespaceOption = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Jobs of all namespaces of the cluster.")
    ] = False,
    sort: Annotated[
        str | None, typer.Option("--sort", metavar="COLUMN", help="Sort by this column; -COLUMN: the largest first.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Print again every 2 s, until stopped.")] = False,
    place: StatusPlace,
    output: Annotated[
        StatusOutput,
        typer.Option("-o", "--output", metavar="FORMAT", help="Print a table, wide, json, yaml or name."),
    ] = StatusOutput.TABLE,
) -> None:
    """Show the jobs of a cluster, or its queues or nodes, or one of them.

    With --from, amounts are as the next cycle would leave them. Without, the API server is asked; a queue's share is
    asked of the running scheduler.

    Examples:
        pumice status --queue research --sort -age
        pumice status queue research --from examples/demo -o yaml
    """
    kind, name = _meant(words or [])
    if queue is not None and (kind is not StatusKind.JOB or name):
        raise WrongUsage("--queue: only for the list of jobs")
    if sort is not None and name:
        raise WrongUsage("--sort: only for lists")
    while True:
        found = _status(kind, name, place, source or [], namespace, all_namespaces=all_namespaces)
        if watch and output in (StatusOutput.TABLE, StatusOutput.WIDE):
            render.clear()
        _print(found, kind, name, queue, namespace, sort, output)
        if not watch:
            return
        time.sleep(EVERY)


def _meant(words: list[str]) -> tuple[StatusKind, str]:
    """Return the kind and the name that are written."""
    if not words:
        return StatusKind.JOB, ""
    kind = words[0].removesuffix("s")
    if kind not in {k.value for k in StatusKind} or len(words) > 2:
        raise WrongUsage(f"{' '.join(words)!r}: must be job, queue or node, and a NAME if one is meant")
    return StatusKind(kind), words[1] if len(words) == 2 else ""


# -- what stands there ----------------------------------------------------------------------------------------------
def _status(
    kind: StatusKind, name: str, place: StatusPlace, paths: list[Path], namespace: str | None, *, all_namespaces: bool
) -> Status:
    """Return what stands in the files, after the next cycle, or in the cluster, as its objects say."""
    if paths:
        from pumice.answers.jobs import find_job
        from pumice.answers.survey import take_survey

        answers = place.answers_of(paths)
        tasks: dict[str, list[dict[str, Any]]] = {}
        wanted = kind is StatusKind.JOB and name

        def also(ssn: Session) -> None:
            job = find_job(ssn.state, name, namespace or "")
            tasks[job.uid] = _tasks(job)

        survey = take_survey(answers, also if wanted else None)
        return Status(survey.now, survey.jobs, survey.queues, survey.nodes, answers.state, tasks)
    from pumice.answers.jobs import row_of_objects, standing_of_object
    from pumice.answers.survey import node_row

    client = place.client()
    if kind is StatusKind.QUEUE and name:
        standing = run(client.standing_or_object(name, render.note))
        from pumice.state.cluster import ClusterState

        return Status(0.0, [], [standing], [], ClusterState(), {})
    if kind is StatusKind.QUEUE:
        state = run(client.queues())
    elif kind is StatusKind.NODE:
        state = run(client.cluster("", ("Node", "Pod")))
    else:
        within = "" if all_namespaces and not name else place.namespace(name, namespace)
        state = run(client.cluster(within))
    return Status(
        state.now,
        [row_of_objects(job) for job in state.jobs.values()],
        [standing_of_object(queue) for _, queue in sorted(state.queues.items())],
        [node_row(state, key, node) for key, node in sorted(state.nodes.items())],
        state,
        {job.uid: _tasks(job) for job in state.jobs.values()} if kind is StatusKind.JOB and name else {},
    )


def _print(
    found: Status,
    kind: StatusKind,
    name: str,
    queue: str | None,
    namespace: str | None,
    sort: str | None,
    output: StatusOutput,
) -> None:
    rows = _rows(found, kind, name, queue, namespace)
    if not name:
        rows = _sorted(rows, kind, found, sort)
    if output is StatusOutput.NAME:
        for row in rows:
            render.line(f"{kind}/{_name(row)}")
    elif output in (StatusOutput.JSON, StatusOutput.YAML):
        data = _data(found, kind, rows[0]) if name else rows
        (render.data if output is StatusOutput.JSON else render.yaml)(data)
    elif name:
        _show(found, kind, rows[0])
    else:
        _list(rows, kind, found, wide=output is StatusOutput.WIDE)


def _rows(found: Status, kind: StatusKind, name: str, queue: str | None, namespace: str | None) -> list[Any]:
    """Return the rows of a kind, or the one that is meant.

    :raises NoSuchThing: there is none of the name; names a similar one.
    """
    from pumice.answers.jobs import NoSuchThing, find_job, find_queue
    from pumice.config.problems import nearest

    if kind is StatusKind.JOB:
        if queue is not None and found.state.queues:
            find_queue(found.state, queue)
        if name:
            uid = find_job(found.state, name, namespace or "").uid
            return [row for row in found.jobs if row.job == uid]
        wanted = (row for row in found.jobs if queue in (None, row.queue) and namespace in (None, row.namespace))
        return sorted(wanted, key=lambda row: row.job)
    listed: Sequence[Any] = found.queues if kind is StatusKind.QUEUE else found.nodes
    rows = [row for row in listed if not name or _name(row) == name]
    if name and not rows:
        near = nearest(name, [_name(row) for row in listed])
        raise NoSuchThing(f"no {kind} named {name!r}{f'; did you mean {near!r}?' if near else ''}")
    return rows


def _name(row: Any) -> str:
    return str(getattr(row, "job", None) or getattr(row, "queue", None) or row.name)


def _sorted(rows: list[Any], kind: StatusKind, found: Status, sort: str | None) -> list[Any]:
    if sort is None:
        return rows
    columns = {column.title.casefold().replace(" ", "-"): column for column in _columns(kind, found)}
    column = columns.get(sort.removeprefix("-").casefold().replace(" ", "-"))
    if column is None:
        raise WrongUsage(f"--sort {sort!r}: must be one of {', '.join(columns)}")
    return sorted(rows, key=column.order, reverse=sort.startswith("-"))


# -- lists ----------------------------------------------------------------------------------------------------------
def _list(rows: list[Any], kind: StatusKind, found: Status, *, wide: bool) -> None:
    if kind is StatusKind.QUEUE:
        _list_queues(rows, wide=wide)
        return
    if not rows:
        render.line("No jobs." if kind is StatusKind.JOB else "No nodes.")
        return
    columns = [column for column in _columns(kind, found) if wide or not column.wide]
    titles = [column.title for column in columns]
    if kind is StatusKind.NODE:
        states = Counter(row.state for row in rows)
        render.heading(
            counted(len(rows), "node"), ", ".join(f"{count:,} {state}" for state, count in states.most_common())
        )
    render.table(
        titles,
        [[column.cell(row) for column in columns] for row in rows],
        names=[title for title in titles if title in ("JOB", "QUEUE", "NODE", "PLACE")],
        wrap=[title for title in titles if title in ("WHY", "ASKS")],
        spare=[title for title in SPARE if title in titles],
        text="WHY" if "WHY" in titles else "",
    )


def _columns(kind: StatusKind, found: Status) -> list[Column]:
    if kind is StatusKind.NODE:
        return _node_columns()
    if kind is StatusKind.QUEUE:
        return [
            Column("QUEUE", lambda q: q.queue, lambda q: q.queue),
            Column("WEIGHT", lambda q: q.weight, lambda q: q.weight),
            Column("WAITING", lambda q: q.waiting, lambda q: q.waiting),
            Column("JOBS", lambda q: q.jobs, lambda q: q.jobs),
        ]
    return _job_columns(found)


def _job_columns(found: Status) -> list[Column]:
    from pumice.cli.text import short
    from pumice.model import keys
    from pumice.model.quantity import whole_number
    from pumice.sim.report.units import duration

    def age(row: JobRow) -> float:
        return max(0.0, found.now - row.since) if row.since else 0.0

    def asks(row: JobRow) -> str:
        return short(_sum(row.holds, row.asks))

    def kind(row: JobRow) -> str:
        return found.state.jobs[row.job].labels.get(keys.JOB_TYPE, "Batch")

    def retries(row: JobRow) -> int:
        said = (task.annotations.get(keys.JOB_VERSION, "") for task in found.state.jobs[row.job].tasks.values())
        return max((whole_number(text) or 0 for text in said), default=0)

    def count(status: str) -> Column:
        return Column(
            status.upper(), lambda row: row.counts.get(status, 0), lambda row: row.counts.get(status, 0), True
        )

    return [
        Column("JOB", lambda row: row.job, lambda row: row.job),
        Column("QUEUE", lambda row: row.queue or "-", lambda row: row.queue),
        Column("STATE", lambda row: row.state, lambda row: row.state),
        Column("AGE", lambda row: duration(age(row)) if age(row) else "-", age),
        Column("PODS", lambda row: f"{row.ready}/{row.pods}", lambda row: row.pods),
        Column("ASKS", asks, lambda row: max([0.0, *_sum(row.holds, row.asks).values()])),
        Column("PLACE", _place, lambda row: (row.place, _place(row))),
        Column("WHY", lambda row: row.text, lambda row: (row.reason, row.text)),
        Column("CREATED", lambda row: row.created.isoformat() if row.created else "-", lambda row: row.since, True),
        Column("PRIORITY", lambda row: row.priority, lambda row: row.priority, True),
        Column("MIN", lambda row: row.needs, lambda row: row.needs, True),
        *(count(status) for status in ("Pending", "Running", "Succeeded", "Failed", "Unknown")),
        Column("TYPE", kind, kind, True),
        Column("RETRIES", retries, retries, True),
    ]


def _place(row: JobRow) -> str:
    """Return the nodes of a job that runs, or its position in the queue."""
    if row.nodes:
        return ", ".join(f"{node} ×{n}" if n > 1 else node for node, n in sorted(row.nodes.items()))
    return f"position {row.place}" if row.place else "-"


def _sum(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _node_columns() -> list[Column]:
    from pumice.model.limit import shown

    def amount(name: str) -> Callable[[NodeRow], str]:
        return lambda row: (
            f"{shown(name, row.used.get(name, 0))}/{shown(name, row.has[name])}" if row.has.get(name) else "-"
        )

    def devices(row: NodeRow) -> str:
        held = [f"{amount(name)(row)} {name.rpartition('/')[2]}" for name in sorted(row.has) if "/" in name]
        return ", ".join(held) or "-"

    def part(name: str) -> Callable[[NodeRow], float]:
        return lambda row: row.used.get(name, 0) / row.has[name] if row.has.get(name) else 0.0

    def of_devices(row: NodeRow) -> float:
        return max((part(name)(row) for name in row.has if "/" in name), default=0.0)

    return [
        Column("NODE", lambda row: row.name, lambda row: row.name),
        Column("STATE", lambda row: row.state, lambda row: row.state),
        Column("DEVICES", devices, of_devices),
        Column("CPU", amount("cpu"), part("cpu")),
        Column("MEMORY", amount("memory"), part("memory")),
        Column("PODS", lambda row: row.pods, lambda row: row.pods),
    ]


def _list_queues(queues: list[Standing], *, wide: bool) -> None:
    """Print what queues hold, deserve, may have at most and ask for, a line for each resource."""
    from pumice.cli.text import share_cells

    columns = ["QUEUE", "RESOURCE", "HOLDS", "DESERVES", "AT MOST", "PENDING", "JOBS WAIT"]
    more = ["WEIGHT", "STATE", "PARENT", "JOBS"] if wide else []
    rows: list[list[Any]] = []
    for queue in queues:
        once: list[Any] = [queue.waiting]
        if wide:
            once += [queue.weight, queue.state, queue.parent or "-", queue.jobs]
        named: list[Any] = [queue.queue]
        for share in queue.shares:
            rows.append([*named, share.resource, *share_cells(share), *once])
            named, once = [""], [""] * len(once)
        if not queue.shares:
            rows.append([*named, *("-",) * 5, *once])
    render.table([*columns, *more], rows, names=["QUEUE"], spare=[*more[::-1], "JOBS WAIT", "AT MOST"])


# -- one of them ----------------------------------------------------------------------------------------------------
def _show(found: Status, kind: StatusKind, row: Any) -> None:
    if kind is StatusKind.QUEUE:
        from pumice.cli.text import show_standing

        show_standing(row)
        return
    if kind is StatusKind.NODE:
        _list([row], kind, found, wide=True)
        jobs = [job for job in sorted(found.jobs, key=lambda job: job.job) if row.name in job.nodes]
        if jobs:
            render.line()
            render.table(
                ["JOB", "QUEUE", "STATE", "PODS HERE"],
                [(job.job, job.queue or "-", job.state, job.nodes[row.name]) for job in jobs],
                names=["JOB", "QUEUE"],
            )
        return
    from pumice.cli.text import short

    render.heading(row.job, f"queue {row.queue or '-'}, priority {row.priority}")
    render.line()
    _list([row], kind, found, wide=False)
    if tasks := found.tasks[row.job]:
        render.line()
        render.table(
            ["POD", "ROLE", "STATE", "NODE", "ASKS"],
            [(t["pod"], t["role"] or "-", t["state"], t["node"] or "-", short(t["asks"])) for t in tasks],
            names=["POD", "ROLE", "NODE"],
            wrap=["ASKS"],
            spare=["ROLE"],
        )
    job = found.state.jobs[row.job]
    for condition in (job.group.status.conditions or []) if job.group is not None else []:
        render.line(f"{condition.type}: {condition.message or condition.reason}")


def _tasks(job: Job) -> list[dict[str, Any]]:
    return [
        {
            "pod": task.key,
            "role": task.role,
            "state": task.status.title,
            "node": task.node_name,
            "asks": dict(task.requests.as_written()),
        }
        for task in sorted(job.tasks.values(), key=lambda t: t.name)
    ]


def _data(found: Status, kind: StatusKind, row: Any) -> dict[str, Any]:
    """Return one job, queue or node for programs."""
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(row)
    if kind is StatusKind.JOB:
        job = found.state.jobs[row.job]
        conditions = (job.group.status.conditions or ()) if job.group is not None else ()
        return {**data, "tasks": found.tasks[row.job], "conditions": msgspec.to_builtins(conditions)}
    if kind is StatusKind.NODE:
        return {**data, "jobs": {job.job: job.nodes[row.name] for job in found.jobs if row.name in job.nodes}}
    return data


def why(
    job: JobArgument,
    *,
    whole: Annotated[bool, typer.Option("--all", help="Also show every reason with its nodes.")] = False,
    place: AnswersPlace,
    namespace: NamespaceOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show why JOB waits, when it will likely start, its place, how its queue stands, and what would help.

    Without PATH the running scheduler is asked; if none answers, the job's own objects are read.

    Examples:
        pumice why research/llama
        pumice why llama examples/demo --conf examples/demo/scheduler.conf --all
    """
    from pumice.cli import text

    if place.paths:
        answer = place.answers().when(job, namespace or "").why_and_when()
    else:
        answer = run(place.client().why(job, place.namespace(job, namespace)))
    if output is Output.JSON:
        render.data(answer)
    else:
        text.show_why(answer, whole=whole)
