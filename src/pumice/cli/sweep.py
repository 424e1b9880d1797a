"""``pumice sweep``: one conf with arguments of its plugins varied over a grid, on many seeds."""

from __future__ import annotations

from typing import Annotated

import typer

from pumice.cli.options import JsonOption, Output, OutputOption, as_json
from pumice.cli.play_options import (
    DataOption,
    DirectoryOption,
    FailIfOption,
    HorizonOption,
    JobsOption,
    RecordOption,
    ReportOption,
    ScenarioArgument,
    SetSeedsOption,
    StartConfOption,
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
    conf: StartConfOption = None,
    seeds: SetSeedsOption = "1..7",
    until_sure: UntilSureOption = None,
    jobs: JobsOption = None,
    horizon: HorizonOption = None,
    fail_if: FailIfOption = None,
    report: ReportOption = None,
    record: RecordOption = None,
    plugins_dir: DirectoryOption = None,
    data: DataOption = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Vary arguments of a configuration, and say which values are better than those it has."""
    from pumice.cli.opening import chosen_conf, open_scenario
    from pumice.cli.progress import terminable
    from pumice.cli.studies import Files, StudyOptions, play_study
    from pumice.sim.study.sweeping import grid, parse_vary

    opened = open_scenario(scenario, plugins_dir, data, horizon)
    _, base = chosen_conf(opened, conf)
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
    wanted = StudyOptions(None, seeds, until_sure, jobs, tuple(fail_if or ()))
    with terminable():
        play_study(world, Files(report, record), wanted, as_json(output, json))
