"""Runs that were recorded: read from files, named apart, compared."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from pathlib import Path

import msgspec
import typer

from pumice.cli import render
from pumice.cli.outputs import write_output
from pumice.cli.playing import show_comparison
from pumice.cli.studies import Files, StudyOptions, end, say_gate, show_seeds
from pumice.errors import InvalidInput
from pumice.sim.report import html, html_seeds
from pumice.sim.results import RunRecord, Summary, compare, compare_seeds, decode, summarise
from pumice.sim.results.gates import judge, judge_seeds


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
        data = path.read_bytes()
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
    """What is not the same in all runs though it should be: scenario, inputs, version."""
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
