"""``pumice plugin``: make a plugin, list plugins and extension points, show one of them."""

from __future__ import annotations

import inspect
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pumice.cli import render
from pumice.cli.options import Output, OutputOption, PluginsDirOption, WrongUsage, lines_of, registry_with
from pumice.cli.render import LONGEST_WORD
from pumice.errors import InvalidInput, PluginLoadError
from pumice.words import counted

if TYPE_CHECKING:
    from pumice.framework.arguments import Argument
    from pumice.framework.docs import Who
    from pumice.framework.points import Point
    from pumice.framework.registry import PluginInfo, Registry

_FEW = 8


class PluginTask(StrEnum):
    """The effect of the command."""

    NEW = "new"
    LIST = "list"
    SHOW = "show"
    POINTS = "points"


def plugin(
    action: Annotated[PluginTask, typer.Argument(metavar="new|list|show|points", help="What to do.")],
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The plugin; of points, the extension point.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="The folder for `new`; else here.")
    ] = None,
    plugins_dir: PluginsDirOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a plugin with its test, list plugins, show one, or list the extension points.

    new NAME writes a folder with a working plugin, its test, a conf, a cluster and a scenario. list and show name the
    arguments that plugins read; the exit code is 1 if a plugin cannot be loaded. points lists the extension points,
    points NAME shows one.

    Examples:
        pumice plugin new spot-first --dir policies
        pumice plugin show binpack
    """
    as_data = output is Output.JSON
    if directory is not None and action is not PluginTask.NEW:
        raise WrongUsage("--dir: only with `plugin new`")
    if name is None and action in (PluginTask.NEW, PluginTask.SHOW):
        raise WrongUsage(f"plugin {action}: needs the NAME of a plugin")
    if action is PluginTask.NEW:
        _new(name or "", directory or Path(), as_data)
    elif action is PluginTask.POINTS:
        _points(name, as_data)
    elif action is PluginTask.LIST:
        if name is not None:
            raise WrongUsage(f"plugin list: takes no NAME; `pumice plugin show {name}` shows one")
        _list(_loaded(plugins_dir), as_data)
    else:
        _show(_loaded(plugins_dir), name or "", as_data)


def _new(name: str, directory: Path, as_data: bool) -> None:
    from pumice.cli import scaffold

    made = scaffold.new_plugin(name, directory)
    folder = directory / name
    if as_data:
        render.data({"folder": str(folder), "files": [str(path) for path in made]})
        return
    for path in made:
        render.line(str(path))
    render.note(f"Try it: pytest {folder}. Four places to run it: {folder / 'README.md'}")


# -- plugins --------------------------------------------------------------------------------------------------------
def _loaded(plugins_dir: Path | None) -> Registry:
    try:
        return registry_with(plugins_dir)
    except PluginLoadError as exc:
        for line in lines_of(exc):
            render.error(line)
        raise typer.Exit(1) from None


def _list(registry: Registry, as_data: bool) -> None:
    for line in registry.broken.values():
        render.warning(line)
    found = [registry.plugins[n] for n in sorted(registry.plugins)]
    if as_data:
        render.data([_plugin_data(info) for info in found])
        return
    render.table(
        ["PLUGIN", "WHAT IT DOES", "ARGUMENTS"],
        [(info.name, _first_sentence(info), _few_arguments(info)) for info in found],
        wrap=["WHAT IT DOES", "ARGUMENTS"],
        spare=["ARGUMENTS"],
        text="WHAT IT DOES",
    )


def _show(registry: Registry, name: str, as_data: bool) -> None:
    from pumice.scheduler.assembly import points_of

    info = registry.get(name)
    if info is None:
        from pumice.config.problems import nearest

        near = nearest(name, [*registry.plugins, *registry.aliases])
        hint = f"; did you mean {near!r}?" if near else "; `pumice plugin list` names them"
        raise InvalidInput(f"no plugin named {name!r}{hint}")
    points = points_of(info)
    if as_data:
        render.data({**_plugin_data(info), "points": points})
        return
    render.heading(info.name, info.origin)
    render.line()
    for text in _paragraphs(info.doc or "(no description)"):
        own = len(text) - len(text.lstrip())
        if text:
            render.paragraph(text.strip().replace("``", ""), indent=2 + own)
        else:
            render.line()
    if info.arguments:
        render.line()
    for one in info.arguments or ():
        default = f"; default {one.written_default}" if one.written_default else ""
        render.paragraph(f"{one.name}: {one.kind}{default}".replace("`", ""), indent=2)
        render.paragraph(one.doc.replace("`", ""), indent=6)
    render.line()
    listed = "several times" if info.repeatable else "once"
    silent = "nothing" if info.arguments == () else "nothing without arguments"
    render.pairs([("answers", ", ".join(points) or silent), ("arguments", _arguments(info)), ("listed", listed)])


def _plugin_data(info: PluginInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "doc": inspect.cleandoc(info.doc),
        "arguments": None if info.arguments is None else [_argument_data(one) for one in info.arguments],
        "repeatable": info.repeatable,
        "origin": info.origin,
    }


def _first_sentence(info: PluginInfo) -> str:
    text = " ".join(inspect.cleandoc(info.doc).partition("\n\n")[0].split())
    return text.partition(". ")[0].rstrip(".").replace("``", "")


def _paragraphs(doc: str) -> list[str]:
    """Return the paragraphs of a docstring, each as one line; list items and indented lines stay apart."""
    found = [""]
    for line in inspect.cleandoc(doc).splitlines():
        before = found[-1]
        item = line.startswith("- ") or (line.startswith("``") and before.endswith((".", ":")))
        if before and line and not item and not line.startswith(" ") and not before.startswith(" "):
            found[-1] = f"{before} {line}"
        elif before or line:
            found.append(line)
    return found[1:]


def _argument_data(one: Argument[Any]) -> dict[str, str]:
    return {"name": one.name, "default": one.written_default, "value": one.kind, "meaning": one.doc}


def _arguments(info: PluginInfo) -> str:
    if info.arguments is None:
        return "(not declared)"
    return counted(len(info.arguments), "argument") if info.arguments else "none"


def _few_arguments(info: PluginInfo) -> str:
    """Return the arguments, or how to see them if they are many or too long for a narrow table."""
    if info.arguments is None:
        return "(not declared)"
    read = [one.name for one in info.arguments]
    if len(read) <= _FEW and all(len(name) < LONGEST_WORD for name in read):
        return ", ".join(read) or "none"
    return f"{counted(len(read), 'argument')}: pumice plugin show {info.name}"


# -- points ---------------------------------------------------------------------------------------------------------
def _points(name: str | None, as_data: bool) -> None:
    from pumice.framework.points import POINTS
    from pumice.framework.registry import default_registry
    from pumice.scheduler.assembly import who

    users = who(default_registry())
    if name is not None:
        point = find(name)
        if as_data:
            render.data(_point_data(point, users))
        else:
            _show_point(point, users)
        return
    if as_data:
        render.data([_point_data(p, users) for p in POINTS.values()])
        return
    rows = [(p.name, question(p)) for p in POINTS.values()]
    render.table(["POINT", "WHAT IS ASKED"], rows, wrap=["WHAT IS ASKED"], text="WHAT IS ASKED")


def find(name: str) -> Point[..., Any, Any]:
    """Return the point of a name, written as here or as in Go.

    :raises InvalidInput: there is none; names a similar one.
    """
    from pumice.config.problems import nearest
    from pumice.framework.points import POINTS

    wanted = name.replace("_", "").replace("-", "").casefold().removesuffix("fn").removeprefix("add")
    for point in POINTS.values():
        if wanted in (point.name.replace("_", ""), point.go.casefold().removesuffix("fn")):
            return point
    if (carried := _carried(wanted)) is not None:
        return carried
    if told := _ELSEWHERE.get(wanted.removesuffix("verb")):
        raise InvalidInput(f"{name!r} is no extension point: {told}")
    near = nearest(name, POINTS)
    hint = f"; did you mean {near!r}?" if near else "; `pumice plugin points` lists them"
    raise InvalidInput(f"no extension point named {name!r}{hint}")


_GUIDE = "see docs/guides/plugin-development.md#"
_HANDLERS = f"placements are told to an event handler, {_GUIDE}event-handlers"
_INTERFACE = f"it is a part of every plugin, {_GUIDE}the-interface"
_ELSEWHERE = {
    **dict.fromkeys(("allocatefunc", "deallocatefunc", "eventhandler", "event", "allocate", "deallocate"), _HANDLERS),
    **dict.fromkeys(("onsessionopen", "onsessionclose", "name", "plugin"), _INTERFACE),
    **dict.fromkeys(
        ("new", "registerpluginbuilder", "pluginbuilder"), f"it makes a plugin known, {_GUIDE}a-plugin-in-five-steps"
    ),
    **dict.fromkeys(("arguments", "argument"), f"a class declares its arguments, {_GUIDE}arguments"),
    "bind": "it is a verb of the extender, see docs/extender.md",
}
"""Words of the guides that are no points -> the page about them."""


def _carried(verb: str) -> Point[..., Any, Any] | None:
    """Return the point that a verb of the extender carries, such as queueOverused."""
    from pumice.extender.protocol import VERBS
    from pumice.framework.points import POINTS

    names = (
        name for known, found in VERBS.items() if known.casefold() == verb.removesuffix("verb") for name in found.points
    )
    return next((POINTS[name] for name in names if name in POINTS), None)


def question(point: Point[..., Any, Any]) -> str:
    """Return what a point asks: the first sentence of its contract."""
    return re.split(r"(?<=[?.])\s", point.contract, maxsplit=1)[0]


def _point_data(point: Point[..., Any, Any], users: Who) -> dict[str, Any]:
    from pumice.framework.point_examples import example_of

    return {
        "name": point.name,
        "go": point.go,
        "register": point.register,
        "signature": point.signature,
        "flag": point.flag,
        "fold": point.rule.text,
        "nobody": point.without,
        "failure": point.on_failure.value,
        "asked": list(users.asks.get(point.name, ())),
        "contract": point.contract,
        "origin": point.origin,
        "example": example_of(point.name),
    }


def _show_point(point: Point[..., Any, Any], users: Who) -> None:
    from pumice.framework.point_examples import example_of

    render.heading(point.name, f"{point.go}, from {point.origin}")
    render.line()
    render.paragraph(point.contract, indent=2)
    render.line()
    render.pairs(
        [
            ("callback", point.signature),
            ("register", f"ssn.{point.register}(name, fn), or a method named {point.name}"),
            ("flag", point.flag or "none: always on"),
            ("combine", point.rule.text),
            ("no answer", point.without),
            ("if it fails", point.on_failure.value),
            ("asked by", users.asked(point.name)),
            ("answered by", users.answered(point.name)),
        ],
    )
    render.line()
    for line in example_of(point.name).splitlines():
        render.line(f"    {line}".rstrip())
