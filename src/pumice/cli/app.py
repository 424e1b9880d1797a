"""The ``pumice`` command."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from importlib.metadata import version as package_version
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from pumice.cli import bench, conf, conformance, cycle, extender, objects, plugins, points, render, run, simulate
from pumice.cli.options import JsonOption, Output, OutputOption, as_json
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
    if isinstance(exc, InvalidConf) and len(exc.problems) > 1:
        return f"{exc.problems[0]} (and {len(exc.problems) - 1} more: `pumice conf check` lists them)"
    return " ".join(str(exc).split())


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


app = typer.Typer(
    cls=OneLineErrors,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Pumice: a batch scheduler for Kubernetes whose policies are small Python classes.",
)


@app.callback()
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


@app.command()
def version(output: OutputOption = Output.TABLE, json: JsonOption = False) -> None:
    """Print the version."""
    number = package_version("pumice")
    if as_json(output, json):
        render.data({"version": number, "python": sys.version.split()[0]})
    else:
        render.line(f"pumice {number}")


app.command(cls=run.RunCommand)(run.run)
app.command()(simulate.simulate)
app.command("compare")(simulate.compare_confs)
app.command()(cycle.cycle)
app.command()(cycle.explain)
app.command()(cycle.replay)
app.add_typer(objects.jobs, name="job")
app.add_typer(objects.queues, name="queue")
app.add_typer(conf.app, name="conf")
app.command()(points.points)
app.command()(plugins.plugins)
app.add_typer(plugins.app, name="plugin")
app.add_typer(conformance.app, name="conformance")
app.add_typer(extender.app, name="extender")
app.command()(bench.bench)


def main() -> None:
    """Run the command line."""
    app(prog_name="pumice")
