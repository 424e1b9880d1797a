"""How the tools of this folder run: failures are one line on stderr, exit codes are 0, 1 and 2, as of ``pumice``."""

from __future__ import annotations

import sys

import typer

from pumice.cli import render
from pumice.cli.app import common, one_line
from pumice.cli.options import WrongUsage
from pumice.errors import PumiceError


def run_tool(app: typer.Typer) -> None:
    """Run a tool's command line until it ends."""
    common()
    try:
        app(prog_name=f"python {sys.argv[0]}")
    except PumiceError as exc:
        render.error(one_line(exc))
        raise SystemExit(2 if isinstance(exc, WrongUsage) else 1) from None
