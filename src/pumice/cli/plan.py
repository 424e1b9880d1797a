"""``pumice plan``: how many nodes a goal needs; what more load or nodes that fail would do."""

from __future__ import annotations

from typing import Annotated

import typer

from pumice.cli.options import JsonOption, Output, OutputOption, as_json
from pumice.cli.play_options import (
    DataOption,
    DirectoryOption,
    HorizonOption,
    JobsOption,
    ReportOption,
    ScenarioArgument,
    SetSeedsOption,
    StartConfOption,
)


def plan(
    scenario: ScenarioArgument,
    goal: Annotated[
        str | None, typer.Option("--for", metavar="GOAL", help="What is wanted, such as 'wait.p95 < 10m'.")
    ] = None,
    vary: Annotated[
        str | None, typer.Option("--vary", metavar="GROUP", help="Find how many nodes of this group the goal needs.")
    ] = None,
    between: Annotated[
        str | None,
        typer.Option("--between", metavar="LOW..HIGH", help="How many nodes there may be; else 1 to 4 times as many."),
    ] = None,
    load: Annotated[
        float, typer.Option("--load", metavar="FACTOR", help="Jobs arrive so many times as often: 1.3.")
    ] = 1.0,
    fail: Annotated[
        str | None, typer.Option("--fail", metavar="N@GROUP", help="So many nodes of a group fail: 4@a100.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="When they fail; else amid the arrivals.")
    ] = None,
    repair: Annotated[
        str | None, typer.Option("--repair", metavar="TIME", help="When they are back: so long after; else never.")
    ] = None,
    conf: StartConfOption = None,
    seeds: SetSeedsOption = "1..10",
    jobs: JobsOption = None,
    horizon: HorizonOption = None,
    report: ReportOption = None,
    plugins_dir: DirectoryOption = None,
    data: DataOption = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Find how many nodes a goal needs, or say what more load or failing nodes would do."""
    from pumice.cli.opening import chosen_conf, open_scenario
    from pumice.cli.planning import PlanOptions, go
    from pumice.cli.progress import terminable

    opened = open_scenario(scenario, plugins_dir, data, horizon)
    name, chosen = chosen_conf(opened, conf)
    asked = PlanOptions(goal, vary, between, load, fail, at, repair, seeds, jobs)
    with terminable():
        go(opened.world({name: chosen}), name, asked, report, as_json(output, json))
