"""``pumice simulate`` and ``pumice compare``: a scenario under one or several configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pumice.cli.options import JsonOption, Output, OutputOption, as_json
from pumice.cli.play_options import PlayOptions, ScenarioArgument


def simulate(
    scenario: ScenarioArgument,
    *,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="Only this configuration of the scenario (repeatable)."),
    ] = None,
    play: PlayOptions,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Run a scenario under each of its configurations, and compare them if there are several."""
    from pumice.cli.playing import go

    opened = play.opened(scenario)
    confs = opened.scenario.configurations
    if only:
        unknown = next((name for name in only if name not in confs), None)
        if unknown is not None:
            raise typer.BadParameter(f"{unknown!r} is not one of {', '.join(confs)}", param_hint="--only")
        confs = {name: confs[name] for name in only}
    go(opened, confs, play.files(), play.study(), as_json(output, json))


def compare_confs(
    confs: Annotated[
        list[str],
        typer.Argument(metavar="CONF...", help="Configuration files, or `default` and `helm` for those built in."),
    ],
    scenario: Annotated[Path, typer.Option("--scenario", metavar="FILE", help="What to play under each of them.")],
    play: PlayOptions,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Run one scenario under several configurations, side by side."""
    from pumice.cli.opening import chosen_confs
    from pumice.cli.playing import go

    opened = play.opened(scenario)
    go(opened, chosen_confs(confs, opened.catalogue), play.files(), play.study(), as_json(output, json))
