"""``pumice cycle``, ``pumice explain``, ``pumice replay``: one cycle over manifests or a saved one."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pumice.cli import render
from pumice.cli.options import (
    CompatOption,
    ConfOption,
    JobArgument,
    Output,
    OutputOption,
    PathsArgument,
    PluginsDirOption,
    load_conf,
    registry_with,
)
from pumice.words import counted

if TYPE_CHECKING:
    from pumice.config import SchedulerConf
    from pumice.framework.explaining.explain import Explanation
    from pumice.framework.registry import Registry
    from pumice.framework.session.session import Session


def cycle(
    paths: PathsArgument,
    conf: ConfOption = None,
    plugins_dir: PluginsDirOption = None,
    compat: CompatOption = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the cycle, for explain and replay.")] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Rename what names people or projects in the saved file.")
    ] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="Explain at most this many waiting jobs.")] = 50,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run one scheduling cycle: who goes where, and why the rest does not. Nothing is carried out."""
    from pumice import saved
    from pumice.cli import outcome
    from pumice.cli.sources import cycle_of

    registry = registry_with(plugins_dir)
    begun = cycle_of(paths, _conf(conf, compat, registry), registry)
    file = begun.record() if save is not None else None
    waiting = outcome.Waiting(limit)
    ran = begun.run(waiting.inspect)
    if output is Output.JSON:
        render.data(outcome.as_data(ran.report, waiting, begun.warnings))
    else:
        outcome.show(ran.state, ran.report, waiting)
    if save is not None and file is not None:
        from pumice.saved.redact import redacted

        file.decisions = ran.decisions
        for entry in file.left_out:
            render.warning(f"ssn.memory of {entry} is not plain data and was not saved")
        saved.write(save, redacted(file) if redact else file, f"pumice {version('pumice')}")
        render.note(f"saved to {save}")


def explain(
    job: JobArgument,
    paths: PathsArgument,
    conf: ConfOption = None,
    plugins_dir: PluginsDirOption = None,
    compat: CompatOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Say why JOB waits: its place, what stopped it, the nodes by reason, the nearest miss, what would help."""
    from pumice.answers.finding import find_job
    from pumice.cli import explanation
    from pumice.cli.sources import cycle_of
    from pumice.framework.explaining.explain import explain as explain_job

    registry = registry_with(plugins_dir)
    found: list[Explanation] = []

    def inspect(ssn: Session) -> None:
        found.append(explain_job(ssn, find_job(ssn.state, job)))

    cycle_of(paths, _conf(conf, compat, registry), registry).run(inspect)
    if output is Output.JSON:
        render.data(found[0])
    else:
        explanation.show(found[0])


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A saved cycle.")],
    conf: ConfOption = None,
    plugins_dir: PluginsDirOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run a saved cycle again; with --conf, show what another conf would have decided.

    Without --conf the decisions must be the same: exit code 1 if they are not.
    """
    from pumice import saved
    from pumice.cli.explanation import differences
    from pumice.scheduler.recording import replay as run_again

    registry = registry_with(plugins_dir)
    cycle = saved.read(file)
    other = load_conf(conf, registry) if conf is not None else None
    ran = run_again(cycle, registry, conf=other)
    changes = differences(cycle.decisions, ran.decisions)
    same = cycle.decisions == ran.decisions if other is None else not changes
    if output is Output.JSON:
        render.data({"same": same, "saved": cycle.decisions, "now": ran.decisions, "differences": changes})
    elif same:
        render.line(f"the same {counted(len(ran.decisions), 'decision')}", style="green")
    else:
        fare = "fares" if len(changes) == 1 else "fare"
        then = counted(len(cycle.decisions), "decision")
        render.heading(f"{counted(len(changes), 'pod')} {fare} differently", f"the saved cycle made {then}")
        columns = ["POD", "THEN", "NOW"]
        render.table(columns, [(c["pod"], c["then"], c["now"]) for c in changes], names=columns)
        if not changes:
            render.line("the same decisions in another order")
    if other is None and not same:
        raise typer.Exit(1)


def _conf(path: Path | None, compat: str | None, registry: Registry) -> SchedulerConf | None:
    """The conf to run with; None leaves it to the cluster's source."""
    return None if path is None and compat is None else load_conf(path, registry, compat)
