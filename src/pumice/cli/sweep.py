"""``pumice sweep``: one conf with arguments of its plugins varied over a grid, on many seeds."""

from __future__ import annotations

from typing import Annotated

import typer

from pumice.cli.options import JsonOption, Output, OutputOption, as_json
from pumice.cli.play_options import (
    FailIfOption,
    OneConfOptions,
    RecordOption,
    ScenarioArgument,
    SetSeedsOption,
    UntilSureOption,
)
from pumice.errors import ConfigError, InvalidInput

MOST_CONFS = 200


def sweep(
    scenario: ScenarioArgument,
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary", metavar="PLUGIN.ARGUMENT=VALUES", help="What varies: 'binpack.weight=1,2,5' (repeatable: a grid)."
        ),
    ],
    *,
    seeds: SetSeedsOption = "1..7",
    until_sure: UntilSureOption = None,
    fail_if: FailIfOption = None,
    record: RecordOption = None,
    play: OneConfOptions,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Vary arguments of a configuration, and say which values are better than those it has."""
    from pumice.cli.progress import terminable
    from pumice.cli.studies import Files, StudyOptions, play_study
    from pumice.sim.study.sweeping import grid, parse_vary

    opened, _, base = play.opened(scenario)
    try:
        confs = grid(base, [parse_vary(text) for text in vary], opened.catalogue)
    except InvalidInput as exc:
        raise typer.BadParameter(str(exc), param_hint="--vary") from exc
    if len(confs) > MOST_CONFS:
        raise typer.BadParameter(f"gives {len(confs):,} configurations, at most {MOST_CONFS}", param_hint="--vary")
    try:
        world = opened.world(confs)
    except ConfigError as exc:
        raise typer.BadParameter(str(exc), param_hint="--vary") from exc
    wanted = StudyOptions(None, seeds, until_sure, play.jobs, tuple(fail_if or ()))
    with terminable():
        play_study(world, Files(play.report, record), wanted, as_json(output, json))
