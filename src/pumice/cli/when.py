"""``pumice when``: when a job will likely start, as a range."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pumice.cli import render
from pumice.cli.live import AnswersPlace, NamespaceOption, run
from pumice.cli.options import JobArgument, Output, OutputOption

if TYPE_CHECKING:
    from pumice.answers.when.answer import WhenAnswer


def when(
    job: JobArgument,
    place: AnswersPlace,
    namespace: NamespaceOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Say when JOB will likely start: a range, what it rests on, and what it assumes.

    Without PATH the running scheduler is asked, which learns from what it sees.
    """
    if place.paths:
        answer = place.desk().when(job, namespace or "").answer()
    else:
        answer = run(place.asker().when(job, place.namespace(job, namespace)))
    if output is Output.JSON:
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
    from pumice.answers.when.spans import start_in_words

    known = answer.low is not None and answer.high is not None
    return start_in_words(answer, _clock(answer.now, answer.low or 0.0, answer.high or 0.0) if known else "")


def _clock(now: float, low: float, high: float) -> str:
    """The times of the day, where *now* is one."""
    if now < 1e9:
        return ""
    early, late = (datetime.fromtimestamp(now + seconds, UTC) for seconds in (low, high))
    same = early.date() == late.date() == datetime.fromtimestamp(now, UTC).date()
    form = "%H:%M" if same else "%b %d %H:%M"
    return f", {early:{form}} to {late:{form}} UTC"
