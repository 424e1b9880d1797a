"""A scenario played once under each of its configurations: printed, written, judged."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import msgspec

from pumice import saved
from pumice.cli import render
from pumice.cli.opening import checked
from pumice.cli.options import StudyOutput
from pumice.cli.outputs import open_output, write_output
from pumice.cli.progress import progress_bar, terminable
from pumice.cli.studies import Files, StudyOptions, bundled, end, play_study, say_gate, say_later_warnings, say_warnings
from pumice.config import SchedulerConf
from pumice.framework.registry import Registry
from pumice.history.files import Folder
from pumice.scheduler.assembly import assemble
from pumice.scheduler.recording import record as begun
from pumice.scheduler.recording import replay
from pumice.sim import run as sim
from pumice.sim.bundle import BundledRun, result_digest
from pumice.sim.report import html, render_comparison, render_summary, units
from pumice.sim.results import Comparison, RunRecord, compare, encode, summarise
from pumice.sim.results.gates import judge
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
    """Where what happens is written line by line, if anywhere."""
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
