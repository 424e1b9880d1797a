"""What the README shows works."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_runs import DEMO, DEMO_CONF, ROOT, Pumice

from pumice.testing import Scenario

README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def shown() -> dict[str, Any]:
    """The names that the README's Python defines."""
    names: dict[str, Any] = {"__name__": "readme"}
    for block in PYTHON:
        exec(compile(block, "README.md", "exec"), names)
    return names


def test_the_policy_of_the_readme_passes_the_test_of_the_readme(shown: dict[str, Any], scenario: Scenario) -> None:
    test: Callable[[Scenario], None] = shown["test_a_job_that_cannot_be_preempted_stays_off_spot_nodes"]
    test(scenario)


def test_the_policy_of_the_readme_has_ten_lines() -> None:
    body = PYTHON[0].partition("\n\n\n")[2].strip()
    assert len([line for line in PYTHON[0].splitlines() if line.strip()]) <= 10, body


def test_the_readme_quotes_the_example_cycle(pumice: Pumice) -> None:
    [quote] = [text for text in re.findall(r"```text\n(.*?)```", README, re.DOTALL) if "research/llama" in text]
    assert quote in pumice("cycle", DEMO, "--conf", DEMO_CONF).out


def test_every_command_that_the_readme_names_exists(pumice: Pumice) -> None:
    named = set(re.findall(r"(?:`|\$ )pumice ([a-z]+(?:-[a-z]+)*)", README))
    known = set(re.findall(r"^\W*([a-z]+(?:-[a-z]+)*)  ", pumice("--help").out, re.MULTILINE))
    assert named
    assert named <= known


def test_every_file_that_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)h][^)]*)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_commands_about_a_pending_job_work_one_after_the_other(
    pumice: Pumice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [block] = [text for text in re.findall(r"```console\n(.*?)```", README, re.DOTALL) if "now.cycle" in text]
    commands = [line.removeprefix("$ pumice ").partition("  #")[0] for line in block.splitlines()]
    assert [command.split()[0] for command in commands] == ["cycle", "why", "cycle", "cycle"]
    shutil.copytree(DEMO, tmp_path / "manifests")
    shutil.copy(DEMO_CONF, tmp_path / "scheduler.conf")
    (tmp_path / "other.conf").write_text("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: binpack}]}]\n")
    monkeypatch.chdir(tmp_path)
    said = [pumice(*command.split()).out for command in commands]
    assert "closest node" in said[1]
    assert re.search(r"^Same as saved: \d+ decisions$", said[2], re.MULTILINE)
    assert "Differs from the saved cycle: " in said[3]
