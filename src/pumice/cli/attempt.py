"""``pumice try``: what a job would do that is not there yet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pumice.cli import render
from pumice.cli.options import (
    CompatOption,
    ConfOption,
    JsonOption,
    Output,
    OutputOption,
    PathsArgument,
    PluginsDirOption,
    as_json,
)


def attempt(
    paths: PathsArgument,
    file: Annotated[
        list[Path], typer.Option("-f", "--filename", metavar="FILE", help="The job: a manifest (repeatable).")
    ],
    conf: ConfOption = None,
    plugins_dir: PluginsDirOption = None,
    compat: CompatOption = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Say whether a job would start now, where, who would be evicted for it, and what it does to its queue.

    It is what the next cycle decides if nothing else happens. Nothing is written.
    """
    from pumice.cli import answer_text
    from pumice.cli.manifests import read_objects
    from pumice.cli.why import desk_of

    objects, unread = read_objects(file)
    if unread:
        render.warning(f"objects of kind {', '.join(unread)} are not tried")
    tried = desk_of(paths, conf, plugins_dir, compat).attempt(objects)
    if as_json(output, json):
        render.data(tried)
    else:
        answer_text.show_tried(tried)
