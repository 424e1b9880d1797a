"""``pumice simulate`` and ``pumice compare``: a scenario under one or several configurations."""

from __future__ import annotations

from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from pumice.cli import render
from pumice.cli.options import JsonOption, Output, OutputOption, as_json, registry_with
from pumice.cli.progress import progress_bar, terminable
from pumice.cli.studies import Files, Wanted, play_study, say_gate, say_warnings
from pumice.config import Catalogue, SchedulerConf, load
from pumice.config.durations import SECOND, parse_duration
from pumice.errors import InvalidInput
from pumice.framework.registry import Registry
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.recording import record as begun
from pumice.scheduler.recording import replay
from pumice.sim import run as sim
from pumice.sim.report import html, render_comparison, render_summary, units
from pumice.sim.results import Comparison, RunRecord, compare, encode, summarise
from pumice.sim.results.gates import judge
from pumice.sim.run import INTERRUPTED
from pumice.sim.scenario import BUILT_IN, Scenario, load_conf_file, plugin_directory, read_scenario
from pumice.sim.study.playing import World
from pumice.state import saved

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
SeedsOption = Annotated[
    str | None,
    typer.Option("--seeds", metavar="SEEDS", help="Play many seeds, pair by pair: 1..30, or 1,4,9. Traces are shaken."),
]
UntilSureOption = Annotated[
    str | None,
    typer.Option(
        "--until-sure",
        metavar="PERCENT",
        help="Play seeds until the change in mean wait (or of 'wait.p95 5%') is known to so much either way: 5%.",
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", min=1, help="Processes that play; else one for each core."),
]
FailIfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if",
        metavar="RULE",
        help="Exit with 1 if this holds, such as 'wait.p95 > +5%' (a change) or 'unfinished > 0' (repeatable).",
    ),
]
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
    seeds: SeedsOption = None,
    until_sure: UntilSureOption = None,
    jobs: JobsOption = None,
    horizon: HorizonOption = None,
    fail_if: FailIfOption = None,
    report: ReportOption = None,
    record: RecordOption = None,
    log: LogOption = None,
    save: SaveOption = None,
    plugins_dir: DirectoryOption = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Run a scenario under each of its configurations, and compare them if there are several."""
    plugins = plugins_dir or plugin_directory(scenario)
    registry = registry_with(plugins)
    read = read_scenario(scenario, catalogue_of(registry))
    if only:
        unknown = next((name for name in only if name not in read.configurations), None)
        if unknown is not None:
            raise typer.BadParameter(f"{unknown!r} is not one of {', '.join(read.configurations)}", param_hint="--only")
        read = read.under({name: read.configurations[name] for name in only})
    files = Files(report, record, log, save)
    wanted = Wanted(seed, seeds, until_sure, jobs, tuple(fail_if or ()))
    _go(changed(read, horizon), registry, plugins, files, wanted, as_json(output, json))


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
    plugins_dir: DirectoryOption = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Run one scenario under several configurations, side by side."""
    plugins = plugins_dir or plugin_directory(scenario)
    registry = registry_with(plugins)
    read = read_scenario(scenario, catalogue_of(registry))
    read = read.under(chosen_confs(confs, catalogue_of(registry)))
    files = Files(report, record, log, save)
    wanted = Wanted(seed, seeds, until_sure, jobs, tuple(fail_if or ()))
    _go(changed(read, horizon), registry, plugins, files, wanted, as_json(output, json))


def chosen_confs(given: list[str], catalogue: Catalogue) -> dict[str, SchedulerConf]:
    """The configurations of the command line, by name; ``mine.conf``, ``name=file`` and ``default`` are understood."""
    said = [(name, file) if eq else ("", text) for text in given for name, eq, file in [text.rpartition("=")]]
    stems = [Path(file).stem for _, file in said]
    chosen: dict[str, SchedulerConf] = {}
    for (name, file), stem in zip(said, stems, strict=True):
        name = name or (stem if stems.count(stem) == 1 else file.removesuffix(".conf"))
        if name in chosen:
            raise typer.BadParameter(f"{name!r} is there twice; say NAME=FILE", param_hint="CONF")
        built_in = file in BUILT_IN and not Path(file).exists()
        loaded = load(BUILT_IN[file], catalogue, f"<{file}>") if built_in else load_conf_file(Path(file), catalogue)
        for problem in loaded.warnings:
            render.warning(str(problem))
        chosen[name] = loaded.conf
    return chosen


def changed(scenario: Scenario, horizon: str | None) -> Scenario:
    """The scenario with another end, where the command line says one."""
    if horizon is None:
        return scenario
    try:
        return scenario.with_horizon(parse_duration(horizon, days=True) / SECOND)
    except InvalidInput as exc:
        raise typer.BadParameter(str(exc), param_hint="--horizon") from exc


def _go(
    scenario: Scenario, registry: Registry, plugins: Path | None, files: Files, wanted: Wanted, as_data: bool
) -> None:
    """Play the scenario once under each configuration, or many times as a study."""
    if plugins is not None:
        scenario = scenario.with_input("plugins", plugins)
    with terminable():
        if wanted.many:
            play_study(World(scenario, plugins.resolve() if plugins else None), files, wanted, as_data)
        else:
            _play(
                scenario if wanted.seed is None else scenario.with_seed(wanted.seed), registry, files, wanted, as_data
            )


def _play(scenario: Scenario, registry: Registry, files: Files, wanted: Wanted, as_data: bool) -> None:
    """Run everything once, print and write the results; exit code 1 if a run was stopped or a job can never fit."""
    gates = wanted.gates()
    files.prepare(len(scenario.configurations))
    say_warnings(scenario)
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
        show_comparison(scenario.name, comparison)
    if files.report is not None:
        render.note(f"The report is in {files.report}")
    for gate in gates:
        wrong |= say_gate(judge(gate, comparison))
    if wrong:
        raise typer.Exit(1)


def _say_what_failed(name: str, run: sim.Simulation) -> bool:
    """Name what stopped a run and the jobs that can never fit; whether there was any of it."""
    if run.failure:
        render.error(f"{name}: stopped at {units.duration(run.timeline.now)}: {run.failure}; the results are partial")
    for text in run.never_fit_in_words():
        render.error(text)
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


def show_comparison(title: str, comparison: Comparison) -> None:
    """Print one run of each configuration, side by side."""
    first = comparison.summaries[0]
    if len(comparison.runs) == 1:
        render.show(render_summary(first))
        return
    gpus = f"{units.number(first.gpus)} GPUs, " if first.gpus else ""
    jobs, span = units.number(first.total.jobs), units.duration(first.span_s)
    render.heading(title, f"{units.number(first.nodes)} nodes, {gpus}{jobs} jobs, {span} simulated")
    render.show(render_comparison(comparison))
