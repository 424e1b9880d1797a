"""``pumice trace``: make a trace of a history or of another format, and show what is in one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pumice.cli.commands import Commands
from pumice.cli.options import Output, OutputOption

app = Commands(help="Make a trace of a history or another log, and show what is in one.", no_args_is_help=True)


class TraceKind(StrEnum):
    """What a trace can be made of."""

    HISTORY = "history"
    SWF = "swf"
    PHILLY = "philly"
    OPENB = "openb"
    NATIVE = "native"


@app.command("from")
def make(
    kind: Annotated[TraceKind, typer.Argument(metavar="KIND", help="history, swf, philly, openb or native.")],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The folder of `pumice run --history`, or the log.")],
    write: Annotated[
        Path, typer.Option("--write", metavar="FILE", help="The trace: week.csv, or packed, week.csv.gz.")
    ],
    redact: Annotated[bool, typer.Option("--redact", help="New names for jobs, users, queues and nodes.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a trace of our own format. Of a history also the scenario that plays it, beside the trace."""
    from pumice.cli.tracing import make_trace

    make_trace(kind.value, path, write, redact, output is Output.JSON)


@app.command()
def info(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A trace of any format, or a history.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what is in a trace or a history. Jobs, sizes, run times, queues; of a history also waits and evictions."""
    from pumice.cli.tracing import show_trace

    show_trace(path, output is Output.JSON)
