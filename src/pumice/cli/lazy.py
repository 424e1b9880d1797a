"""Commands that are loaded when they are called: names and summaries are known before, the rest is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from itertools import groupby
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperCommand, TyperGroup

from pumice.cli.commands import Commands

SUMMARY: Final = 63
"""Characters of a summary that 80 columns have room for."""


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command, or a group of commands, and where it is."""

    name: str
    where: str
    """``module:attribute``: a function, or a Typer of several commands."""
    summary: str
    """What it does, in the list of commands: at most `SUMMARY` characters."""
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
        """What lists of commands show of one."""
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
