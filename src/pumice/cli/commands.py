"""How the commands are made: options that belong together, commands loaded when they are called, extras, the log."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache, wraps
from importlib import import_module
from importlib.metadata import requires
from importlib.util import find_spec
from itertools import groupby
from typing import Any, ClassVar, Final, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from pumice.errors import without_passwords
from pumice.words import visible


class LogLines(logging.Formatter):
    """Formats records; signs that a terminal would obey are written out, passwords of URLs left out."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(without_passwords(super().format(record)))


_EXTRA = re.compile(r"([\w.-]+).*;.*\bextra == [\"'](\w+)[\"']")


def extras_with(module: str) -> list[str]:
    """The extras of which a module's distribution is a part; none if it belongs to no extra."""
    wanted = module.partition(".")[0].casefold()
    found = [match.groups() for line in requires("pumice") or () if (match := _EXTRA.match(line))]
    return [extra for name, extra in found if name.replace("-", "_").casefold() == wanted]


def needs(module: str) -> None:
    """Before anything else is done: the command cannot do without a module.

    :raises ModuleNotFoundError: it is not there; the command then says which extra to install.
    """
    if find_spec(module) is None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)


Function = TypeVar("Function", bound=Callable[..., None])


class PumiceCommand(TyperCommand):
    """A command in whose usage line a name is what must be given, and a name in brackets what may be.

    Its help ends with the lines below ``Examples:`` in the function's docstring.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        text, _, examples = inspect.cleandoc(settings.get("help") or "").partition("\n\nExamples:\n")
        super().__init__(*args, **{**settings, "help": text})
        self.examples = tuple(line.strip() for line in examples.splitlines())

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class Commands(typer.Typer):
    """Commands of this kind."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        settings["cls"] = settings.get("cls") or PumiceCommand
        register = super().command(name, **settings)

        def registered(function: Function) -> Function:
            register(spread(function))
            return function

        return registered


def spread(function: Callable[..., None]) -> Callable[..., None]:
    """The function as a command sees it: in the place of a parameter that is a dataclass of options, its fields.

    The fields are annotated as parameters of a command are.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    if not groups:
        return function
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        group = groups.get(parameter.name)
        own = parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        parameters += [own] if group is None else _fields(group)

    @wraps(function)
    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        function(**given)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def _fields(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


SUMMARY: Final = 63
"""Characters of a summary that 80 columns have room for."""


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command, or a group of commands, and where it is."""

    name: str
    where: str
    """``module:attribute``: a function, or a Typer of several commands."""
    summary: str
    """Its summary in the list of commands: at most `SUMMARY` characters."""
    cls: str = ""
    """The attribute with the class of the command, if it has one of its own."""
    section: str = ""
    """Above which it stands in the list of commands."""

    def load(self) -> Any:
        """The command itself, made once."""
        return _made(self)


def section(title: str, *entries: CommandEntry) -> tuple[CommandEntry, ...]:
    """Commands that are listed together."""
    return tuple(replace(entry, section=title) for entry in entries)


@cache
def _made(entry: CommandEntry) -> Any:
    module_name, _, attribute = entry.where.partition(":")
    module = import_module(module_name)
    found = getattr(module, attribute)
    around = Commands(add_completion=False, rich_markup_mode=None)
    around.callback()(lambda: None)
    if isinstance(found, typer.Typer):
        around.add_typer(found, name=entry.name)
    else:
        around.command(entry.name, cls=getattr(module, entry.cls) if entry.cls else None)(found)
    return typer.main.get_command(around).commands[entry.name]  # type: ignore[attr-defined]


class LazyCommands(Mapping[str, Any]):
    """The commands of a group by name. Looking at one loads it; counting and listing names do not."""

    def __init__(self, entries: Mapping[str, CommandEntry]) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> Any:
        return self._entries[name].load()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class LazyGroup(TyperGroup):
    """A group that loads the one command which is called. Help and completion need only names and summaries."""

    entries: ClassVar[dict[str, CommandEntry]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = LazyCommands(self.entries)  # type: ignore[assignment]  # nobody adds a command later

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The lists of commands show this of a command."""
        entry = self.entries.get(cmd_name)
        return TyperCommand(entry.name, help=entry.summary, short_help=entry.summary) if entry else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands, section by section, the summaries in one column."""
        width = max(map(len, self.entries))
        for title, entries in groupby(self.entries.values(), lambda entry: entry.section):
            with formatter.section(title):
                formatter.write_dl([(entry.name.ljust(width), entry.summary) for entry in entries])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, self.commands[name] if name else None, rest
