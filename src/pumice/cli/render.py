"""Everything that is printed: data on stdout, the rest on stderr. The only module that imports rich.

It does so when something is printed: help and completion do without.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO

from pumice.cli.options import stdout
from pumice.errors import without_passwords
from pumice.words import OBEYED, distinct, visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.progress import Progress
    from rich.segment import Segment
    from rich.table import Table


SHORTEST_NAME: Final = 16
"""Characters of a name that are always left."""
LONGEST_WORD: Final = 28
"""A word that is longer may be broken: an address, a piece of JSON."""
READABLE: Final = 32
"""Characters of running text in a line, before a column that can be spared goes."""
SAYS_NOTHING: Final = frozenset(("", "0", "-", "–"))
"""Cells without content, for which a column can be left out."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns are shown, how wide each is, and the blanks between them."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]
    gap: int


def fit(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    wrap: Collection[str] = (),
    names: Collection[str] = (),
    spare: Sequence[str] = (),
    text: str = "",
) -> Layout:
    """Fit a table into *width* columns where that can be done.

    First blanks become fewer. Then columns in *spare* are left out: those that say nothing, then the others, the
    first one first. Cells of *wrap* are broken between words, and *names* are cut, before a column that says
    something is left out; but running *text* keeps lines that can be read.
    """
    cells = [[titles[at], *(row[at] for row in rows)] for at in range(len(titles))]
    whole = [max(len(cell) for cell in column) for column in cells]
    least = [_least(titles[at], cells[at], whole[at], wrap, names) for at in range(len(titles))]
    eased = [max(least[at], min(whole[at], READABLE)) if titles[at] == text else least[at] for at in range(len(titles))]
    shown = list(range(len(titles)))
    if _total(whole, shown, 3) <= width:
        return Layout(tuple(shown), tuple(whole), 3)
    idle = [titles.index(name) for name in spare if SAYS_NOTHING.issuperset(cells[titles.index(name)][1:])]
    others = [at for name in spare if (at := titles.index(name)) not in idle]
    for at in idle:
        if _total(whole, shown, 2) > width:
            shown.remove(at)
    for at in others:
        if _total(eased, shown, 2) > width:
            shown.remove(at)
    return Layout(tuple(shown), _shrunk(whole, least, shown, width), 2)


def _least(title: str, cells: Sequence[str], whole: int, wrap: Collection[str], names: Collection[str]) -> int:
    if title in names:
        return min(whole, max(SHORTEST_NAME, len(title)))
    if title in wrap:
        longest = max(len(word) for cell in cells for word in cell.split() or [""])
        return min(whole, longest, max(LONGEST_WORD, len(title)))
    return whole


def _total(widths: Sequence[int], shown: Sequence[int], gap: int) -> int:
    return sum(widths[at] for at in shown) + gap * (len(shown) - 1)


def _shrunk(whole: Sequence[int], least: Sequence[int], shown: Sequence[int], width: int) -> tuple[int, ...]:
    """The widths of the columns that are shown; the widest ones give way first."""
    widths = {at: whole[at] for at in shown}
    over = _total(whole, shown, 2) - width
    while over > 0:
        giving = [at for at in shown if widths[at] > least[at]]
        if not giving:
            break
        widths[max(giving, key=lambda at: widths[at])] -= 1
        over -= 1
    return tuple(widths[at] for at in shown)


PIPE_WIDTH = 240
"""Columns when nobody looks at the output: wide enough that a table is never broken."""
TEXT_WIDTH = 120
"""The most columns that running text takes."""
_IN_JSON: Final = {code: f"\\u{code:04x}" for code in OBEYED if code >= 0x7F}
"""Characters that JSON may hold as they are, and some terminals obey."""


@cache
def _consoles() -> type[Console]:
    """Consoles that write no sign which a terminal would obey, but their own: names and texts are from anybody."""
    from rich.console import Console

    class Harmless(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                harmless = segment.text.isprintable() or segment.control
                yield segment if harmless else segment._replace(text=visible(segment.text))

    return Harmless


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else PIPE_WIDTH
    return _consoles()(file=stream, width=width, highlight=False, markup=False, emoji=False)


def _say(stream: TextIO, *parts: tuple[str, str]) -> None:
    """Print one line of texts with their styles; a terminal breaks it between words."""
    from rich.text import Text

    _console(stream).print(Text.assemble(*parts), soft_wrap=not stream.isatty())


def data(value: Any) -> None:
    """Print a value as JSON, for programs."""
    import msgspec

    text = json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False)
    stdout().write(text.translate(_IN_JSON) + "\n")


def yaml(value: Any) -> None:
    """Print a value as YAML, for programs and people."""
    import msgspec
    from yaml import safe_dump

    text = safe_dump(msgspec.to_builtins(value), sort_keys=False, allow_unicode=True)
    stdout().write(text.translate(_IN_JSON))


def clear() -> None:
    """Clear a terminal; between two looks elsewhere, print an empty line."""
    stdout().write("\x1b[H\x1b[2J" if stdout().isatty() else "\n")


