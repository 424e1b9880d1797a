"""``pumice job`` and ``pumice queue``: what stands in a cluster, with Volcano's columns."""

from __future__ import annotations

from typing import Annotated

import typer

from pumice.cli import render
from pumice.cli.cluster_options import Context, Kubeconfig
from pumice.cli.live import (
    AuthorityOption,
    MaybePaths,
    NamespaceOption,
    ServerOption,
    asker_of,
    namespace_of,
    only_with_paths,
    run,
)
from pumice.cli.options import (
    ConfOption,
    JobArgument,
    JsonOption,
    Output,
    OutputOption,
    PluginsDirOption,
    as_json,
)

jobs = typer.Typer(help="Jobs of a cluster.", no_args_is_help=True)
queues = typer.Typer(help="Queues of a cluster.", no_args_is_help=True)


@jobs.command("list")
def job_list(
    paths: MaybePaths = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", metavar="NAME", help="Only jobs of this queue.")] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Only jobs of this namespace.")
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="On a running cluster: jobs of all namespaces.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """List the jobs."""
    from pumice.answers.finding import find_queue
    from pumice.cli import object_rows
    from pumice.cli.sources import cluster_of

    if paths:
        state = cluster_of(paths)
    else:
        where = "" if all_namespaces else namespace_of("", namespace, kubeconfig, context)
        state = run(asker_of(None, None, kubeconfig, context).cluster(where))
    if queue is not None and (paths or state.queues):
        find_queue(state, queue)
    chosen = [
        state.jobs[uid]
        for uid in sorted(state.jobs)
        if queue in (None, state.jobs[uid].queue) and namespace in (None, state.jobs[uid].namespace)
    ]
    rows = [object_rows.job_row(job, with_namespace=namespace is None) for job in chosen]
    if as_json(output, json):
        render.data([object_rows.named(object_rows.JOB_COLUMNS, row) for row in rows])
    else:
        object_rows.show_jobs(rows)


@jobs.command("view")
def job_view(
    job: JobArgument,
    paths: MaybePaths = None,
    namespace: NamespaceOption = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Show one job and its tasks."""
    from pumice.answers.finding import find_job
    from pumice.cli import object_rows
    from pumice.cli.sources import cluster_of

    if paths:
        found = find_job(cluster_of(paths), job, namespace or "")
    else:
        where = namespace_of(job, namespace, kubeconfig, context)
        found = find_job(run(asker_of(None, None, kubeconfig, context).cluster(where)), job, where)
    if as_json(output, json):
        render.data(object_rows.job_data(found))
    else:
        object_rows.show_job(found)


@queues.command("list")
def queue_list(
    paths: MaybePaths = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """List the queues. Of a running cluster, with the jobs that you may list."""
    from pumice.cli import object_rows
    from pumice.cli.sources import cluster_of

    state = cluster_of(paths) if paths else run(asker_of(None, None, kubeconfig, context).queues())
    rows = [object_rows.queue_row(state.queues[name]) for name in sorted(state.queues)]
    if as_json(output, json):
        render.data([object_rows.named(object_rows.QUEUE_COLUMNS, row) for row in rows])
    else:
        object_rows.show_queues(rows)


@queues.command("get")
def queue_get(
    name: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")],
    paths: MaybePaths = None,
    conf: ConfOption = None,
    plugins_dir: PluginsDirOption = None,
    server: ServerOption = None,
    server_ca: AuthorityOption = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Show one queue. What it holds now and after the next cycle, what it deserves under the conf, what bounds it."""
    if not paths:
        from pumice.cli import answer_text

        only_with_paths(conf=conf, plugins_dir=plugins_dir)
        standing = run(asker_of(server, server_ca, kubeconfig, context).standing_or_object(name, render.note))
        if as_json(output, json):
            render.data(standing)
        else:
            answer_text.show_standing(standing)
        return
    from pumice import saved
    from pumice.answers.finding import find_queue
    from pumice.cli import object_rows
    from pumice.cli.options import load_conf, registry_with
    from pumice.cli.sources import cycle_of
    from pumice.scheduler.recording import replay

    registry = registry_with(plugins_dir)
    begun = cycle_of(paths, load_conf(conf, registry) if conf is not None else None, registry)
    queue = find_queue(saved.restore(begun), name)
    ran = replay(begun, registry, live=not saved.is_saved(paths[0]))
    sums = object_rows.queue_sums(queue, ran.state.queues[name], ran.report.gauges)
    if as_json(output, json):
        render.data(object_rows.queue_data(queue, sums))
    else:
        object_rows.show_queue(queue, sums)
