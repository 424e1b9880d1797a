"""A scenario played once under each of its configurations, or read from records: printed, written, judged."""

from __future__ import annotations

import gzip
import io
import zlib
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import msgspec
import typer

from pumice import saved
from pumice.cli import render
from pumice.cli.options import StudyOutput
from pumice.cli.studies import (
    Files,
    StudyOptions,
    bundled,
    checked,
    end,
    open_output,
    play_study,
    progress_bar,
    say_gate,
    say_later_warnings,
    say_warnings,
    show_seeds,
    terminable,
    write_output,
)
from pumice.config import SchedulerConf
from pumice.errors import InvalidInput, read_bytes
from pumice.framework.registry import Registry
from pumice.history.files import Folder
from pumice.scheduler.assembly import assemble
from pumice.scheduler.recording import record as begun
from pumice.scheduler.recording import replay
from pumice.sim import run as sim
from pumice.sim.bundle import BundledRun, result_digest
from pumice.sim.report import html, html_seeds, render_comparison, render_summary, units
from pumice.sim.results import Comparison, RunRecord, Summary, compare, compare_seeds, decode, encode, summarise
from pumice.sim.results.gates import judge, judge_seeds
from pumice.sim.run import INTERRUPTED
from pumice.sim.scenario import SimScenario
from pumice.words import counted


def go(
    scenario: SimScenario, confs: dict[str, SchedulerConf], files: Files, wanted: StudyOptions, output: StudyOutput
) -> None:
    """Play the scenario once under each of the configurations, or many times as a study."""
    with terminable():
        if wanted.many:
            play_study(checked(scenario.under(confs)), files, wanted, output)
            return
        scenario = scenario.under(confs)
        scenario = scenario if wanted.seed is None else scenario.with_seed(wanted.seed)
        _play(scenario, scenario.registry, files, wanted, output)


def _play(scenario: SimScenario, registry: Registry, files: Files, wanted: StudyOptions, output: StudyOutput) -> None:
    """Run everything once, print and write the results; exit code 1 if a run was stopped or a job can never fit."""
    gates = wanted.gates()
    files.prepare(len(scenario.configurations))
    say_warnings(scenario)
    records: list[RunRecord] = []
    wrong = False
    said: list[str] = []
    with _log(files.log) as stream:
        for name, conf in scenario.configurations.items():
            paper = None if files.history is None else Folder(files.history, "simulated", packs=False)
            with progress_bar(name, scenario) as tell:
                run = sim.Simulation(
                    scenario.setting_of(name), assemble(conf, registry), log=stream, progress=tell, history=paper
                )
                records.append(run.run(scenario.workload()))
            if paper is not None:
                paper.close()
            wrong |= _say_what_failed(name, run)
            said += [*run.never_fit_in_words(), run.failure] if run.failure else run.never_fit_in_words()
            if files.save is not None:
                _save(files.save, run, registry)
            if run.failure == INTERRUPTED:
                break
    comparison = compare(records)
    if files.record is not None:
        write_output("--record", files.record, b"".join(encode(run) + b"\n" for run in records))
    if files.report is not None:
        write_output("--report", files.report, html(records, comparison, title=scenario.name))
    data = _data(records, comparison)
    if output is StudyOutput.JSON:
        render.data(data)
    else:
        show_comparison(scenario.name, comparison)
    if files.report is not None:
        render.note(f"The report is in {files.report}")
    say_later_warnings(comparison.warnings, scenario, said)
    whole = [BundledRun(run.name, run.seed, result_digest(run)) for run in records if not run.partial]
    wrong |= bundled(scenario, files.bundle, wanted, whole, data)
    end(wrong, [say_gate(judge(gate, comparison)) for gate in gates])


def _log(path: Path | None) -> AbstractContextManager[TextIO | None]:
    """The file for events, line by line, if any."""
    return nullcontext() if path is None else io.TextIOWrapper(open_output("--log", path), encoding="utf-8")


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
    jobs, span = counted(first.total.jobs, "job"), units.duration(first.span_s)
    render.heading(title, f"{units.machines(first)}, {jobs}, {span} simulated")
    render.show(render_comparison(comparison))


