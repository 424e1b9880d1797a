"""``pumice report``: the page and the figures of runs that were recorded, today or another day."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pumice.cli.options import Output, OutputOption
from pumice.cli.play_options import FailIfOption, FailUnlessOption


def report(
    records: Annotated[
        list[Path], typer.Argument(metavar="RECORDS...", help="Files that --record wrote, packed with gzip or not.")
    ],
    page: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write the report as one HTML page.")
    ] = None,
    first: Annotated[
        str | None, typer.Option("--first", metavar="NAME", help="The run that the others are compared with.")
    ] = None,
    fail_if: FailIfOption = None,
    fail_unless: FailUnlessOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Compare recorded runs: several seeds pair by pair, single ones side by side.

    Examples:
        pumice report runs.jsonl --report out.html
        pumice report before.jsonl after.jsonl --fail-if 'unfinished > 0'
    """
    from pumice.cli.recorded import compare_recorded
    from pumice.cli.studies import StudyOptions

    rules = StudyOptions(fail_if=tuple(fail_if or ()), fail_unless=tuple(fail_unless or ()))
    compare_recorded(records, page, first, rules, output is Output.JSON)
