"""The ``pumice`` program. A cluster waits for a scheduler that restarts, so ``pumice run`` loads no other command."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

import typer


def main() -> None:
    """Run the command line."""
    gc.disable()  # what is loaded now stays; passes over it would find nothing
    app = command_line(sys.argv[1:])
    gc.freeze()
    gc.enable()
    app(prog_name="pumice")


def command_line(args: Sequence[str]) -> typer.Typer:
    """The commands that these arguments may call: ``run`` alone, or all."""
    if args[:1] == ["run"]:
        from pumice.cli import run
        from pumice.cli.root import root

        app = root()
        app.command(cls=run.RunCommand)(run.run)
        return app
    from pumice.cli.app import app as whole

    return whole
