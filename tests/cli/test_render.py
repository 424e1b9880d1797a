"""What is printed: nothing is cut off, tables keep to the terminal where they can, colours are for terminals."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, redirect_stdout
from typing import TypeAlias

import pytest

from pumice.cli import render


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def getvalue(self) -> str:
        """What is to be seen, without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", super().getvalue())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[Terminal]]:
    """Puts a terminal of 40 columns in the place of stdout."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    return lambda: redirect_stdout(Terminal())


Shown: TypeAlias = Callable[[], AbstractContextManager[Terminal]]
LONG = "a-very-long-name-that-nobody-may-cut-off"


def test_a_table_without_columns_to_break_keeps_its_width(terminal: Shown) -> None:
    with terminal() as out:
        render.table(["NAME", "N"], [(LONG, 1)])
    assert f"{LONG}   1\n" in out.getvalue()


def test_a_table_breaks_the_columns_that_may_be_broken(terminal: Shown) -> None:
    with terminal() as out:
        render.table(["NAME", "WHY"], [("job", "it waits because there is no room on any of the nodes")], wrap=["WHY"])
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(line[3:].strip() for line in lines[2:]) == "it waits because there is no room on any of the nodes"


def test_numbers_stand_to_the_right_and_an_empty_cell_does_not_change_that(terminal: Shown) -> None:
    with terminal() as out:
        render.table(["N", "X"], [(5, "a"), (None, "b"), (100, "c")])
    assert out.getvalue().splitlines()[2:] == ["  5   a", "      b", "100   c"]


def test_a_paragraph_hangs_behind_its_lead(terminal: Shown) -> None:
    with terminal() as out:
        render.paragraph("one two three four five six seven eight nine ten", indent=2, lead="→ ")
    first, *rest = out.getvalue().splitlines()
    assert first.startswith("  → one")
    assert rest
    assert all(line.startswith("    ") and line[4] != " " for line in rest)


def test_no_line_of_a_pipe_ends_in_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    render.table(["NAME", "WHY"], [("a", "b"), ("c", LONG)])
    render.pairs([("name", "value"), ("longer name", "v")])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [line.rstrip() for line in lines]


def test_markup_in_data_is_printed_as_it_is(terminal: Shown) -> None:
    with terminal() as out:
        render.line("[bold]not markup[/bold] :smile:")
    assert out.getvalue() == "[bold]not markup[/bold] :smile:\n"


def test_json_is_whole_and_readable(capsys: pytest.CaptureFixture[str]) -> None:
    render.data({"pod": "ns/ß", "nodes": 3})
    assert capsys.readouterr().out == '{\n  "pod": "ns/ß",\n  "nodes": 3\n}\n'


def test_what_is_not_data_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    render.note("a")
    render.warning("b")
    render.error("c")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "a\nwarning: b\nerror: c\n"