def compare_recorded(
    records: list[Path], page: Path | None, first: str | None, wanted: StudyOptions, as_data: bool
) -> None:
    """Compare recorded runs, print and write what they say; exit code 1 if a rule is broken."""
    gates = wanted.gates()
    Files(report=page).prepare(1)
    runs = _named([(path, run) for path in records for run in read_records(path)])
    if first is not None:
        if first not in {run.name for run in runs}:
            names = ", ".join(dict.fromkeys(run.name for run in runs))
            raise typer.BadParameter(f"{first!r} is not one of {names}", param_hint="--first")
        runs.sort(key=lambda run: run.name != first)
    for text in _differences(runs):
        render.warning(text)
    title = runs[0].trace.partition(":")[0]
    if len({run.seed for run in runs}) == 1:
        comparison = compare(runs)
        if page is not None:
            write_output("--report", page, html(runs, comparison, title=title))
        if as_data:
            summaries = [msgspec.to_builtins(summary) for summary in comparison.summaries]
            render.data({"runs": summaries, "comparison": msgspec.to_builtins(comparison)})
        else:
            show_comparison(title, comparison)
        codes = [say_gate(judge(gate, comparison)) for gate in gates]
    else:
        played: dict[str, dict[int, Summary]] = {}
        for run in runs:
            if not run.partial:
                played.setdefault(run.name, {})[run.seed] = summarise(run)
        over_seeds = compare_seeds(played, primary=wanted.figure())
        if page is not None:
            whole = [run for run in runs if run.seed == over_seeds.seeds[0]]
            write_output("--report", page, html_seeds(over_seeds, whole, title=title))
        if as_data:
            summaries = [msgspec.to_builtins(summary) for part in played.values() for summary in part.values()]
            render.data({"runs": summaries, "comparison": msgspec.to_builtins(over_seeds)})
        else:
            show_seeds(title, over_seeds, next(iter(played.values())))
        codes = [say_gate(judge_seeds(gate, over_seeds)) for gate in gates]
    if page is not None:
        render.note(f"The report is in {page}")
    end(False, codes)


def read_records(path: Path) -> list[RunRecord]:
    """The records of a file, one JSON line each; the last one may be cut off, as that of a run that was killed.

    :raises InvalidInput: the file cannot be read, or holds something else.
    """
    try:
        data = read_bytes(path, "records")
        lines = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).split(b"\n")
    except (OSError, EOFError, zlib.error) as exc:
        raise InvalidInput(f"records {str(path)!r}: {getattr(exc, 'strerror', None) or exc}") from exc
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(decode(line))
        except InvalidInput as exc:
            if number == len(lines) and found:
                render.warning(f"{path}:{number}: the last record is cut off: left out")
                break
            raise InvalidInput(f"{path}:{number}: {exc}") from exc
    if not found:
        raise InvalidInput(f"records {str(path)!r}: holds none")
    return found


def _named(found: list[tuple[Path, RunRecord]]) -> list[RunRecord]:
    """The runs, those of one name and seed in different files told apart by the file."""
    count = Counter((run.name, run.seed) for _, run in found)
    twice = {name for (name, _), times in count.items() if times > 1}
    runs = [msgspec.structs.replace(run, name=f"{run.name} ({path.stem})") if run.name in twice else run
            for path, run in found]  # fmt: skip
    again = [key for key, times in Counter((run.name, run.seed) for run in runs).items() if times > 1]
    if again:
        raise InvalidInput(f"records: run {again[0][0]!r} of seed {again[0][1]} is there twice")
    return runs


def _differences(runs: list[RunRecord]) -> list[str]:
    """The differences between runs that should agree: scenario, inputs, version."""
    first = runs[0]
    said: dict[str, None] = {}
    for run in runs[1:]:
        if run.origin.scenario_digest != first.origin.scenario_digest:
            said[f"{run.name} was made from another scenario than {first.name}"] = None
        for name, digest in run.origin.inputs.items():
            if first.origin.inputs.get(name, digest) != digest:
                said[f"{run.name} was made with another {name} than {first.name}"] = None
        if run.version != first.version:
            said[f"{run.name} was made by version {run.version}, {first.name} by {first.version}"] = None
    return list(said)
