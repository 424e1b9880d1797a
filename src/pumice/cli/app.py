"""The ``pumice`` command with all its subcommands."""

from __future__ import annotations

import sys
from importlib.metadata import version as package_version

from pumice.cli import (
    bench,
    conf,
    conformance,
    controllers,
    cycle,
    extender,
    objects,
    plugins,
    points,
    render,
    report,
    run,
    simulate,
    sweep,
)
from pumice.cli.options import JsonOption, Output, OutputOption, as_json
from pumice.cli.root import root

app = root()


@app.command()
def version(output: OutputOption = Output.TABLE, json: JsonOption = False) -> None:
    """Print the version."""
    number = package_version("pumice")
    if as_json(output, json):
        render.data({"version": number, "python": sys.version.split()[0]})
    else:
        render.line(f"pumice {number}")


app.command(cls=run.RunCommand)(run.run)
app.command(cls=controllers.ControllersCommand)(controllers.controllers)
app.command()(simulate.simulate)
app.command("compare")(simulate.compare_confs)
app.command()(sweep.sweep)
app.command()(report.report)
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
