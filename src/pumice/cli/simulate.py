"""``pumice simulate``: a scenario under one or several configurations, on one seed or on many."""

from __future__ import annotations

from typing import Annotated

import typer

from pumice.cli.options import StudyOutput
from pumice.cli.play_options import ConfsOption, PlayOptions, ScenarioArgument


def simulate(
    scenario: ScenarioArgument,
    *,
    confs: ConfsOption = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="PLUGIN.ARGUMENT=VALUES",
            help="Also play the configuration with other values: 'binpack.weight=1,2,5' (repeatable: a grid).",
        ),
    ] = None,
    play: PlayOptions,
    output: Annotated[
        StudyOutput, typer.Option("-o", "--output", metavar="FORMAT", help="Print a table, wide or json.")
    ] = StudyOutput.TABLE,
) -> None:
    """Run a scenario under each of its configurations, or those given, and compare them.

    With --vary, one configuration is played with every combination of values,
    on seeds 1..7 unless --seeds says others.

    Examples:
        pumice simulate day.yaml --conf default --conf mine.conf --seeds 1..8
        pumice simulate day.yaml --conf mine.conf --vary binpack.weight=1,5
    """
    from pumice.cli.opening import chosen_confs, varied_confs
    from pumice.cli.playing import go

    opened = play.opened(scenario)
    chosen = chosen_confs(opened, confs or [])
    if vary:
        chosen = varied_confs(opened, chosen if confs else dict([next(iter(chosen.items()))]), vary)
    go(opened, chosen, play.files(), play.study(opened, "1..7" if vary else None), output)
