"""Options of the commands that play scenarios."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
"""Of one study on one machine: a number with too many digits must not take the machine with it."""
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
    typer.Option("--split", metavar="TIME", help="Of a trace: play its parts of this length, pair by pair: 7d."),
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
    typer.Option("--data", metavar="DIR", help="Where the traces and node lists are that the scenario names."),
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
        from pumice.cli.opening import chosen_conf, open_scenario

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
        from pumice.cli.opening import open_scenario

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
