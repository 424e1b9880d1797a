"""The commands that play scenarios or read what was played: simulate, plan, tune, report, trace."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pumice.cli.options import Output, OutputOption, StudyOutput

if TYPE_CHECKING:
    from pumice.cli.studies import Files, StudyOptions
    from pumice.config import SchedulerConf
    from pumice.sim.scenario import SimScenario


ScenarioArgument = Annotated[Path, typer.Argument(metavar="SCENARIO", help="The scenario file, or a bundle.")]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write the report as one HTML page.")
]
RecordOption = Annotated[
    Path | None, typer.Option("--record", metavar="FILE", help="Write the records of the runs as JSON, one per line.")
]
SaveOption = Annotated[
    Path | None,
    typer.Option("--save", metavar="FILE", help="Save the cluster at the end of the run, for explain and replay."),
]
HistoryOption = Annotated[
    Path | None,
    typer.Option("--history", metavar="DIR", help="Write what happened to every job, as `pumice run` does."),
]
LogOption = Annotated[
    Path | None,
    typer.Option("--log", metavar="FILE", help="Write what happened, line by line; several runs follow each other."),
]
HorizonOption = Annotated[
    str | None, typer.Option("--horizon", metavar="TIME", help="End the run at this simulated time: 90m, 12h, 3d.")
]
MOST_PROCESSES = 1024
"""The limit of one study on one machine: a number with too many digits must not take the machine with it."""
SeedOption = Annotated[
    int | None, typer.Option("--seed", metavar="N", help="Other random draws than the scenario's own.")
]
SeedsOption = Annotated[
    str | None, typer.Option("--seeds", metavar="SEEDS", help="Play many seeds, pair by pair: 1..30, 30 or 1,4,9.")
]
CONFS = "A configuration of the scenario, a file, NAME=FILE, default or helm"
ConfsOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="CONF", help=f"{CONFS} (repeatable); else all of the scenario.")
]
StartConfOption = Annotated[
    str | None, typer.Option("--conf", metavar="CONF", help=f"{CONFS}; else the first of the scenario.")
]
SplitOption = Annotated[
    str | None,
    typer.Option("--split", metavar="TIME", help="Play the parts of a trace, each of this length, pair by pair: 7d."),
]
UntilSureOption = Annotated[
    str | None,
    typer.Option(
        "--until-sure",
        metavar="PERCENT",
        help="Play 20, 40 or 80 seeds, until the figure of --for ('wait.p95 5%': another) is known to within 5%.",
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", min=1, max=MOST_PROCESSES, help="Worker processes; else one for each core."),
]
FailIfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if",
        metavar="RULE",
        help="Exit with 1 if this holds, such as 'wait.p95 > +5%' (a change) or 'unfinished > 0' (repeatable); "
        "with 3 if it cannot be told.",
    ),
]
FailUnlessOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-unless",
        metavar="RULE",
        help="Exit with 1 unless this holds, such as 'wait.mean < +5%' (repeatable); with 3 if it cannot be told.",
    ),
]
FigureOption = Annotated[
    str | None,
    typer.Option("--for", metavar="FIGURE", help="The figure to judge by, else wait.mean; others are exploratory."),
]
DirectoryOption = Annotated[
    Path | None,
    typer.Option("--plugins-dir", metavar="DIR", help="Load plugins from here; else from the scenario's pluginsDir."),
]
BundleOption = Annotated[
    Path | None,
    typer.Option(
        "--bundle",
        metavar="FILE",
        help="Write all that made the results, and them, into one zip file, which can be played as a scenario.",
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="The folder of the scenario's traces and node lists."),
]


@dataclass(frozen=True, slots=True)
class OneConfOptions:
    """How a scenario is played with one configuration to begin with."""

    conf: StartConfOption = None
    workers: WorkersOption = None
    horizon: HorizonOption = None
    report: ReportOption = None
    plugins_dir: DirectoryOption = None
    data: DataOption = None

    def opened(self, scenario: Path) -> tuple[SimScenario, str, SchedulerConf]:
        """The scenario, read; the configuration's name, and itself."""
        from pumice.cli.studies import chosen_conf, open_scenario

        opened = open_scenario(scenario, self.plugins_dir, self.data, self.horizon)
        return opened, *chosen_conf(opened, self.conf)


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """How a scenario is played under several configurations, and what is left behind."""

    seed: SeedOption = None
    seeds: SeedsOption = None
    split: SplitOption = None
    until_sure: UntilSureOption = None
    workers: WorkersOption = None
    horizon: HorizonOption = None
    fail_if: FailIfOption = None
    fail_unless: FailUnlessOption = None
    figure: FigureOption = None
    report: ReportOption = None
    record: RecordOption = None
    log: LogOption = None
    save: SaveOption = None
    history: HistoryOption = None
    bundle: BundleOption = None
    plugins_dir: DirectoryOption = None
    data: DataOption = None

    def opened(self, scenario: Path) -> SimScenario:
        """The scenario, read."""
        from pumice.cli.studies import open_scenario

        return open_scenario(scenario, self.plugins_dir, self.data, self.horizon)

    def files(self) -> Files:
        """What is written."""
        from pumice.cli.studies import Files

        return Files(self.report, self.record, self.log, self.save, self.history, self.bundle)

    def study(self, scenario: SimScenario, default_seeds: str | None) -> StudyOptions:
        """Which seeds, on how many processes, and what makes it fail. A bundle is played as it was made."""
        from pumice.cli.studies import StudyOptions

        seed, seeds, split, sure, figure = self.seed, self.seeds, self.split, self.until_sure, self.figure
        if seed is None and seeds is None and split is None and sure is None:
            seeds, made = default_seeds, scenario.bundle
            if made is not None and seeds is None:
                seed, seeds, split, sure = made.seed, made.seeds, made.split, made.until_sure
                figure = figure or made.primary
        return StudyOptions(
            seed,
            seeds,
            split,
            sure,
            self.workers,
            tuple(self.fail_if or ()),
            tuple(self.fail_unless or ()),
            figure or "wait.mean",
        )


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
    from pumice.cli.playing import go
    from pumice.cli.studies import chosen_confs, varied_confs

    opened = play.opened(scenario)
    chosen = chosen_confs(opened, confs or [])
    if vary:
        chosen = varied_confs(opened, chosen if confs else dict([next(iter(chosen.items()))]), vary)
    go(opened, chosen, play.files(), play.study(opened, "1..7" if vary else None), output)


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
    from pumice.cli.planning import PlanOptions, go
    from pumice.cli.studies import checked, terminable
    from pumice.sim.planning import DAYS

    opened, name, chosen = play.opened(scenario)
    asked = PlanOptions(
        goal, vary, between, load, fail, at, repair, f"1..{DAYS}" if seeds is None else seeds, play.workers
    )
    with terminable():
        go(checked(opened.under({name: chosen})), name, asked, play.report, output is Output.JSON)


