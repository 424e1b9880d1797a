"""``pumice conf``: check a scheduler conf, show what it does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pumice.cli import render
from pumice.cli.commands import Commands
from pumice.cli.options import Output, OutputOption, PluginsDirOption, WrongUsage, lines_of, registry_with
from pumice.errors import PluginLoadError, read_text
from pumice.words import counted

if TYPE_CHECKING:
    from pumice.config import LoadedConf, SchedulerConf
    from pumice.config.rules import Finding
    from pumice.framework.registry import Registry

app = Commands(help="Check a scheduler conf, or show what it does.", no_args_is_help=True)
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The scheduler conf (YAML).")]
OptionalFile = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The scheduler conf; else the default.")]


@app.command()
def check(
    file: FileArgument,
    reader: Annotated[
        str, typer.Option("--target", metavar="volcano", help="Name what a real Volcano would do with FILE instead.")
    ] = "",
    plugins_dir: PluginsDirOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show errors, settings without effect and known traps of FILE.

    The exit code is 1 if there is an error or a setting without effect.

    Your own plugins also play one cycle on a made-up cluster; what they raise there is a warning.

    Examples:
        pumice conf check volcano-scheduler.conf --plugins-dir plugins
        pumice conf check volcano-scheduler.conf --target volcano
    """
    from pumice.config import InvalidConf, Problem, load
    from pumice.config.rules import Severity
    from pumice.scheduler.assembly import BROKEN_PLUGIN, assemble, catalogue_of
    from pumice.scheduler.rehearsal import rehearse

    if reader not in ("", "volcano"):
        raise WrongUsage(f"--target {reader!r}: must be volcano")
    as_data = output is Output.JSON
    raised: list[str] = []
    try:
        registry = registry_with(plugins_dir)
        loaded = load(read_text(file), catalogue_of(registry), str(file), strict=not reader)
        raised = [str(p) for p in loaded.warnings] if reader else rehearse(assemble(loaded.conf, registry))
    except InvalidConf as exc:
        problems = exc.problems
    except PluginLoadError as exc:
        problems = tuple(Problem(BROKEN_PLUGIN, line, "", None, "") for line in lines_of(exc))
    else:
        findings = _findings(loaded.conf, registry, reader)
        good = not any(finding.severity is Severity.ERROR for finding in findings)
        if as_data:
            conf = {"warnings": raised, "digest": loaded.conf.digest, "findings": findings}
            render.data({"ok": good, "problems": [], **conf})
        else:
            _show_findings(file, loaded, raised, findings, good)
        if not good:
            raise typer.Exit(1)
        return
    if as_data:
        told = [{**_problem(p), "message": p.message} for p in problems]
        render.data({"ok": False, "problems": told, "warnings": [], "digest": None, "findings": []})
    else:
        for problem in problems:
            render.line(str(problem) if problem.source else problem.message)
    raise typer.Exit(1)


@app.command()
def explain(
    file: OptionalFile = None,
    point: Annotated[
        str | None, typer.Option("--point", metavar="NAME", help="Only this extension point: predicate, queueOrder, …")
    ] = None,
    plugins_dir: PluginsDirOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show which plugins run at each extension point, in order.

    Examples:
        pumice conf explain
        pumice conf explain volcano-scheduler.conf --point job_order
    """
    from pumice.config.explain import explain as explain_conf
    from pumice.config.explain import render as chains_as_text
    from pumice.scheduler.assembly import catalogue_of

    wanted = ""
    if point is not None:
        from pumice.cli.plugin import find

        wanted = find(point).name
    loaded, registry = _load(file, plugins_dir)
    chains = explain_conf(loaded.conf, catalogue_of(registry, hooks=True, conf=loaded.conf).hooks)
    if wanted:
        chains = [chain for chain in chains if chain.hook == wanted]
    if output is Output.JSON:
        render.data(chains)
        return
    for text in chains_as_text(chains, loaded.conf.dialect).splitlines():
        if text.startswith("  "):
            render.paragraph(text.strip(), indent=2)
        else:
            render.line(text, style="dim" if ": " in text else "bold")


def _findings(conf: SchedulerConf, registry: Registry, reader: str) -> list[Finding]:
    from pumice.config.for_volcano import lint_for_volcano
    from pumice.config.lint import lint
    from pumice.scheduler.assembly import catalogue_of

    catalogue = catalogue_of(registry, hooks=True, conf=conf)
    return list(lint_for_volcano(conf, catalogue) if reader else lint(conf, catalogue))


def _show_findings(file: Path, loaded: LoadedConf, raised: list[str], findings: list[Finding], good: bool) -> None:
    from pumice.config.rules import Severity

    for text in raised:
        render.warning(text)
    colours = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: ""}
    for finding in findings:
        render.line(f"{file}:{finding}", style=colours[finding.severity])
    conf = loaded.conf
    plugins = counted(sum(1 for _ in conf.listed()), "plugin")
    size = f"{counted(len(conf.actions), 'action')}, {plugins} in {counted(len(conf.tiers), 'tier')}"
    if not findings:
        render.line(f"{file}: OK: {size}", style="green")
    elif good:
        render.line(f"{file}: OK, but see above: {size}", style="yellow")


def _load(file: Path | None, plugins_dir: Path | None) -> tuple[LoadedConf, Registry]:
    from pumice.config import DEFAULT_CONF, load
    from pumice.scheduler.assembly import catalogue_of

    registry = registry_with(plugins_dir)
    text, source = (DEFAULT_CONF, "<default>") if file is None else (read_text(file), str(file))
    loaded = load(text, catalogue_of(registry), source)
    for problem in loaded.warnings:
        render.warning(str(problem))
    return loaded, registry


def _problem(problem: object) -> dict[str, Any]:
    position = getattr(problem, "position", None)
    return {
        "code": getattr(problem, "code", ""),
        "path": getattr(problem, "path", ""),
        "line": position.line if position else None,
        "column": position.column if position else None,
        "nearest": getattr(problem, "nearest", None),
    }
