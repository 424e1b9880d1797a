"""``pumice sweep``: one conf with arguments of its plugins varied over a grid, on many seeds."""

from __future__ import annotations

from typing import Annotated

import typer

from pumice.cli.options import JsonOption, Output, OutputOption, as_json, registry_with
from pumice.cli.play_options import (
    DataOption,
    DirectoryOption,
    FailIfOption,
    HorizonOption,
    JobsOption,
    RecordOption,
    ReportOption,
    ScenarioArgument,
    UntilSureOption,
)
from pumice.errors import InvalidInput

MOST_CONFS = 200


def sweep(
    scenario: ScenarioArgument,
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary", metavar="PLUGIN.ARGUMENT=VALUES", help="What varies: 'binpack.weight=1,2,5' (repeatable: a grid)."
        ),
    ],
    conf: Annotated[
        str | None,
        typer.Option("--conf", metavar="CONF", help="A configuration of the scenario or a file; else the first one."),
    ] = None,
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="SEEDS", help="The seeds to play: 1..30, or 1,4,9.")
    ] = "1..7",
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
    from pumice.cli.playing import changed, chosen_conf
    from pumice.cli.progress import terminable
    from pumice.cli.studies import Files, StudyOptions, play_study
    from pumice.scheduler.assembly import catalogue_of
    from pumice.sim.scenario import plugin_directory, read_scenario
    from pumice.sim.study.playing import StudyWorld
    from pumice.sim.study.sweeping import grid, parse_vary

    plugins = plugins_dir or plugin_directory(scenario)
    catalogue = catalogue_of(registry_with(plugins))
    read = read_scenario(scenario, catalogue, data)
    _, base = chosen_conf(read, conf, catalogue)
    try:
        confs = grid(base, [parse_vary(text) for text in vary], catalogue)
    except InvalidInput as exc:
        raise typer.BadParameter(str(exc), param_hint="--vary") from exc
    if len(confs) > MOST_CONFS:
        raise typer.BadParameter(f"gives {len(confs):,} configurations, at most {MOST_CONFS}", param_hint="--vary")
    read = changed(read.under(confs), horizon)
    if plugins is not None:
        read = read.with_input("plugins", plugins)
    wanted = StudyOptions(None, seeds, until_sure, jobs, tuple(fail_if or ()))
    with terminable():
        world = StudyWorld(read, plugins.resolve() if plugins else None)
        play_study(world, Files(report, record), wanted, as_json(output, json))
