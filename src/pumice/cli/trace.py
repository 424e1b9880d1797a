"""``pumice trace``: show what is in a trace, a log or a history, and write it as a trace."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pumice.cli.options import Output, OutputOption


class TraceKind(StrEnum):
    """What a trace can be made of."""

    HISTORY = "history"
    SWF = "swf"
    PHILLY = "philly"
    OPENB = "openb"
    NATIVE = "native"


def trace(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A trace, a public log, or a history's folder.")],
    kind: Annotated[
        TraceKind | None,
        typer.Option("--kind", metavar="KIND", help="history, swf, philly, openb or native; else found out."),
    ] = None,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Write it here: week.csv, or packed, week.csv.gz.")
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Rename jobs, users, queues and nodes in the file that is written.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what is in a trace or a history: jobs, sizes, run times, queues; of a history also waits and evictions.

    With --write it becomes a trace of our own format; of a history also the scenario that plays it.

    Examples:
        pumice trace past
        pumice trace past --write week.csv --redact
    """
    from pumice.cli.tracing import make_trace, show_trace
    from pumice.cli.usage import WrongUsage

    if write is None:
        if redact:
            raise WrongUsage("--redact: only with --write")
        show_trace(path, kind.value if kind else None, output is Output.JSON)
    else:
        make_trace(kind.value if kind else None, path, write, redact, output is Output.JSON)
