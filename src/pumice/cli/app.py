"""The ``pumice`` command with all its subcommands.

A start must be quick, for people at a prompt and for shells that complete a word. So a command is a line of this table
and its module is imported when it is called; and such a module imports, outside its functions, only what parsing needs.
"""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import Annotated, Any, Final, TextIO

import typer

from pumice.cli.commands import CommandEntry, LazyGroup, LogLines, section
from pumice.cli.options import WrongUsage
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
    """The extra to install for the module: that of the command, if several have it."""
    from pumice.cli.commands import extras_with

    extras = extras_with(exc.name or "")
    if not extras:
        return None
    own = next((extra for extra in (command, "kube") if extra in extras), extras[0])
    return MissingExtra(f"pumice {command}", exc.name or "", own)


def one_line(exc: PumiceError) -> str:
    """The error, in one line."""
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
        from importlib.metadata import version as version_of

        sys.stdout.write(f"pumice {version_of('pumice')}\n")
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


COMMANDS: Final = (
    *section(
        "Write a policy",
        CommandEntry("plugin", "pumice.cli.plugin:plugin", "Make a plugin, list plugins and extension points."),
        CommandEntry("conf", "pumice.cli.conf:app", "Check a scheduler conf, or show what it does."),
    ),
    *section(
        "Ask, of a cluster or of files",
        CommandEntry("status", "pumice.cli.status:status", "Show jobs, queues and nodes."),
        CommandEntry("why", "pumice.cli.status:why", "Show why a job waits, and when it will likely start."),
        CommandEntry("what-if", "pumice.cli.what_if:what_if", "Show what a job, queues, nodes or a conf would change."),
        CommandEntry("cycle", "pumice.cli.cycle:cycle", "Run one scheduling cycle over manifests or a saved cycle."),
        CommandEntry("mcp", "pumice.cli.mcp:mcp", "Answer an agent's questions (Model Context Protocol)."),
    ),
    *section(
        "Simulate",
        CommandEntry(
            "simulate", "pumice.cli.simulation:simulate", "Run a scenario under one or several configurations."
        ),
        CommandEntry("tune", "pumice.cli.simulation:tune", "Search plugin arguments; validate on held-out days."),
        CommandEntry("plan", "pumice.cli.simulation:plan", "Find how many nodes a goal needs; try load and failures."),
        CommandEntry("trace", "pumice.cli.simulation:trace", "Show a trace or a history; make a trace of it."),
        CommandEntry("report", "pumice.cli.simulation:report", "Compare recorded runs, and write their page."),
    ),
    *section(
        "On a cluster",
        CommandEntry("run", "pumice.cli.run:run", "Schedule the pods of a cluster, until stopped.", cls="RunCommand"),
        CommandEntry(
            "controllers",
            "pumice.cli.controllers:controllers",
            "Run the job, PodGroup and queue controllers.",
            cls="ControllersCommand",
        ),
        CommandEntry("extender", "pumice.cli.extender:app", "Serve policies over HTTP, check and record extenders."),
        CommandEntry("shadow", "pumice.cli.shadow:shadow", "Compare a candidate conf with the running scheduler."),
        CommandEntry("dashboard", "pumice.cli.dashboard:dashboard", "Serve pages over a cluster, files or a scenario."),
    ),
)

Pumice.entries = {entry.name: entry for entry in COMMANDS}
app = root()
