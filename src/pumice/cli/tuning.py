"""A tuning from the command line: read what is asked, play it, print and write what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import typer

from pumice.cli import render
from pumice.cli.studies import Files, executor_of, say_warnings, study_bar, write_output
from pumice.config import SchedulerConf
from pumice.errors import ConfigError, InvalidInput
from pumice.sim.report import render_seeds
from pumice.sim.results.metrics import metric
from pumice.sim.scenario import SimScenario
from pumice.sim.study.running import parse_length, parse_seeds
from pumice.sim.study.workers import usable_cores
from pumice.sim.tuning import BASE
from pumice.sim.tuning.evaluations import Objectives, OccasionSplit, by_seed, by_time
from pumice.sim.tuning.knobs import Knob, knobs_of, knobs_over
from pumice.sim.tuning.told import TuningAccount, conf_text, html_tuning, queue_manifests, tuned

_SEEDS = "1..40"
_SPLIT = "7d"


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """The values of the command line."""

    over: tuple[str, ...]
    objectives: tuple[str, ...]
    runs: int
    seeds: str | None
    split: str | None
    queue_loss: str
    seed: int
    study: Path | None
    write: Path | None
    workers: int | None

    def wanted(self) -> Objectives:
        """The figures, and what no queue may lose."""
        try:
            figures = tuple(metric(name) for name in dict.fromkeys(self.objectives))
        except InvalidInput as exc:
            raise typer.BadParameter(str(exc), param_hint="--improve") from exc
        return Objectives(figures, self._loss())

    def _loss(self) -> float | None:
        if self.queue_loss == "any":
            return None
        try:
            part = float(self.queue_loss.removesuffix("%")) / 100
        except ValueError:
            part = -1.0
        if not 0 <= part < 100:
            raise typer.BadParameter(
                f"must be a percentage or `any`, got {self.queue_loss!r}", param_hint="--queue-loss"
            )
        return part

    def occasions(self, scenario: SimScenario) -> tuple[OccasionSplit, SimScenario]:
        """The occasions for candidates, and the workload there."""
        traces = bool(scenario.traces) and not scenario.generators and not scenario.manifests
        if self.split is not None and self.seeds is not None:
            raise typer.BadParameter("say --seeds or --split, not both", param_hint="--split")
        if self.split is None and (self.seeds is not None or not traces):
            try:
                return by_seed(parse_seeds(self.seeds or _SEEDS)), scenario
            except InvalidInput as exc:
                raise typer.BadParameter(str(exc), param_hint="--seeds") from exc
        try:
            return by_time(scenario, parse_length(self.split or _SPLIT))
        except InvalidInput as exc:
            raise typer.BadParameter(str(exc).removeprefix("--split: "), param_hint="--split") from exc


def go(
    scenario: SimScenario,
    base: SchedulerConf,
    asked: TuneOptions,
    report: Path | None,
    as_data: bool,
) -> None:
    """Tune, and say what came of it."""
    wanted = asked.wanted()
    split, played = asked.occasions(scenario)
    played = played.under({BASE: base})
    say_warnings(played)
    knobs = _knobs(asked.over, base, played)
    Files(report=report, record=asked.write).prepare(1)
    done = 0
    with study_bar(None) as tell, executor_of(asked.workers or usable_cores()) as executor:

        def watch() -> None:
            nonlocal done
            done += 1
            tell()

        try:
            told = tuned(
                played,
                knobs,
                split,
                wanted,
                runs=asked.runs,
                seed=asked.seed,
                executor=executor,
                path=asked.study,
                watch=watch,
            )
        except KeyboardInterrupt:
            kept = f"{done:,} runs are kept in {asked.study}" if asked.study else "say --study to keep runs"
            render.error(f"interrupted; {kept}")
            raise typer.Exit(1) from None
    _write(told, asked, report, played.name)
    if as_data:
        found = told.tuning.comparison
        render.data({**told.to_data(), "comparison": None if found is None else msgspec.to_builtins(found)})
    else:
        _show(told, played.name, asked.write)


def _knobs(over: tuple[str, ...], base: SchedulerConf, scenario: SimScenario) -> list[Knob]:
    if not over:
        return knobs_of(base, scenario.registry)
    try:
        return knobs_over(over, base, scenario.queue_weights, scenario.registry)
    except (InvalidInput, ConfigError) as exc:
        raise typer.BadParameter(str(exc), param_hint="--over") from exc


def _write(told: TuningAccount, asked: TuneOptions, report: Path | None, title: str) -> None:
    if report is not None:
        write_output("--report", report, html_tuning(told, title=title))
    if asked.write is None:
        return
    winner = told.tuning.winner
    if not told.tuning.recommended or winner is None:
        if asked.write.exists() and not asked.write.stat().st_size:  # made to see whether it can be written
            asked.write.unlink(missing_ok=True)
        return
    write_output("--write", asked.write, conf_text(winner.conf))
    if winner.weights:
        write_output("--write", queues_file(asked.write), queue_manifests(winner.weights))


def queues_file(conf: Path) -> Path:
    """The file for weights of queues, which a conf cannot hold."""
    return conf.with_name(f"{conf.stem}-queues.yaml")


def _show(told: TuningAccount, title: str, write: Path | None) -> None:
    render.heading(title, told.searched())
    figures = [figure.label for figure in told.wanted.figures]
    if told.tuning.finalists:
        head = ["finalist", *(f"{name}, search" for name in figures), *(f"{name}, choosing" for name in figures)]
        render.table(head, [[sets, *search, *choose] for sets, search, choose in told.finalists()])
        render.line()
    if told.tuning.comparison is not None:
        render.show(render_seeds(told.tuning.comparison))
        render.line()
    render.paragraph(told.verdict())
    if told.tuning.recommended:
        for text in told.diff():
            render.line(text, {"+": "green", "-": "red"}.get(text[:1], ""))
        if write is not None:
            assert told.tuning.winner is not None
            more = f", weights of queues in {queues_file(write)}" if told.tuning.winner.weights else ""
            render.note(f"The conf is in {write}{more}")
