"""``pumice when``: when a job will likely start, as a range."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pumice.cli import render
from pumice.cli.cluster_options import Context, Kubeconfig
from pumice.cli.live import (
    AuthorityOption,
    MaybePaths,
    NamespaceOption,
    ServerOption,
    asker_of,
    namespace_of,
    only_with_paths,
    run,
)
from pumice.cli.options import (
    CompatOption,
    ConfOption,
    JobArgument,
    JsonOption,
    Output,
    OutputOption,
    PluginsDirOption,
    as_json,
)

if TYPE_CHECKING:
    from pumice.answers.when.answer import WhenAnswer

PastOption = Annotated[
    Path | None,
    typer.Option("--history", metavar="DIR", help="Learn run times and errors from here: `pumice run --history`."),
]


def when(
    job: JobArgument,
    paths: MaybePaths = None,
    history: PastOption = None,
    conf: ConfOption = None,
    plugins_dir: PluginsDirOption = None,
    compat: CompatOption = None,
    namespace: NamespaceOption = None,
    server: ServerOption = None,
    server_ca: AuthorityOption = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Say when JOB will likely start: a range, what it rests on, and what it assumes.

    Without PATH the running scheduler is asked, which learns from what it sees.
    """
    from pumice.cli.why import desk_of

    if paths:
        answer = desk_of(paths, conf, plugins_dir, compat, history).when(job, namespace or "").answer()
    else:
        only_with_paths(conf=conf, plugins_dir=plugins_dir, compat=compat, history=history)
        asker = asker_of(server, server_ca, kubeconfig, context)
        answer = run(asker.when(job, namespace_of(job, namespace, kubeconfig, context)))
    if as_json(output, json):
        render.data(answer)
    else:
        show_when(answer)


def show_when(answer: WhenAnswer) -> None:
    """Print when a job will likely start."""
    place = f" · place {answer.place} of {answer.waiting} that wait in it" if answer.place else ""
    render.heading(answer.job, f"queue {answer.queue or '-'}{place}")
    render.paragraph(likely_start(answer), indent=2)
    if answer.why:
        render.paragraph(f"waits for: {answer.why}", indent=2)
    for text in answer.assumes:
        render.paragraph(text, indent=2, lead="· ")


def likely_start(answer: WhenAnswer) -> str:
    """When it will likely start, in one line."""
    from pumice.sim.report.units import duration

    match answer.verdict:
        case "runs":
            return "has its places already"
        case "now":
            return "starts now: the next cycle places it"
        case "never":
            return "never, with what is there"
        case "range" if answer.low is not None and answer.high is not None:
            clock = _clock(answer.now, answer.low, answer.high)
            basis = "8 of 10 times so far" if answer.measured else "a guess: no earlier prediction to learn from"
            return f"likely starts in {duration(answer.low)} to {duration(answer.high)}{clock} ({basis})"
        case _:
            return "nobody can say: it is not looked at"


def _clock(now: float, low: float, high: float) -> str:
    """The times of the day, where *now* is one."""
    if now < 1e9:
        return ""
    early, late = (datetime.fromtimestamp(now + seconds, UTC) for seconds in (low, high))
    same = early.date() == late.date() == datetime.fromtimestamp(now, UTC).date()
    form = "%H:%M" if same else "%b %d %H:%M"
    return f", {early:{form}} to {late:{form}} UTC"
