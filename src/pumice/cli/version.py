"""``pumice version``."""

from __future__ import annotations

import sys

from pumice.cli import release
from pumice.cli.options import Output, OutputOption


def version(output: OutputOption = Output.TABLE) -> None:
    """Print the version."""
    if output is Output.JSON:
        from pumice.cli import render

        render.data({"version": release.number(), "python": sys.version.split()[0]})
    else:
        sys.stdout.write(f"{release.line()}\n")
