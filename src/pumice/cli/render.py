"""Everything that is printed: data on stdout, the rest on stderr. The only module that imports rich."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import msgspec
from rich import box
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 240
"""Columns when nobody looks at the output: wide enough that a table is never broken."""
TEXT_WIDTH = 120
"""The most columns that running text takes."""


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def data(value: Any) -> None:
    """Print a value as JSON, for programs."""
    sys.stdout.write(json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False) + "\n")


def line(text: str = "", style: str = "") -> None:
    """Print one line of data."""
    _console(sys.stdout).print(Text(text, style=style), soft_wrap=True)


def paragraph(text: str, indent: int = 0, lead: str = "") -> None:
    """Print text, wrapped to the terminal, behind an indent; *lead* stands before its first line."""
    console = _console(sys.stdout)
    width = max(20, min(console.width, TEXT_WIDTH) - indent - len(lead))
    for number, part in enumerate(Text(text).wrap(console, width)):
        part.rstrip()
        before = lead if number == 0 else " " * len(lead)
        console.print(Text(" " * indent + before) + part, soft_wrap=True)


def heading(text: str, aside: str = "") -> None:
    """Print a heading with a dimmer remark behind it."""
    _console(sys.stdout).print(Text.assemble((text, "bold"), (f"  {aside}" if aside else "", "dim")), soft_wrap=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, wrap: Sequence[str] = ()) -> None:
    """Print a table. Numbers stand to the right.

    Where the terminal is too narrow, cells of the columns in *wrap* are broken into lines; without such columns the
    table keeps its width. Nothing is ever cut off.
    """
    body = [["" if cell is None else cell for cell in row] for row in rows]
    out = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for at, name in enumerate(columns):
        numeric = bool(body) and all(isinstance(row[at], (int, float)) or row[at] == "" for row in body)
        out.add_column(name, justify="right" if numeric else "left", no_wrap=name not in wrap, overflow="fold")
    for row in body:
        out.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    _print(out, wide=not wrap)


def pairs(rows: Iterable[tuple[str, Any]]) -> None:
    """Print names with their values, one per line."""
    out = Table.grid(padding=(0, 3, 0, 0))
    out.add_column(style="bold", no_wrap=True)
    out.add_column(overflow="fold")
    for name, value in rows:
        out.add_row(Text(name), value if isinstance(value, Text) else Text(str(value)))
    _print(out)


def _print(out: Table, wide: bool = False) -> None:
    """Print a table without blanks at the ends of lines."""
    console = _console(sys.stdout)
    if wide:
        console.width = max(console.width, PIPE_WIDTH)
    with console.capture() as captured:
        console.print(out)
    sys.stdout.write("".join(f"{text.rstrip()}\n" for text in captured.get().splitlines()))


def show(what: RenderableType) -> None:
    """Print anything that rich can print, without blanks at the ends of lines."""
    console = _console(sys.stdout)
    with console.capture() as captured:
        console.print(what)
    sys.stdout.write("".join(f"{text.rstrip()}\n" for text in captured.get().splitlines()))


def styled(text: str, style: str) -> Text:
    """Text for a cell in a colour (shown on terminals only)."""
    return Text(text, style=style)


def note(text: str) -> None:
    """Say something beside the data."""
    _console(sys.stderr).print(Text(text, style="dim"), soft_wrap=True)


def warning(text: str) -> None:
    """Say that something is doubtful."""
    _console(sys.stderr).print(Text.assemble(("warning: ", "bold yellow"), text), soft_wrap=True)


def error(text: str) -> None:
    """Say in one line what failed."""
    _console(sys.stderr).print(Text.assemble(("error: ", "bold red"), text), soft_wrap=True)


class Bar:
    """A progress bar on stderr, from its first update until it is closed. Only on terminals."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._console = Console(stderr=True)
        self._progress: Progress | None = None

    @property
    def visible(self) -> bool:
        """Whether anybody would see it."""
        return self._console.is_terminal

    def update(self, done: float, said: str) -> None:
        """Show how much is done (0 to 1), and a remark."""
        if self._progress is None:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"))
            self._progress = Progress(*columns, console=self._console, transient=True)
            self._progress.start()
            self._progress.add_task(self._name, total=1.0, said="")
        self._progress.update(self._progress.task_ids[0], completed=done, said=said)

    def close(self) -> None:
        """Take it off the screen."""
        if self._progress is not None:
            self._progress.stop()
