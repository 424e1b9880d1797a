"""``pumice why``: what a job waits for, on one screen."""

from __future__ import annotations

from pumice.cli import render
from pumice.cli.live import AnswersPlace, NamespaceOption, run
from pumice.cli.options import JobArgument, Output, OutputOption


def why(
    job: JobArgument,
    place: AnswersPlace,
    namespace: NamespaceOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Say what JOB waits for, when it will likely start, its place, how its queue stands, what would help.

    Without PATH the running scheduler is asked; where none answers, what the job's own objects say is told.
    """
    from pumice.cli import answer_text

    if place.paths:
        answer = place.desk().when(job, namespace or "").why_and_when()
    else:
        answer = run(place.asker().why(job, place.namespace(job, namespace)))
    if output is Output.JSON:
        render.data(answer)
    else:
        answer_text.show_why(answer)
