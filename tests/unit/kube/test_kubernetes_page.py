"""The page about Kubernetes names only what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from pumice.cli.app import app
from pumice.cli.run import IDLE
from pumice.kube.gangs import HALF

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")


def options() -> dict[str, object]:
    command = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    return {name: p.default for p in command.params for name in p.opts if name.startswith("-")}


def test_every_flag_on_the_page_exists() -> None:
    others = r"```.*?```|`--(?:set|set-file|values)\b[^`]*`|`pumice (?!run)[^`]*`"  # of helm, and of other commands
    prose = re.sub(others, "", TEXT, flags=re.DOTALL)
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", prose))
    assert named
    assert named - set(options()) == set()


def test_every_file_on_the_page_exists() -> None:
    named = set(re.findall(r"deploy/[\w./-]+\w", TEXT))
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("line", re.findall(r"^\| `(--[^|]+)\|([^|]*)\|", TEXT, re.MULTILINE))
def test_the_defaults_on_the_page_are_those_of_the_flags(line: tuple[str, str]) -> None:
    flags, defaults = re.findall(r"--[a-z-]+", line[0]), re.findall(r"`([^`]+)`", line[1])
    known = options()
    said = [d for d in defaults if d not in ("pumice", "pumice-system")]
    assert said == [str(known[f]) for f in flags if said and not isinstance(known[f], (bool, list, type(None)))]


def test_the_page_says_how_long_a_gang_may_be_half() -> None:
    assert f"after **{HALF:g} seconds** (`--half-gang-timeout`)" in TEXT
    assert options()["--half-gang-timeout"] == f"{HALF:g}s"


def test_no_flag_both_works_and_changes_nothing() -> None:
    assert set(IDLE) & set(options()) == set()
