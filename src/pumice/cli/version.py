"""``pumice version``."""

from __future__ import annotations

import sys

from pumice.cli import release
from pumice.cli.options import JsonOption, Output, OutputOption, as_json


def version(output: OutputOption = Output.TABLE, json: JsonOption = False) -> None:
    """Print the version."""
    if as_json(output, json):
        from pumice.cli import render

        render.data({"version": release.number(), "python": sys.version.split()[0]})
    else:
        sys.stdout.write(f"{release.line()}\n")
