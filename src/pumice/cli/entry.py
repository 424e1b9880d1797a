"""The ``pumice`` program."""

from __future__ import annotations

import errno
import gc
import io
import os
import stat
import sys
from pathlib import Path

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended: 128 and the number of the signal."""


def main() -> None:
    """Run the command line. Ctrl-C ends it without a word more, whatever is being loaded."""
    try:
        _main()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def _main() -> None:
    """Run the command line. A reader of the output through a pipe may stop reading: that is no failure."""
    if sys.argv[1:] == ["--version"]:  # scripts ask for it, and need no parser
        from importlib.metadata import version

        print(f"pumice {version('pumice')}")
        return
    _write_whatever_there_is()
    gc.disable()  # what is loaded now stays; passes over it would find nothing
    from pumice.cli.app import app

    gc.freeze()
    gc.enable()
    piped = _is_pipe()
    try:
        try:
            app(prog_name="kubectl pumice" if Path(sys.argv[0]).name == "kubectl-pumice" else "pumice")
        finally:
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as exc:
        # Rich and Typer turn a closed pipe into exit code 1
        closed = isinstance(exc, BrokenPipeError) or isinstance(exc.__context__, BrokenPipeError)
        if not (closed and piped):
            raise
        _write_nowhere()
        raise SystemExit(0) from None
    except OSError as exc:
        if exc.errno != errno.ENOSPC:
            raise
        _write_nowhere()
        sys.stderr.write(f"error: what is printed cannot be written: {exc.strerror}\n")
        raise SystemExit(1) from None


def _write_nowhere() -> None:
    """Buffered output is dropped."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _write_whatever_there_is() -> None:
    """Also where nobody listens; signs that an encoding lacks (``LC_ALL=C``, a code page) are written as ``\\xd7``."""
    if sys.stdout is None:  # ``pumice ... >&-``
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  until the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _is_pipe() -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return False
