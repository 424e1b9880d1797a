"""``pumice cycle``: one cycle over manifests or a saved cycle."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from pumice.cli import render
from pumice.cli.options import (
    ConfOption,
    Output,
    OutputOption,
    PathsArgument,
    PluginsDirOption,
    load_conf,
    registry_with,
)
from pumice.words import counted

EXPLAINED = 50
"""Pending jobs that are explained on a terminal."""


def cycle(
    paths: PathsArgument,
    conf: ConfOption = None,
    plugins_dir: PluginsDirOption = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Save the cluster as a cycle that can be run again.")
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Rename jobs, users, queues and nodes in the file that is written.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run one cycle: which pods are placed where, and why the others wait. Nothing is carried out.

    A saved cycle must decide as it did when it was saved, else the exit code is 1. With --conf, the
    pods that fare differently are listed instead.

    Examples:
        pumice cycle examples/demo --conf examples/demo/scheduler.conf
        pumice cycle cycle-17.pumice --conf candidate.conf
    """
    from pumice import saved
    from pumice.cli import text
    from pumice.cli.target import cycle_of

    registry = registry_with(plugins_dir)
    other = None if conf is None else load_conf(conf, registry)
    begun = cycle_of(paths, other, registry)
    before = begun.saved.decisions if begun.saved is not None else None
    file = begun.record() if save is not None else None
    waiting = text.Waiting(None if output is Output.JSON else EXPLAINED)
    ran = begun.run(waiting.inspect)
    changes = [] if before is None else differences(before, ran.decisions)
    same = before is None or (before == ran.decisions if other is None else not changes)
    if output is Output.JSON:
        again = {} if before is None else {"same": same, "saved": before, "now": ran.decisions, "differences": changes}
        render.data({**text.as_data(ran.report, waiting, begun.warnings), **again})
    else:
        text.show(ran.state, ran.report, waiting)
        if before is not None:
            _show_differences(before, changes, same)
    if save is not None and file is not None:
        from pumice.scheduler.recording import redacted_and_tried

        file.decisions = ran.decisions
        for entry in file.left_out:
            render.warning(f"ssn.memory of {entry} is not plain data and was not saved")
        if redact:
            file, replays = redacted_and_tried(file, registry)
            if not replays:
                render.warning("without names, a replay decides otherwise; keep the file with names for that")
        saved.write(save, file, f"pumice {version('pumice')}")
        render.note(f"saved to {save}")
    if not same and other is None:
        raise typer.Exit(1)


def differences(then: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the pods for which two lists of decisions say different things, by name."""
    before, after = _by_pod(then), _by_pod(now)
    return [
        {"pod": pod, "then": before.get(pod, "waits"), "now": after.get(pod, "waits")}
        for pod in sorted(before.keys() | after.keys())
        if before.get(pod) != after.get(pod)
    ]


def _by_pod(decisions: list[dict[str, Any]]) -> dict[str, str]:
    words = {"bind": "on {node}", "evict": "evicted from {node}", "nominate": "room is made on {node}"}
    return {d["pod"]: words[d["do"]].format(node=d["node"]) for d in decisions}


def _show_differences(before: list[dict[str, Any]], changes: list[dict[str, str]], same: bool) -> None:
    render.line()
    if same:
        render.line(f"Same as saved: {counted(len(before), 'decision')}", style="bold green")
        return
    if not changes:
        render.line("The same decisions as saved, in another order", style="bold yellow")
        return
    render.line(
        f"Differs from the saved cycle: {counted(len(changes), 'pod')} (it made {counted(len(before), 'decision')})",
        style="bold yellow",
    )
    columns = ["POD", "THEN", "NOW"]
    render.table(columns, [(c["pod"], c["then"], c["now"]) for c in changes], names=columns)
