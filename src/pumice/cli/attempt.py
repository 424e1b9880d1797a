"""``pumice try``: what a job would do that is not there yet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pumice.cli import render
from pumice.cli.cluster_options import Context, Kubeconfig
from pumice.cli.live import AuthorityOption, MaybePaths, ServerOption, asker_of, only_with_paths, run
from pumice.cli.options import (
    CompatOption,
    ConfOption,
    JsonOption,
    Output,
    OutputOption,
    PluginsDirOption,
    as_json,
)
from pumice.cli.when import PastOption


def attempt(
    file: Annotated[
        list[Path], typer.Option("-f", "--filename", metavar="FILE", help="The job: a manifest (repeatable).")
    ],
    paths: MaybePaths = None,
    history: PastOption = None,
    conf: ConfOption = None,
    plugins_dir: PluginsDirOption = None,
    compat: CompatOption = None,
    server: ServerOption = None,
    server_ca: AuthorityOption = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Say whether a job would start now, or likely when, where, who would be evicted, what it does to its queue.

    It is what the next cycle decides if nothing else happens. Nothing is written. Without PATH the running scheduler is
    asked.
    """
    from pumice.cli import answer_text
    from pumice.cli.manifests import read_objects
    from pumice.cli.why import desk_of

    objects, unread = read_objects(file)
    if unread:
        render.warning(f"objects of kind {', '.join(unread)} are not tried")
    if paths:
        tried = desk_of(paths, conf, plugins_dir, compat, history).attempt_and_wait(objects).answer()
    else:
        only_with_paths(conf=conf, plugins_dir=plugins_dir, compat=compat, history=history)
        tried = run(asker_of(server, server_ca, kubeconfig, context).attempt(objects))
    if as_json(output, json):
        render.data(tried)
    else:
        answer_text.show_tried(tried)
