"""``pumice simulate`` and ``pumice compare``: a scenario under one or several configurations."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from pumice.cli import render
from pumice.cli.options import JsonOption, Output, OutputOption, as_json, registry_with
from pumice.cli.progress import progress_bar
from pumice.config import load
from pumice.config.durations import SECOND, parse_duration
from pumice.errors import InvalidInput
from pumice.framework.registry import Registry
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.recording import record as begun
from pumice.scheduler.recording import replay
from pumice.sim import run as sim
from pumice.sim.report import html, render_comparison, render_summary, units
from pumice.sim.results import Comparison, RunRecord, compare, encode, summarise
from pumice.sim.run import INTERRUPTED
from pumice.sim.scenario import BUILT_IN, Scenario, load_conf_file, plugin_directory, read_scenario
from pumice.state import saved

MOST_NAMED = 5
"""Jobs that can never fit which are named one by one."""

ScenarioArgument = Annotated[Path, typer.Argument(metavar="SCENARIO", help="The scenario file.")]
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
LogOption = Annotated[
    Path | None,
    typer.Option("--log", metavar="FILE", help="Write what happened, line by line; several runs follow each other."),
]
HorizonOption = Annotated[
    str | None, typer.Option("--horizon", metavar="TIME", help="End the run at this simulated time: 90m, 12h, 3d.")
]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Other random draws than the scenario's own.")]
DirectoryOption = Annotated[
    Path | None,
    typer.Option("--plugins-dir", metavar="DIR", help="Load plugins from here; else from the scenario's pluginsDir."),
]


def simulate(
    scenario: ScenarioArgument,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="Only this configuration of the scenario (repeatable)."),
    ] = None,
    seed: SeedOption = None,
    horizon: HorizonOption = None,
    report: ReportOption = None,
    record: RecordOption = None,
    log: LogOption = None,
    save: SaveOption = None,
    plugins_dir: DirectoryOption = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Run a scenario under each of its configurations, and compare them if there are several."""
    registry = registry_with(plugins_dir or plugin_directory(scenario))
    read = read_scenario(scenario, catalogue_of(registry))
    if only:
        unknown = next((name for name in only if name not in read.configurations), None)
        if unknown is not None:
            raise InvalidInput(f"--only {unknown!r}: not one of {', '.join(read.configurations)}")
        read = read.under({name: read.configurations[name] for name in only})
    _play(_changed(read, seed, horizon), registry, Files(report, record, log, save), as_json(output, json))


