"""``pumice try``: what a job would do that is not there yet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pumice.cli import render
from pumice.cli.live import AnswersPlace, run
from pumice.cli.options import Output, OutputOption
from pumice.errors import InvalidInput


def attempt(
    file: Annotated[
        list[Path], typer.Option("-f", "--filename", metavar="FILE", help="The job: a manifest (repeatable).")
    ],
    place: AnswersPlace,
    output: OutputOption = Output.TABLE,
) -> None:
    """Say whether a job would start now, or likely when, where, who would be evicted, what it does to its queue.

    It is what the next cycle decides if nothing else happens. Nothing is written. Without PATH the running scheduler is
    asked.
    """
    from pumice.cli import answer_text
    from pumice.cli.manifests import read_objects

    objects, unread = read_objects(file)
    if not objects:
        raise InvalidInput(f"{', '.join(map(str, file))}: holds no job, PodGroup or Pod that could be tried")
    if unread:
        render.warning(f"objects of kind {', '.join(unread)} are not tried")
    if place.paths:
        tried = place.desk().attempt_and_wait(objects).answer()
    else:
        tried = run(place.asker().attempt(objects))
    if output is Output.JSON:
        render.data(tried)
    else:
        answer_text.show_tried(tried)
