"""``pumice when``: when a job will likely start, as a range."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pumice.cli import render
from pumice.cli.live import NamespaceOption
from pumice.cli.options import (
    CompatOption,
    ConfOption,
    JobArgument,
    JsonOption,
    Output,
    OutputOption,
    PathsArgument,
    PluginsDirOption,
    as_json,
)

if TYPE_CHECKING:
    from pumice.answers.when.asked import WhenAnswer


def when(
    job: JobArgument,
    paths: PathsArgument,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="DIR", help="Learn run times and errors from here: `pumice run --history`."),
    ] = None,
    conf: ConfOption = None,
    plugins_dir: PluginsDirOption = None,
    compat: CompatOption = None,
    namespace: NamespaceOption = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Say when JOB will likely start: a range, what it rests on, and what it assumes.

    PATH is a saved cycle, or manifests of a cluster.
    """
    from pumice.answers.when.asked import learn
    from pumice.answers.when.asked import when as ask
    from pumice.cli.why import desk_of
    from pumice.history.stories import read_history

    learned = None if history is None else learn(read_history(history))
    answer = ask(desk_of(paths, conf, plugins_dir, compat).state, job, namespace or "", learned)
    if as_json(output, json):
        render.data(answer)
    else:
        show_when(answer)


def show_when(answer: WhenAnswer) -> None:
    """Print when a job will likely start."""
    from pumice.sim.report import units

    if not answer.waiting:
        render.heading(answer.job, f"queue {answer.queue} · {'has its places' if answer.runs else 'does not wait'}")
        return
    render.heading(answer.job, f"queue {answer.queue} · place {answer.place} of {answer.waiting} that wait")
    if answer.low is None or answer.high is None:
        render.paragraph("does not start with what is there", indent=2)
    else:
        early, late = units.duration(answer.low), units.duration(answer.high)
        clock = _clock(answer.now, answer.low, answer.high)
        render.paragraph(f"likely starts in {early} to {late}{clock}", indent=2)
        basis = (
            f"8 of 10 times, by {answer.outcomes:,} earlier predictions"
            if answer.outcomes
            else "a guess by a factor of four either way: no earlier prediction to learn from"
        )
        render.paragraph(basis, indent=2)
    for text in answer.assumes:
        render.paragraph(text, indent=2, lead="· ")


def _clock(now: float, low: float, high: float) -> str:
    """The times of the day, where *now* is one."""
    if now < 1e9:
        return ""
    early, late = (datetime.fromtimestamp(now + seconds, UTC) for seconds in (low, high))
    same = early.date() == late.date() == datetime.fromtimestamp(now, UTC).date()
    form = "%H:%M" if same else "%b %d %H:%M"
    return f", {early:{form}} to {late:{form}} UTC"
