"""Help pages: how many commands and options there are, what an option means, two examples at the end."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from cli_runs import Pumice

from pumice.cli.app import app

MOST_COMMANDS = 22
MOST_OPTIONS = 200


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Return every command below a group, with its words."""
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path), command
        return
    for name, child in below.items():
        yield from leaves(child, (*path, name))


COMMANDS = dict(leaves(typer.main.get_command(app)))


def test_there_are_few_commands() -> None:
    assert len(COMMANDS) <= MOST_COMMANDS, sorted(COMMANDS)


def test_there_are_few_options_and_each_has_one_spelling() -> None:
    """A name with a unit, a file or an address means the same for every command that has it."""
    options = [(name, p) for name, command in COMMANDS.items() for p in command.params if p.opts[0].startswith("-")]
    assert len(options) <= MOST_OPTIONS, len(options)
    takes: dict[str, set[str]] = {}
    for _, option in options:
        takes.setdefault(max(option.opts, key=len), set()).add(str(option.metavar))
    assert {name: sorted(kinds) for name, kinds in takes.items() if len(kinds) > 1} == {}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_page_ends_with_two_examples(pumice: Pumice, name: str) -> None:
    lines = [line.strip() for line in pumice(*name.split(), "--help").out.splitlines()]
    assert lines[-3:] == ["Examples:", *COMMANDS[name].examples]
    assert all(example.startswith(f"pumice {name}") for example in COMMANDS[name].examples)


@pytest.mark.parametrize("example", [example for command in COMMANDS.values() for example in command.examples])
def test_an_example_is_a_command_line_that_is_understood(example: str) -> None:
    """Every word of it is taken: the options exist, and no argument is missing."""
    root = typer.main.get_command(app)
    words = shlex.split(example)[1:]
    context = root.make_context("pumice", words, resilient_parsing=False)
    command, rest = root, words
    while hasattr(command, "commands"):
        command, rest = command.commands[rest[0]], rest[1:]
    found = command.make_context(" ".join(words), list(rest), parent=context)
    assert not found.args
    assert not re.search(r"/(home|work|tmp)/", example)
