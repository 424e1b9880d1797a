"""``pumice plugins`` and ``pumice plugin new``."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pumice.cli import render, scaffold
from pumice.cli.commands import Commands
from pumice.cli.layout import LONGEST_WORD
from pumice.cli.options import Output, OutputOption, PluginsDirOption, lines_of, registry_with
from pumice.errors import InvalidInput, PluginLoadError
from pumice.words import counted

if TYPE_CHECKING:
    from pumice.framework.registry import PluginInfo

_FEW = 8
app = Commands(help="Write plugins.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Write plugins."""


def plugins(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show one plugin.")] = None,
    plugins_dir: PluginsDirOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the plugins and the arguments they read, or show one. Exit code 1 if some cannot be loaded."""
    from pumice.scheduler.assembly import points_of

    try:
        registry = registry_with(plugins_dir)
    except PluginLoadError as exc:
        for line in lines_of(exc):
            render.error(line)
        raise typer.Exit(1) from None
    if name is None:
        for line in registry.broken.values():
            render.warning(line)
        found = [registry.plugins[n] for n in sorted(registry.plugins)]
        if output is Output.JSON:
            render.data([_as_data(info) for info in found])
            return
        render.table(
            ["PLUGIN", "WHAT IT DOES", "ARGUMENTS"],
            [(info.name, _first_sentence(info), _few_arguments(info)) for info in found],
            wrap=["WHAT IT DOES", "ARGUMENTS"],
            spare=["ARGUMENTS"],
            text="WHAT IT DOES",
        )
        return
    info = registry.get(name)
    if info is None:
        from pumice.config.problems import nearest

        near = nearest(name, [*registry.plugins, *registry.aliases])
        hint = f"; did you mean {near!r}?" if near else "; `pumice plugins` lists them"
        raise InvalidInput(f"plugin {name!r}: there is none of that name{hint}")
    points = points_of(info)
    if output is Output.JSON:
        render.data({**_as_data(info), "points": points})
        return
    render.heading(info.name, info.origin)
    render.line()
    for text in _paragraphs(info.doc or "(it says nothing of itself)"):
        own = len(text) - len(text.lstrip())
        if text:
            render.paragraph(text.strip().replace("``", ""), indent=2 + own)
        else:
            render.line()
    render.line()
    listed = "several times" if info.repeatable else "once"
    silent = "nothing" if info.arguments_read == () else "nothing without arguments"
    render.pairs([("answers", ", ".join(points) or silent), ("arguments", _arguments(info)), ("listed", listed)])


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The plugin's name, such as spot-first.")],
    directory: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where its folder is made.")] = Path(),
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a working plugin with its test, in a folder of its own."""
    made = scaffold.new_plugin(name, directory)
    folder = directory / name
    if output is Output.JSON:
        render.data({"folder": str(folder), "files": [str(path) for path in made]})
        return
    for path in made:
        render.line(str(path))
    render.note(f"Try it: pytest {folder}. Four places to run it: {folder / 'README.md'}")


def _as_data(info: PluginInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "doc": inspect.cleandoc(info.doc),
        "arguments": list(info.arguments_read) if info.arguments_read is not None else None,
        "repeatable": info.repeatable,
        "origin": info.origin,
    }


def _first_sentence(info: PluginInfo) -> str:
    text = " ".join(inspect.cleandoc(info.doc).partition("\n\n")[0].split())
    return text.partition(". ")[0].rstrip(".").replace("``", "")


def _paragraphs(doc: str) -> list[str]:
    """The paragraphs of a docstring, each as one line; an item of a list, and what is indented, has its own."""
    found = [""]
    for line in inspect.cleandoc(doc).splitlines():
        before = found[-1]
        item = line.startswith("- ") or (line.startswith("``") and before.endswith((".", ":")))
        if before and line and not item and not line.startswith(" ") and not before.startswith(" "):
            found[-1] = f"{before} {line}"
        elif before or line:
            found.append(line)
    return found[1:]


def _arguments(info: PluginInfo) -> str:
    if info.arguments_read is None:
        return "(does not say)"
    return ", ".join(info.arguments_read) or "none"


def _few_arguments(info: PluginInfo) -> str:
    """The arguments; where they are many, or one has no room in a narrow table, how to see them."""
    read = info.arguments_read or ()
    if len(read) <= _FEW and all(len(name) < LONGEST_WORD for name in read):
        return _arguments(info)
    return f"{counted(len(read), 'argument')}: pumice plugins {info.name}"
