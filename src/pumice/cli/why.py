"""``pumice why``: what a job waits for, on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cli import render
from pumice.cli.options import (
    CompatOption,
    ConfOption,
    JobArgument,
    JsonOption,
    Output,
    OutputOption,
    PathsArgument,
    PluginsDirOption,
    as_json,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pumice.answers.desk import Desk


def why(
    job: JobArgument,
    paths: PathsArgument,
    conf: ConfOption = None,
    plugins_dir: PluginsDirOption = None,
    compat: CompatOption = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Say what JOB waits for, its place, how its queue stands, and what would let it start sooner."""
    from pumice.cli import answer_text

    answer = desk_of(paths, conf, plugins_dir, compat).why(job)
    if as_json(output, json):
        render.data(answer)
    else:
        answer_text.show_why(answer)


def desk_of(paths: list[Path], conf: Path | None, plugins_dir: Path | None, compat: str | None) -> Desk:
    """A desk over manifests or a saved cycle."""
    from pumice.answers.desk import Desk
    from pumice.cli.options import load_conf, registry_with
    from pumice.cli.sources import cycle_of
    from pumice.saved import is_saved

    registry = registry_with(plugins_dir)
    chosen = None if conf is None and compat is None else load_conf(conf, registry, compat)
    saved = is_saved(paths[0])
    begun = cycle_of(paths, chosen, registry)
    return Desk.of_saved(begun, registry, source="cycle" if saved else "manifests", live=not saved)
