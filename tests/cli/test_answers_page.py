"""The page of answers: its commands run, and say what the page says."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_runs import ROOT, Ran

PAGE = ROOT / "docs" / "answers.md"
COMMANDS = [
    line.removeprefix("$ pumice ")
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("$ pumice ") and "examples/" in line
]


def test_the_page_shows_the_commands_that_work_on_files() -> None:
    assert {command.split()[0] for command in COMMANDS} == {"status", "why", "what-if"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_runs(pumice: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(Path(ROOT))
    out = pumice(*shlex.split(command)).out
    if command.startswith("status"):
        assert "nvidia.com/gpu" in out or "vision/detector" in out
        return
    assert "RESOURCE" in out
    if command.startswith("why"):
        for line in ("waits for", "reason", "place", "Queue research", "Sooner if"):
            assert line in out
    else:
        assert ("would start now" if " -f " in command else "would start sooner") in out
        assert "nothing was written" in out
