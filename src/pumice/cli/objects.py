"""``pumice job`` and ``pumice queue``: what stands in a cluster, with Volcano's columns."""

from __future__ import annotations

from typing import Annotated

import typer

from pumice.cli import render
from pumice.cli.commands import Commands
from pumice.cli.live import NamespaceOption, ObjectsPlace, SchedulerPlace, run
from pumice.cli.options import JobArgument, Output, OutputOption

jobs = Commands(help="Jobs of a cluster.", no_args_is_help=True)
queues = Commands(help="Queues of a cluster.", no_args_is_help=True)


@jobs.command("list")
def job_list(
    *,
    queue: Annotated[str | None, typer.Option("--queue", "-q", metavar="NAME", help="Only jobs of this queue.")] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Only jobs of this namespace.")
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="On a running cluster: jobs of all namespaces.")
    ] = False,
    place: ObjectsPlace,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the jobs."""
    from pumice.answers.finding import find_queue
    from pumice.cli import object_rows

    if place.paths:
        state = place.cluster()
    else:
        state = run(place.asker().cluster("" if all_namespaces else place.namespace("", namespace)))
    if queue is not None and (place.paths or state.queues):
        find_queue(state, queue)
    chosen = [
        state.jobs[uid]
        for uid in sorted(state.jobs)
        if queue in (None, state.jobs[uid].queue) and namespace in (None, state.jobs[uid].namespace)
    ]
    rows = [object_rows.job_row(job, with_namespace=namespace is None) for job in chosen]
    if output is Output.JSON:
        render.data([object_rows.named(object_rows.JOB_COLUMNS, row) for row in rows])
    else:
        object_rows.show_jobs(rows)


@jobs.command("view")
def job_view(
    job: JobArgument,
    place: ObjectsPlace,
    namespace: NamespaceOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show one job and its tasks."""
    from pumice.answers.finding import find_job
    from pumice.cli import object_rows

    where = namespace or "" if place.paths else place.namespace(job, namespace)
    state = place.cluster() if place.paths else run(place.asker().cluster(where))
    found = find_job(state, job, where)
    if output is Output.JSON:
        render.data(object_rows.job_data(found))
    else:
        object_rows.show_job(found)


@queues.command("list")
def queue_list(
    place: ObjectsPlace,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the queues. Of a running cluster, with the jobs that you may list."""
    from pumice.cli import object_rows

    state = place.cluster() if place.paths else run(place.asker().queues())
    rows = [object_rows.queue_row(state.queues[name]) for name in sorted(state.queues)]
    if output is Output.JSON:
        render.data([object_rows.named(object_rows.QUEUE_COLUMNS, row) for row in rows])
    else:
        object_rows.show_queues(rows)


@queues.command("get")
def queue_get(
    name: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")],
    place: SchedulerPlace,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show one queue. What it holds now and after the next cycle, what it deserves under the conf, what bounds it."""
    if not place.paths:
        from pumice.cli import answer_text

        standing = run(place.asker().standing_or_object(name, render.note))
        if output is Output.JSON:
            render.data(standing)
        else:
            answer_text.show_standing(standing)
        return
    from pumice.answers.finding import find_queue
    from pumice.cli import object_rows
    from pumice.cli.options import registry_with

    begun = place.cycle(registry_with(place.plugins_dir))
    queue = find_queue(begun.state, name)
    held = [queue.allocated.as_written()]
    report = begun.dry_run(lambda ssn: held.append(ssn.queues[name].allocated.as_written()))
    sums = object_rows.queue_sums(queue, held[0], held[1], report.gauges)
    if output is Output.JSON:
        render.data(object_rows.queue_data(queue, sums))
    else:
        object_rows.show_queue(queue, sums)