def tune(
    scenario: ScenarioArgument,
    *,
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            metavar="NAME=VALUES",
            help="Search these values: binpack.weight=0..10, sjf@1=on,off, queues.*.weight=1..8 (repeatable); "
            "else every number that the conf's plugins read, and the plugins that only rank nodes.",
        ),
    ] = None,
    objectives: Annotated[
        list[str] | None,
        typer.Option(
            "--improve", metavar="FIGURE", help="A figure to improve, such as wait.p95; the first must (repeatable)."
        ),
    ] = None,
    runs: Annotated[int, typer.Option("--runs", metavar="N", min=1, help="Runs of candidates in the search.")] = 200,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", metavar="SEEDS", help="Seeds to search on, choose on and judge on: 1..40."),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split", metavar="TIME", help="Split a trace into parts of this length; later ones are held out."
        ),
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
    from pumice.cli.commands import needs
    from pumice.cli.studies import terminable
    from pumice.cli.tuning import TuneOptions, go

    needs("optuna")
    opened, _, base = play.opened(scenario)
    figures = tuple(objectives or ("wait.mean",))
    asked = TuneOptions(tuple(over or ()), figures, runs, seeds, split, queue_loss, seed, study, write, play.workers)
    with terminable():
        go(opened, base, asked, play.report, output is Output.JSON)


def report(
    records: Annotated[
        list[Path], typer.Argument(metavar="RECORDS...", help="Files that --record wrote, packed with gzip or not.")
    ],
    page: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write the report as one HTML page.")
    ] = None,
    first: Annotated[
        str | None, typer.Option("--first", metavar="NAME", help="The run that the others are compared with.")
    ] = None,
    fail_if: FailIfOption = None,
    fail_unless: FailUnlessOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Compare recorded runs: several seeds pair by pair, single ones side by side.

    Examples:
        pumice report runs.jsonl --report out.html
        pumice report before.jsonl after.jsonl --fail-if 'unfinished > 0'
    """
    from pumice.cli.playing import compare_recorded
    from pumice.cli.studies import StudyOptions

    rules = StudyOptions(fail_if=tuple(fail_if or ()), fail_unless=tuple(fail_unless or ()))
    compare_recorded(records, page, first, rules, output is Output.JSON)


class TraceKind(StrEnum):
    """The possible sources of a trace."""

    HISTORY = "history"
    SWF = "swf"
    PHILLY = "philly"
    OPENB = "openb"
    NATIVE = "native"


def trace(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A trace, a public log, or a history's folder.")],
    kind: Annotated[
        TraceKind | None,
        typer.Option("--kind", metavar="KIND", help="history, swf, philly, openb or native; else found out."),
    ] = None,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Write it here: week.csv, or packed, week.csv.gz.")
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Rename jobs, users, queues and nodes in the file that is written.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what is in a trace or a history: jobs, sizes, run times, queues; of a history also waits and evictions.

    With --write it becomes a trace of our own format; of a history also the scenario that plays it.

    Examples:
        pumice trace past
        pumice trace past --write week.csv --redact
    """
    from pumice.cli.options import WrongUsage
    from pumice.cli.tracing import make_trace, show_trace

    if write is None:
        if redact:
            raise WrongUsage("--redact: only with --write")
        show_trace(path, kind.value if kind else None, output is Output.JSON)
    else:
        make_trace(kind.value if kind else None, path, write, redact, output is Output.JSON)
