"""``pumice tune``: search the arguments of a conf by simulation, and recommend what holds on days held out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pumice.cli.options import Output, OutputOption
from pumice.cli.play_options import OneConfOptions, ScenarioArgument


def tune(
    scenario: ScenarioArgument,
    *,
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            metavar="NAME=VALUES",
            help="What is searched: binpack.weight=0..10, sjf@1=on,off, queues.*.weight=1..8 (repeatable); "
            "else every number that the conf's plugins read, and the plugins that only rank nodes.",
        ),
    ] = None,
    objectives: Annotated[
        list[str] | None,
        typer.Option(
            "--improve", metavar="FIGURE", help="What should improve, such as wait.p95; the first must (repeatable)."
        ),
    ] = None,
    runs: Annotated[int, typer.Option("--runs", metavar="N", min=1, help="Runs of candidates in the search.")] = 200,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", metavar="SEEDS", help="Seeds to search on, choose on and judge on: 1..40."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option("--split", metavar="TIME", help="Of a trace: parts of this length; later ones are held out."),
    ] = None,
    queue_loss: Annotated[
        str,
        typer.Option("--queue-loss", metavar="PERCENT", help="No queue may wait longer by more than this; or `any`."),
    ] = "5%",
    seed: Annotated[int, typer.Option("--search-seed", metavar="N", help="The seed of the search itself.")] = 0,
    study: Annotated[
        Path | None,
        typer.Option("--study", metavar="FILE", help="Remember every run here, and go on from it next time."),
    ] = None,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Write the conf here if one is recommended.")
    ] = None,
    play: OneConfOptions,
    output: OutputOption = Output.TABLE,
) -> None:
    """Search plugin arguments by simulation; recommend what is better on days held out of the search.

    Examples:
        pumice tune day.yaml --conf mine.conf --over binpack.weight=0..10
        pumice tune day.yaml --conf mine.conf --runs 200 --write better.conf
    """
    from pumice.cli.extras import needs
    from pumice.cli.progress import terminable
    from pumice.cli.tuning import TuneOptions, go

    needs("optuna")
    opened, _, base = play.opened(scenario)
    figures = tuple(objectives or ("wait.mean",))
    asked = TuneOptions(tuple(over or ()), figures, runs, seeds, split, queue_loss, seed, study, write, play.workers)
    with terminable():
        go(opened, base, asked, play.report, output is Output.JSON)
