"""``pumice plan``: how many nodes a goal needs; what more load or nodes that fail would do."""

from __future__ import annotations

from typing import Annotated

import typer

from pumice.cli.options import Output, OutputOption
from pumice.cli.play_options import OneConfOptions, ScenarioArgument, SeedsOption


def plan(
    scenario: ScenarioArgument,
    *,
    goal: Annotated[
        str | None,
        typer.Option("--goal", metavar="GOAL", help="The goal: 'wait.p95 < 10m', or '... on 9 of 10 days'."),
    ] = None,
    vary: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="Find how many nodes of this group the goal needs.")
    ] = None,
    between: Annotated[
        str | None,
        typer.Option("--between", metavar="LOW..HIGH", help="How many nodes there may be; else 1 to 4 times as many."),
    ] = None,
    load: Annotated[
        float, typer.Option("--load", metavar="FACTOR", help="Multiply the arrival rate by FACTOR: 1.3.")
    ] = 1.0,
    fail: Annotated[
        str | None, typer.Option("--fail", metavar="N@GROUP", help="N nodes of a group fail: 4@a100.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="When they fail; else amid the arrivals.")
    ] = None,
    repair: Annotated[
        str | None, typer.Option("--repair", metavar="TIME", help="How long after that they are back; else never.")
    ] = None,
    seeds: SeedsOption = None,
    play: OneConfOptions,
    output: OutputOption = Output.TABLE,
) -> None:
    """Find how many nodes a goal needs, or show what more load or failing nodes would do.

    Examples:
        pumice plan day.yaml --group a100 --goal 'wait.p95 < 10m'
        pumice plan day.yaml --fail 4@a100 --at 9h --repair 2h
    """
    from pumice.cli.opening import checked
    from pumice.cli.planning import PlanOptions, go
    from pumice.cli.progress import terminable
    from pumice.sim.planning.goals import DAYS

    opened, name, chosen = play.opened(scenario)
    asked = PlanOptions(
        goal, vary, between, load, fail, at, repair, f"1..{DAYS}" if seeds is None else seeds, play.workers
    )
    with terminable():
        go(checked(opened.under({name: chosen})), name, asked, play.report, output is Output.JSON)
