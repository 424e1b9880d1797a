"""Lines, tokens and walks as tools/size.py counts them."""

from __future__ import annotations

from pathlib import Path

import pytest
from size import Size, code_lines_of, plugin_sources, sizes_of, table, tokens_of, total_of, traced, walks

import pumice
from pumice.model.status import TaskStatus

SHORT = "x = 1\n"
LONG = '''"""A module."""


def f(a, b):  # adds
    """Add."""
    text = """no docstring"""
    return (
        a
        + b
    )
'''
CODE_OF_LONG = "def f ( a , b ) : text = S return ( a + b )"


def test_comments_docstrings_and_line_ends_are_no_tokens() -> None:
    assert tokens_of(SHORT) == 3
    assert tokens_of(LONG) == len(
        ["def", "f", "(", "a", ",", "b", ")", ":", "text", "=", "S", "return", "(", "a", "+", "b", ")"]
    )
    one_line = 'def f(a, b):\n    text = """no docstring"""; return (a + b)\n'
    assert tokens_of(one_line) == tokens_of(LONG) + 1  # the semicolon


def test_a_docstring_of_an_attribute_is_none_either() -> None:
    assert tokens_of('class A:\n    x: int\n    """Its size."""\n') == 6


def test_lines_of_code_are_without_blank_lines_comments_docstrings_and_imports() -> None:
    assert code_lines_of([SHORT]) == 1
    assert code_lines_of([LONG]) == 6
    assert code_lines_of([LONG, "import os\nfrom sys import (\n    path,\n)\n\n# alone\nx = 1\n"]) == 7


@pytest.mark.parametrize(("plugin", "most"), {"binpack": 60, "gang": 150}.items())
def test_plugins_that_teach_stay_short(plugin: str, most: int) -> None:
    assert 0 < code_lines_of(plugin_sources(plugin)) <= most


def test_there_are_at_most_forty_public_names() -> None:
    assert len(pumice.__all__) <= 40


def test_packages_are_counted_apart_and_added_up(tmp_path: Path) -> None:
    for name, text in {"a/__init__.py": "", "a/b/c.py": LONG, "a/d.py": SHORT, "alone.py": SHORT}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sizes = {size.package: size for size in sizes_of(tmp_path)}
    assert sizes["a"] == Size("a", modules=3, lines=11, tokens=tokens_of(LONG) + 3)
    assert sizes["(modules)"] == Size("(modules)", modules=1, lines=1, tokens=3)
    assert total_of(sizes.values()) == Size("sum", 4, 12, tokens_of(LONG) + 6)


def test_our_functions_are_counted_and_each_of_their_calls() -> None:
    calls, functions = traced(lambda: [TaskStatus.PENDING.title, TaskStatus.RUNNING.title, sorted("ab")])
    assert calls == 2
    assert [code.co_name for code in functions] == ["title"]


def test_walks_are_of_cycles_that_decide_what_they_should() -> None:
    found = {walk.cycle: walk for walk in walks()}
    gang, idle = found["gang of 10"], found["idle cycle"]
    assert 0 < gang.modules < gang.functions < gang.calls
    assert idle.functions <= 5
    assert idle.modules <= 2


def test_a_table_is_markdown_with_numbers_to_the_right() -> None:
    assert table(("a", "b"), [("x", 1234)]) == "| a | b |\n|---|---:|\n| x | 1,234 |"
