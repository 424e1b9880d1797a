"""``pumice simulate`` and ``pumice compare``: a scenario under one or several configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pumice.cli.options import JsonOption, Output, OutputOption, as_json
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
    from pumice.cli.opening import open_scenario
    from pumice.cli.playing import go
    from pumice.cli.studies import Files, StudyOptions

    opened = open_scenario(scenario, plugins_dir, data, horizon)
    confs = opened.scenario.configurations
    if only:
        unknown = next((name for name in only if name not in confs), None)
        if unknown is not None:
            raise typer.BadParameter(f"{unknown!r} is not one of {', '.join(confs)}", param_hint="--only")
        confs = {name: confs[name] for name in only}
    files = Files(report, record, log, save, history)
    wanted = StudyOptions(seed, seeds, until_sure, jobs, tuple(fail_if or ()))
    go(opened, confs, files, wanted, as_json(output, json))


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
    from pumice.cli.opening import chosen_confs, open_scenario
    from pumice.cli.playing import go
    from pumice.cli.studies import Files, StudyOptions

    opened = open_scenario(scenario, plugins_dir, data, horizon)
    chosen = chosen_confs(confs, opened.catalogue)
    files = Files(report, record, log, save, history)
    wanted = StudyOptions(seed, seeds, until_sure, jobs, tuple(fail_if or ()))
    go(opened, chosen, files, wanted, as_json(output, json))
