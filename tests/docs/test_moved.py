"""``tools/moved.json`` says where each name went: a flat, sorted table without a name that still exists."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from pumice.cli.app import app

TEXT = (Path(__file__).parents[2] / "tools" / "moved.json").read_text(encoding="utf-8")
MOVED: dict[str, str] = json.loads(TEXT)


def test_it_is_a_flat_sorted_table() -> None:
    assert json.dumps(dict(sorted(MOVED.items())), indent=2, ensure_ascii=False) + "\n" == TEXT
    assert all(isinstance(value, str) and value for value in MOVED.values())


def module_exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("name", [name for name in MOVED if name.startswith("pumice.") and " " not in name])
def test_a_module_that_moved_is_gone(name: str) -> None:
    assert not module_exists(name)


@pytest.mark.parametrize("name", [name for name in MOVED if name.startswith("pumice ")])
def test_a_command_or_option_that_moved_is_gone(name: str) -> None:
    command = typer.main.get_command(app)
    for word in name.split()[1:]:
        if word.startswith("--"):
            assert word not in {opt for parameter in command.params for opt in parameter.opts}
            return
        below = getattr(command, "commands", {})
        if word not in below:
            break
        command = below[word]
    else:
        pytest.fail(f"{name} is there")
