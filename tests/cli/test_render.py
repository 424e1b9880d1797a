"""What is printed: tables keep to the terminal, a pipe gets everything, colours are for terminals."""

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
    assert f"{LONG}  1\n" in out.getvalue()


def test_names_are_cut_in_the_middle_and_a_pipe_gets_them_whole(
    terminal: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    def show() -> None:
        render.table(["NAME", "N"], [(f"{LONG}-00017", 1), (f"{LONG}-00018", 2)], names=["NAME"])

    with terminal() as out:
        show()
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) == 40
    assert [line.split()[0][-6:] for line in lines[2:]] == ["-00017", "-00018"]
    show()
    assert f"{LONG}-00018" in capsys.readouterr().out


def test_columns_that_say_nothing_are_left_out_first_and_others_with_a_word(
    terminal: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = ["NAME", "FAILED", "UNKNOWN", "CREATION"]

    def shown(name: str, failed: int) -> list[str]:
        with terminal() as out:
            render.table(columns, [(name, failed, 0, "2026-01-01")], spare=["CREATION", "UNKNOWN", "FAILED"])
        return out.getvalue().splitlines()[0].split()

    assert shown("job", 0) == columns
    assert shown("a-name-of-20-letters", 3) == ["NAME", "FAILED", "CREATION"]
    assert capsys.readouterr().err == ""
    assert shown("a-name-of-thirty-three-letters-xx", 0) == ["NAME"]
    assert capsys.readouterr().err == "hidden at this width: CREATION (widen, or -o json)\n"


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
