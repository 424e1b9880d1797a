"""``pumice simulate`` and ``pumice compare``: a scenario under one or several configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pumice.cli.options import JsonOption, Output, OutputOption, as_json, registry_with
from pumice.cli.play_options import (
    DataOption,
    DirectoryOption,
    FailIfOption,
    HistoryOption,
    HorizonOption,
    JobsOption,
    LogOption,
    RecordOption,
    ReportOption,
    SaveOption,
    ScenarioArgument,
    SeedOption,
    SeedsOption,
    UntilSureOption,
)


def simulate(
    scenario: ScenarioArgument,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="Only this configuration of the scenario (repeatable)."),
    ] = None,
    seed: SeedOption = None,
    seeds: SeedsOption = None,
    until_sure: UntilSureOption = None,
    jobs: JobsOption = None,
    horizon: HorizonOption = None,
    fail_if: FailIfOption = None,
    report: ReportOption = None,
    record: RecordOption = None,
    log: LogOption = None,
    save: SaveOption = None,
    history: HistoryOption = None,
    plugins_dir: DirectoryOption = None,
    data: DataOption = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Run a scenario under each of its configurations, and compare them if there are several."""
    from pumice.cli.playing import changed, go
    from pumice.cli.studies import Files, StudyOptions
    from pumice.scheduler.assembly import catalogue_of
    from pumice.sim.scenario import plugin_directory, read_scenario

    plugins = plugins_dir or plugin_directory(scenario)
    registry = registry_with(plugins)
    read = read_scenario(scenario, catalogue_of(registry), data)
    if only:
        unknown = next((name for name in only if name not in read.configurations), None)
        if unknown is not None:
            raise typer.BadParameter(f"{unknown!r} is not one of {', '.join(read.configurations)}", param_hint="--only")
        read = read.under({name: read.configurations[name] for name in only})
    files = Files(report, record, log, save, history)
    wanted = StudyOptions(seed, seeds, until_sure, jobs, tuple(fail_if or ()))
    go(changed(read, horizon), registry, plugins, files, wanted, as_json(output, json))


def compare_confs(
    confs: Annotated[
        list[str],
        typer.Argument(metavar="CONF...", help="Configuration files, or `default` and `helm` for those built in."),
    ],
    scenario: Annotated[Path, typer.Option("--scenario", metavar="FILE", help="What to play under each of them.")],
    seed: SeedOption = None,
    seeds: SeedsOption = None,
    until_sure: UntilSureOption = None,
    jobs: JobsOption = None,
    horizon: HorizonOption = None,
    fail_if: FailIfOption = None,
    report: ReportOption = None,
    record: RecordOption = None,
    log: LogOption = None,
    save: SaveOption = None,
    history: HistoryOption = None,
    plugins_dir: DirectoryOption = None,
    data: DataOption = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Run one scenario under several configurations, side by side."""
    from pumice.cli.playing import changed, chosen_confs, go
    from pumice.cli.studies import Files, StudyOptions
    from pumice.scheduler.assembly import catalogue_of
    from pumice.sim.scenario import plugin_directory, read_scenario

    plugins = plugins_dir or plugin_directory(scenario)
    registry = registry_with(plugins)
    read = read_scenario(scenario, catalogue_of(registry), data)
    read = read.under(chosen_confs(confs, catalogue_of(registry)))
    files = Files(report, record, log, save, history)
    wanted = StudyOptions(seed, seeds, until_sure, jobs, tuple(fail_if or ()))
    go(changed(read, horizon), registry, plugins, files, wanted, as_json(output, json))
