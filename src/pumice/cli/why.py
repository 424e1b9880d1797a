"""``pumice why``: why a job waits, and when it will likely start."""

from __future__ import annotations

from typing import Annotated

import typer

from pumice.cli import render
from pumice.cli.live import AnswersPlace, NamespaceOption, run
from pumice.cli.options import JobArgument, Output, OutputOption


def why(
    job: JobArgument,
    *,
    whole: Annotated[bool, typer.Option("--all", help="Also show every reason with its nodes.")] = False,
    place: AnswersPlace,
    namespace: NamespaceOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show why JOB waits, when it will likely start, its place, how its queue stands, and what would help.

    Without PATH the running scheduler is asked; if none answers, the job's own objects are read.

    Examples:
        pumice why research/llama
        pumice why llama examples/demo --conf examples/demo/scheduler.conf --all
    """
    from pumice.cli import answer_text

    if place.paths:
        answer = place.answers().when(job, namespace or "").why_and_when()
    else:
        answer = run(place.client().why(job, place.namespace(job, namespace)))
    if output is Output.JSON:
        render.data(answer)
    else:
        answer_text.show_why(answer, whole=whole)