def compare_confs(
    confs: Annotated[
        list[str],
        typer.Argument(metavar="CONF...", help="Configuration files, or `default` and `helm` for those built in."),
    ],
    scenario: Annotated[Path, typer.Option("--scenario", metavar="FILE", help="What to play under each of them.")],
    seed: SeedOption = None,
    horizon: HorizonOption = None,
    report: ReportOption = None,
    record: RecordOption = None,
    log: LogOption = None,
    save: SaveOption = None,
    plugins_dir: DirectoryOption = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Run one scenario under several configurations, side by side."""
    registry = registry_with(plugins_dir or plugin_directory(scenario))
    catalogue = catalogue_of(registry)
    read = read_scenario(scenario, catalogue)
    chosen = {}
    for given in confs:
        name = given if given in BUILT_IN else Path(given).stem
        if name in chosen:
            name = given
        if given in BUILT_IN and not Path(given).exists():
            loaded = load(BUILT_IN[given], catalogue, f"<{given}>")
        else:
            loaded = load_conf_file(Path(given), catalogue)
        for problem in loaded.warnings:
            render.warning(str(problem))
        chosen[name] = loaded.conf
    read = read.under(chosen)
    _play(_changed(read, seed, horizon), registry, Files(report, record, log, save), as_json(output, json))


def _changed(scenario: Scenario, seed: int | None, horizon: str | None) -> Scenario:
    """The scenario with what the command line says otherwise."""
    if seed is not None:
        scenario = scenario.with_seed(seed)
    if horizon is None:
        return scenario
    try:
        seconds = parse_duration(horizon, days=True) / SECOND
    except InvalidInput as exc:
        raise InvalidInput(f"--horizon: {exc}") from exc
    return scenario.with_horizon(seconds)


@dataclass(frozen=True, slots=True)
class Files:
    """What a command leaves behind, each where it is wanted."""

    report: Path | None
    record: Path | None
    log: Path | None
    save: Path | None

    def prepare(self, configurations: int) -> None:
        """Make sure, before a long run, that its results can be written.

        :raises InvalidInput: one of them cannot.
        """
        if self.save is not None and configurations > 1:
            raise InvalidInput(f"--save: must say with --only which of the {configurations} configurations is saved")
        for field in fields(self):
            path: Path | None = getattr(self, field.name)
            if path is None:
                continue
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("ab"):
                    pass
            except OSError as exc:
                raise InvalidInput(f"--{field.name} {str(path)!r}: {exc.strerror}") from exc


def _play(scenario: Scenario, registry: Registry, files: Files, as_data: bool) -> None:
    """Run everything, print and write the results; exit code 1 if a run was stopped or a job can never fit."""
    files.prepare(len(scenario.configurations))
    for warning in scenario.warnings:
        render.warning(warning)
    records: list[RunRecord] = []
    wrong = False
    with files.log.open("w", encoding="utf-8") if files.log is not None else nullcontext() as stream:
        for name, conf in scenario.configurations.items():
            with progress_bar(name, scenario) as tell:
                run = sim.Simulation(scenario.setting_of(name), assemble(conf, registry), log=stream, progress=tell)
                records.append(run.run(scenario.workload()))
            wrong |= _say_what_failed(name, run)
            if files.save is not None:
                _save(files.save, run, registry)
            if run.failure == INTERRUPTED:
                break
    comparison = compare(records)
    if files.record is not None:
        files.record.write_bytes(b"".join(encode(run) + b"\n" for run in records))
    if files.report is not None:
        files.report.write_text(html(records, comparison, title=scenario.name), encoding="utf-8")
    if as_data:
        render.data(_data(records, comparison))
    else:
        _print(scenario, comparison)
    if files.report is not None:
        render.note(f"The report is in {files.report}")
    if wrong:
        raise typer.Exit(1)


def _say_what_failed(name: str, run: sim.Simulation) -> bool:
    """Name what stopped a run and the jobs that can never fit; whether there was any of it."""
    if run.failure:
        render.error(f"{name}: stopped at {units.duration(run.timeline.now)}: {run.failure}; the results are partial")
    for text in run.never_fit[:MOST_NAMED]:
        render.error(text)
    if len(run.never_fit) > MOST_NAMED:
        render.error(f"and {len(run.never_fit) - MOST_NAMED:,} more jobs that can never fit")
    return bool(run.failure or run.never_fit)


def _save(path: Path, run: sim.Simulation, registry: Registry) -> None:
    """Write the cycle that would follow the end of a run."""
    run.loop.take_in()
    cycle = begun(run.loop.state, run.loop.assembly.conf, run.loop.runtime)
    cycle.decisions = replay(cycle, registry, live=True).decisions
    saved.write(path, cycle, f"pumice {version('pumice')}")
    render.note(f"The cluster at the end is saved to {path}")


def _data(records: list[RunRecord], comparison: Comparison) -> dict[str, Any]:
    return {
        "runs": [msgspec.to_builtins(summarise(run)) for run in records],
        **({"comparison": msgspec.to_builtins(comparison)} if len(records) > 1 else {}),
    }


def _print(scenario: Scenario, comparison: Comparison) -> None:
    first = comparison.summaries[0]
    if len(comparison.runs) == 1:
        render.show(render_summary(first))
        return
    gpus = f"{units.number(first.gpus)} GPUs, " if first.gpus else ""
    jobs, span = units.number(first.total.jobs), units.duration(first.span_s)
    render.heading(scenario.name, f"{units.number(first.nodes)} nodes, {gpus}{jobs} jobs, {span} simulated")
    render.show(render_comparison(comparison))