def line(text: str = "", style: str = "") -> None:
    """Print one line of data."""
    _say(stdout(), (text, style))


def paragraph(text: str, indent: int = 0, lead: str = "") -> None:
    """Print text, wrapped to the terminal, behind an indent; *lead* stands before its first line."""
    from rich.text import Text

    console = _console(stdout())
    width = max(20, min(console.width, TEXT_WIDTH) - indent - len(lead))
    for number, part in enumerate(Text(text).wrap(console, width)):
        part.rstrip()
        before = lead if number == 0 else " " * len(lead)
        console.print(Text(" " * indent + before) + part, soft_wrap=True)


def heading(text: str, aside: str = "") -> None:
    """Print a heading with a dimmer remark behind it."""
    _say(stdout(), (text, "bold"), (f"  {aside}" if aside else "", "dim"))


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    wrap: Sequence[str] = (),
    names: Sequence[str] = (),
    spare: Sequence[str] = (),
    text: str = "",
) -> None:
    """Print a table. Numbers stand to the right; *text* is the column of running text, if there is one.

    In a narrow terminal, columns in *spare* are left out (empty ones first; other ones with a note). *names* are cut so
    that they still differ, and cells in *wrap* are broken between words. A pipe gets everything.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    body = [["" if cell is None else cell for cell in row] for row in rows]
    texts = [[cell.plain if isinstance(cell, Text) else str(cell) for cell in row] for row in body]
    width = _console(stdout()).width if stdout().isatty() else PIPE_WIDTH
    fitted = fit(columns, texts, width, wrap=wrap, names=names, text=text, spare=spare if stdout().isatty() else ())
    padding = (0, 1) if fitted.gap == 3 else (0, 1, 0, 0)
    out = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False, padding=padding)
    for at, wide in zip(fitted.columns, fitted.widths, strict=True):
        numeric = bool(body) and all(isinstance(row[at], (int, float)) or row[at] == "" for row in body)
        broken = columns[at] in wrap
        justify: Literal["left", "right"] = "right" if numeric else "left"
        out.add_column(columns[at], justify=justify, width=wide, no_wrap=not broken, overflow="fold")
        if columns[at] in names:
            labels = distinct((plain[at] for plain in texts), wide)
            for row, plain in zip(body, texts, strict=True):
                row[at] = labels[plain[at]]
    for row in body:
        shown = (row[at] for at in fitted.columns)
        out.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in shown))
    _print(out, wide=sum(fitted.widths) + 3 * len(columns))
    missing = [name for at, name in enumerate(columns) if at not in fitted.columns and _says_something(texts, at)]
    if missing:
        note(f"hidden at this width: {', '.join(missing)} (widen, or -o json)")


def _says_something(texts: Sequence[Sequence[str]], at: int) -> bool:
    return any(row[at] not in SAYS_NOTHING for row in texts)


def pairs(rows: Iterable[tuple[str, Any]]) -> None:
    """Print names with their values, one per line."""
    from rich.table import Table
    from rich.text import Text

    out = Table.grid(padding=(0, 3, 0, 0))
    out.add_column(style="bold", no_wrap=True)
    out.add_column(overflow="fold")
    for name, value in rows:
        out.add_row(Text(name), value if isinstance(value, Text) else Text(str(value)))
    _print(out)


def _print(out: Table, wide: int = 0) -> None:
    """Print a table without blanks at the ends of lines, in at least *wide* columns."""
    console = _console(stdout())
    console.width = max(console.width, wide)
    with console.capture() as captured:
        console.print(out)
    stdout().write("".join(f"{text.rstrip()}\n" for text in captured.get().splitlines()))


def show(what: RenderableType) -> None:
    """Print anything that rich can print, without blanks at the ends of lines."""
    console = _console(stdout())
    with console.capture() as captured:
        console.print(what)
    stdout().write("".join(f"{text.rstrip()}\n" for text in captured.get().splitlines()))


def note(text: str) -> None:
    """Say something beside the data."""
    _say(sys.stderr, (without_passwords(text), "dim"))


def warning(text: str) -> None:
    """Say that something is doubtful."""
    _say(sys.stderr, ("warning: ", "bold yellow"), (without_passwords(text), ""))


def error(text: str) -> None:
    """Say in one line what failed."""
    _say(sys.stderr, ("error: ", "bold red"), (without_passwords(text), ""))


class Bar:
    """A progress bar on stderr, from its first update until it is closed. Only on terminals."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._console = _consoles()(stderr=True)
        self._progress: Progress | None = None

    @property
    def visible(self) -> bool:
        """Whether anybody would see it."""
        return self._console.is_terminal

    def update(self, done: float, said: str) -> None:
        """Show how much is done (0 to 1), and a remark."""
        if self._progress is None:
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"))
            self._progress = Progress(*columns, console=self._console, transient=True)
            self._progress.start()
            self._progress.add_task(self._name, total=1.0, said="")
        self._progress.update(self._progress.task_ids[0], completed=done, said=said)

    def close(self) -> None:
        """Take it off the screen."""
        if self._progress is not None:
            self._progress.stop()
