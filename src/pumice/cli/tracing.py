"""Traces made and shown: what ``pumice trace`` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pumice.cli import render
from pumice.cli.options import WrongUsage
from pumice.history.stories import Told, read_history
from pumice.sim.report import units
from pumice.sim.traces import FORMATS, read
from pumice.sim.traces.from_history import (
    LEFT,
    RecordedRun,
    recorded,
    redacted,
    redacted_jobs,
    scenario_path,
    scenario_text,
    write_trace,
)
from pumice.sim.traces.recognising import Description, JobsPart, describe
from pumice.words import counted

HISTORY = (".jsonl", ".jsonl.gz")
MOST_ROWS = 12
"""Queues that are shown one by one."""


def _is_history(kind: str | None, path: Path) -> bool:
    return kind == "history" or (kind is None and (path.is_dir() or path.name.endswith(HISTORY)))


def make_trace(kind: str | None, path: Path, target: Path, redact: bool, as_data: bool) -> None:
    """Write a trace, and say what was written and what is not in it."""
    if not target.name.removesuffix(".gz").endswith(".csv"):
        raise WrongUsage(f"--write {str(target)!r}: must end in .csv or .csv.gz")
    history = _is_history(kind, path)
    if history:
        found = recorded(read_history(path))
        found = redacted(found) if redact else found
        scenario = scenario_path(target)
        write_trace(found.jobs, target)
        scenario.write_text(scenario_text(found, target.name, scenario.stem), encoding="utf-8")
        jobs, notes, files = found.jobs, found.notes, [target, scenario]
    else:
        trace = read(path, *(name for name in FORMATS if name == kind))
        jobs = redacted_jobs(trace.jobs) if redact else trace.jobs
        write_trace(jobs, target)
        notes, files = list(trace.notes), [target]
    if as_data:
        render.data({"jobs": len(jobs), "files": [str(file) for file in files], "notes": notes, "redacted": redact})
        return
    render.line(f"{counted(len(jobs), 'job')} in {target}")
    if history:
        render.line(f"pumice simulate {files[1]} plays it, under the conf of the history")
    for note in notes:
        render.note(note)
    if redact:
        render.note(f"It still says {LEFT}{'; the scenario has the conf as it is' if history else ''}.")


def show_trace(path: Path, kind: str | None, as_data: bool) -> None:
    """Print what is in a trace or a history."""
    if _is_history(kind, path):
        told = read_history(path)
        found = recorded(told)
        about = describe(found.jobs)
        if as_data:
            render.data({"format": "history", **about._asdict(), **_history_data(told, found)})
            return
        render.heading(path.name, f"history, {_span(told)}")
        _show(about)
        _show_history(told)
        notes: Sequence[str] = found.notes
    else:
        trace = read(path, *(name for name in FORMATS if name == kind))
        about, notes = describe(trace.jobs), trace.notes
        if as_data:
            render.data({"format": trace.format, **about._asdict(), "notes": list(notes)})
            return
        render.heading(path.name, f"{trace.format} trace")
        _show(about)
    for note in notes:
        render.note(note)


def _show(about: Description) -> None:
    total = about.total
    hours = f"{units.number(total.gpu_hours)} GPU h" if total.gpu_hours else f"{units.number(total.cpu_hours)} CPU h"
    kinds = [
        (about.gangs, "gangs"), (about.elastic, "elastic"), (about.shared, "share a GPU"),
        (about.declared, "declare a run time"), (about.endless, "without an end"),
    ]  # fmt: skip
    rows = [
        ("Jobs", f"{units.number(total.jobs)}, {hours}" + (f", {counted(total.users, 'user')}" if total.users else "")),
        (
            "Arrivals",
            f"over {units.duration(about.last_s - about.first_s)}, {about.busiest_hour:,} in the busiest hour",
        ),
        ("Run time", f"median {units.duration(total.run_p50)}, 90 % within {units.duration(total.run_p90)}"),
        ("Largest", f"{units.number(about.largest_gpus)} GPUs, {counted(about.largest_pods, 'pod')}"),
        ("Of these", ", ".join(f"{count:,} {what}" for count, what in kinds if count) or "all single pods"),
    ]
    render.pairs(rows)
    render.line()
    _table("Size", about.sizes, total)
    if len(about.queues) > 1 or (about.queues and about.queues[0].name != "default"):
        render.line()
        _table("Queue", about.queues, total)


def _table(first: str, parts: Sequence[JobsPart], total: JobsPart) -> None:
    by_gpu = total.gpu_hours > 0
    whole = total.gpu_hours if by_gpu else total.cpu_hours

    def row(name: str, jobs: int, hours: float, part: JobsPart | None) -> list[Any]:
        runs = (part.run_p50, part.run_p90) if part is not None else (None, None)
        share = units.percent(hours / whole) if whole else units.NOTHING
        return [name, jobs, share, units.duration(runs[0]), units.duration(runs[1])]

    shown = [row(p.name, p.jobs, p.gpu_hours if by_gpu else p.cpu_hours, p) for p in parts[:MOST_ROWS]]
    rest = parts[MOST_ROWS:]
    if rest:
        hours = sum(p.gpu_hours if by_gpu else p.cpu_hours for p in rest)
        shown.append(row(f"{len(rest):,} more", sum(p.jobs for p in rest), hours, None))
    columns = [first, "jobs", "of GPU h" if by_gpu else "of CPU h", "run p50", "run p90"]
    render.table(columns, shown, names=[first])


def _span(told: Told) -> str:
    return units.duration(told.ends - told.begins)


def _waits(told: Told) -> list[float]:
    return sorted(s.placed - s.submitted for s in told.jobs if s.placed is not None and not s.found)


def _show_history(told: Told) -> None:
    waits = _waits(told)
    evicted = Counter(line.action for line in told.evictions)
    losses = sum(loss.pods for story in told.jobs for loss in story.losses)
    gone = sum(stay.until is not None for stay in told.nodes)
    ends = Counter(story.how or "not over" for story in told.jobs)
    said = {"unseen": "ended unseen"}
    rows = [
        ("Ended", ", ".join(f"{count:,} {said.get(how, how)}" for how, count in ends.most_common())),
        ("Waits", _waited(waits)),
        ("Evictions", ", ".join(f"{count:,} by {action}" for action, count in evicted.most_common()) or "none"),
        ("Lost", f"{counted(losses, 'pod')} taken by others or failed; {counted(gone, 'node')} gone"),
        ("Nodes", f"{len({stay.node.name for stay in told.nodes}):,}"),
        ("Confs", ", ".join(conf.digest[:12] for conf in told.confs) or "none"),
    ]
    if told.torn or told.unknown:
        rows.append(("Not read", f"{counted(told.torn, 'line')} cut off, {told.unknown:,} not understood"))
    render.line()
    render.pairs(rows)


def _waited(waits: Sequence[float]) -> str:
    if not waits:
        return "no job started"
    mean = sum(waits) / len(waits)
    high = waits[min(int(0.95 * len(waits)), len(waits) - 1)]
    return f"mean {units.duration(mean)}, 95 % within {units.duration(high)}"


def _history_data(told: Told, found: RecordedRun) -> dict[str, Any]:
    waits = _waits(told)
    return {
        "begins": told.begins,
        "ends": told.ends,
        "ended": Counter(story.how or "not over" for story in told.jobs),
        "wait": {"mean": sum(waits) / len(waits) if waits else None, "jobs": len(waits)},
        "evictions": Counter(line.action for line in told.evictions),
        "lost_pods": sum(loss.pods for story in told.jobs for loss in story.losses),
        "nodes": len({stay.node.name for stay in told.nodes}),
        "gaps": told.gaps,
        "torn": told.torn,
        "unknown": told.unknown,
        "notes": found.notes,
    }
