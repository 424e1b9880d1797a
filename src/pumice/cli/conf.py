"""``pumice conf``: check, explain and lint a scheduler conf."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pumice.cli import render
from pumice.cli.commands import Commands
from pumice.cli.options import Output, OutputOption, PluginsDirOption, lines_of, registry_with
from pumice.cli.usage import WrongUsage
from pumice.errors import PluginLoadError
from pumice.texts import read_text
from pumice.words import counted

if TYPE_CHECKING:
    from pumice.config import LoadedConf
    from pumice.framework.registry import Registry

app = Commands(help="Check, explain and lint a scheduler conf.", no_args_is_help=True)
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The scheduler conf (YAML).")]
OptionalFile = Annotated[Path | None, typer.Argument(metavar="FILE", help="The scheduler conf; else the default one.")]


@app.command()
def check(
    file: FileArgument,
    plugins_dir: PluginsDirOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Say everything that is wrong with FILE or has no effect. Exit code 1 if there is anything.

    Plugins of your own also play one cycle on a made-up cluster; what they raise there is a warning.
    """
    from pumice.config import InvalidConf, Problem, load
    from pumice.scheduler.assembly import BROKEN_PLUGIN, assemble, catalogue_of
    from pumice.scheduler.rehearsal import rehearse

    try:
        registry = registry_with(plugins_dir)
        loaded = load(read_text(file), catalogue_of(registry), str(file), strict=True)
        raised = rehearse(assemble(loaded.conf, registry))
    except InvalidConf as exc:
        problems = exc.problems
    except PluginLoadError as exc:
        problems = tuple(Problem(BROKEN_PLUGIN, line, "", None, "") for line in lines_of(exc))
    else:
        if output is Output.JSON:
            render.data({"ok": True, "problems": [], "warnings": raised, "digest": loaded.conf.digest})
        else:
            for text in raised:
                render.warning(text)
            render.line(f"{file}: good ({_size(loaded)})", style="green")
        return
    if output is Output.JSON:
        render.data({"ok": False, "problems": [{**_problem(p), "message": p.message} for p in problems]})
    else:
        for problem in problems:
            render.line(str(problem) if problem.source else problem.message)
    raise typer.Exit(1)


@app.command()
def explain(
    file: OptionalFile = None,
    plugins_dir: PluginsDirOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show which plugins really run at each extension point, in order."""
    from pumice.config.explain import explain as explain_conf
    from pumice.config.explain import render as chains_as_text
    from pumice.scheduler.assembly import catalogue_of

    loaded, registry = _load(file, plugins_dir)
    chains = explain_conf(loaded.conf, catalogue_of(registry, hooks=True, conf=loaded.conf).hooks)
    if output is Output.JSON:
        render.data(chains)
        return
    for text in chains_as_text(chains).splitlines():
        if text.startswith("  "):
            render.paragraph(text.strip(), indent=2)
        else:
            render.line(text, style="bold" if " (" in text else "dim")


@app.command()
def lint(
    file: FileArgument,
    reader: Annotated[
        str, typer.Option("--for", metavar="volcano", help="What a real Volcano would make of FILE instead.")
    ] = "",
    plugins_dir: PluginsDirOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Name the known traps that FILE steps into. Exit code 1 if one of them is an error."""
    from pumice.config.findings import Severity
    from pumice.config.for_volcano import lint_for_volcano
    from pumice.config.lint import lint as lint_conf
    from pumice.scheduler.assembly import catalogue_of

    if reader not in ("", "volcano"):
        raise WrongUsage(f"--for {reader!r}: must be volcano")
    loaded, registry = _load(file, plugins_dir)
    catalogue = catalogue_of(registry, hooks=True, conf=loaded.conf)
    findings = lint_for_volcano(loaded.conf, catalogue) if reader else lint_conf(loaded.conf, catalogue)
    if output is Output.JSON:
        render.data(findings)
    else:
        colours = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: ""}
        for finding in findings:
            render.line(f"{file}:{finding}", style=colours[finding.severity])
        if not findings:
            render.line(f"{file}: no known traps", style="green")
    if any(f.severity is Severity.ERROR for f in findings):
        raise typer.Exit(1)


def _load(file: Path | None, plugins_dir: Path | None) -> tuple[LoadedConf, Registry]:
    from pumice.config import DEFAULT_CONF, load
    from pumice.scheduler.assembly import catalogue_of

    registry = registry_with(plugins_dir)
    text, source = (DEFAULT_CONF, "<default>") if file is None else (read_text(file), str(file))
    loaded = load(text, catalogue_of(registry), source)
    for problem in loaded.warnings:
        render.warning(str(problem))
    return loaded, registry


def _problem(problem: object) -> dict[str, object]:
    position = getattr(problem, "position", None)
    return {
        "code": getattr(problem, "code", ""),
        "path": getattr(problem, "path", ""),
        "line": position.line if position else None,
        "column": position.column if position else None,
        "nearest": getattr(problem, "nearest", None),
    }


def _size(loaded: LoadedConf) -> str:
    conf = loaded.conf
    plugins = counted(sum(1 for _ in conf.listed()), "plugin")
    return f"{counted(len(conf.actions), 'action')}, {plugins} in {counted(len(conf.tiers), 'tier')}"
