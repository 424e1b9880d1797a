"""What all commands have in common: options before the command, the log, and how failures end."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from pumice.cli import render
from pumice.config import InvalidConf
from pumice.errors import PumiceError


class OneLineErrors(TyperGroup):
    """A group whose commands end a deliberate failure in one line on stderr and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except PumiceError as exc:
            render.error(one_line(exc))
            raise typer.Exit(1) from None


def one_line(exc: PumiceError) -> str:
    """What went wrong, in one line."""
    text = " ".join(str(exc).split())
    if not isinstance(exc, InvalidConf):
        return text
    first, more = exc.problems[0], len(exc.problems) - 1
    if more:
        text = f"{first} (and {more} more: `pumice conf check` lists them)"
    if first.code == "unknown-plugin" and "did you mean" not in text:
        text += "; --plugins-dir loads plugins of your own"
    return text


class Level(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _Stderr(logging.StreamHandler[TextIO]):
    """Logs to whatever stderr is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def root() -> typer.Typer:
    """The ``pumice`` command without any subcommand."""
    made = typer.Typer(
        cls=OneLineErrors,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Pumice: a batch scheduler for Kubernetes whose policies are small Python classes.",
    )
    made.callback()(common)
    return made


def common(
    log_level: Annotated[Level, typer.Option("--log-level", help="What is logged to stderr.")] = Level.WARNING,
) -> None:
    """Options of every command."""
    logger = logging.getLogger("pumice")
    logger.setLevel(log_level.value.upper())
    if not any(isinstance(h, _Stderr) for h in logger.handlers):
        handler = _Stderr()
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
