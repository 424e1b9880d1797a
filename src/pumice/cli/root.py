"""What all commands have in common: options before the command, the log, and how failures end."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import Annotated, Any, TextIO

import typer

from pumice.cli.lazy import LazyGroup
from pumice.cli.log_lines import LogLines
from pumice.cli.usage import WrongUsage
from pumice.errors import BrokenPlugins, MissingExtra, PumiceError


class Pumice(LazyGroup):
    """The group of all commands: a deliberate failure is one line on stderr and exit code 1, wrong usage 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except PumiceError as exc:
            from pumice.cli import render

            render.error(one_line(exc))
            raise typer.Exit(2 if isinstance(exc, WrongUsage) else 1) from None
        except ModuleNotFoundError as exc:
            from pumice.cli import render

            missing = missing_extra(ctx.invoked_subcommand or "", exc)
            if missing is None:
                raise
            render.error(str(missing))
            raise typer.Exit(1) from None


def missing_extra(command: str, exc: ModuleNotFoundError) -> MissingExtra | None:
    """What to install if the module belongs to an extra: the one of the command, where several have it."""
    from pumice.cli.extras import extras_with

    extras = extras_with(exc.name or "")
    if not extras:
        return None
    own = next((extra for extra in (command, "kube") if extra in extras), extras[0])
    return MissingExtra(f"pumice {command}", exc.name or "", own)


def one_line(exc: PumiceError) -> str:
    """What went wrong, in one line."""
    from pumice.config import InvalidConf

    text = " ".join(str(exc).split())
    if isinstance(exc, BrokenPlugins):
        return f"{exc.problems[0]} (and {len(exc.problems) - 1} more: `pumice plugin list --plugins-dir` lists them)"
    if not isinstance(exc, InvalidConf):
        return text
    first, more = exc.problems[0], len(exc.problems) - 1
    if more:
        text = f"{first} (and {more} more: `pumice conf check` lists them)"
    if first.code == "unknown-plugin" and "did you mean" not in text:
        text += "; --plugins-dir loads plugins of your own"
    return text


class LogLevel(StrEnum):
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
    """The ``pumice`` command without any subcommand of its own."""
    made = typer.Typer(
        cls=Pumice,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Pumice: a batch scheduler for Kubernetes whose policies are small Python classes.",
    )
    made.callback()(common)
    return made


def _print_version(wanted: bool) -> None:
    if wanted:
        from pumice.cli import release

        sys.stdout.write(f"{release.line()}\n")
        raise typer.Exit


def common(
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", metavar="LEVEL", help="Log to stderr: debug, info, warning or error.")
    ] = LogLevel.WARNING,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options of every command."""
    logger = logging.getLogger("pumice")
    logger.setLevel(log_level.value.upper())
    if not any(isinstance(h, _Stderr) for h in logger.handlers):
        handler = _Stderr()
        handler.setFormatter(LogLines("%(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
