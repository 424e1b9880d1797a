"""``pumice tune`` as it is used: a small cluster whose short jobs wait behind long ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from pumice.cli.app import app

SCENARIO = """\
name: small
cluster: {nodes: [{name: n, cpu: 64, memory: 512Gi, gpu: 8}]}
queues: [{name: a, weight: 1}, {name: b, weight: 1}]
workload:
  generators:
  - {name: short, queue: a, arrivals: {every: 5m, count: 10}, duration: {uniform: [3m, 6m]}, gpu: 4, declared: 1}
  - {name: long, queue: b, arrivals: {every: 5m, count: 6}, duration: {uniform: [40m, 2h]}, gpu: 4, declared: 1}
configurations:
  mine: {actions: allocate, tiers: [{plugins: [{name: gang}, {name: binpack}]}]}
"""
OVER = ("--over", "sjf@1=on,off", "--over", "binpack.weight=1..5", "--queue-loss", "any", "--runs", "6")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "small.yaml").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tune(*words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["tune", "small.yaml", "--seeds", "1..9", "--workers", "1", *words])
    assert result.exit_code == code, f"{result.stdout}{result.stderr}"
    return result


@pytest.mark.slow
def test_what_is_recommended_is_a_conf_with_its_difference_and_a_page(home: Path) -> None:
    result = tune(*OVER, "--write", "tuned.conf", "--report", "out.html")
    assert "Recommended: wait, mean −" in result.stdout
    assert "which had no part in the search" in result.stdout
    assert "+  - name: sjf" in result.stdout
    conf = yaml.safe_load((home / "tuned.conf").read_text())
    assert "sjf" in [plugin["name"] for tier in conf["tiers"] for plugin in tier["plugins"]]
    page = (home / "out.html").read_text()
    assert "Recommended: wait, mean" in page
    assert "+  - name: sjf" in page
    assert "Seed by seed: tuned" in page
    again = CliRunner().invoke(app, ["simulate", "small.yaml", "--conf", "tuned.conf"])
    assert again.exit_code == 0, again.stderr


@pytest.mark.slow
def test_a_tuning_goes_on_where_it_stopped_and_gives_the_same(home: Path) -> None:
    whole = json.loads(tune(*OVER, "--study", "runs.jsonl", "-o", "json").stdout)
    lines = (home / "runs.jsonl").read_bytes().splitlines(keepends=True)
    torn = b"".join(lines[: len(lines) // 2]) + lines[len(lines) // 2][:40]  # the machine stopped in a line
    (home / "runs.jsonl").write_bytes(torn)
    assert json.loads(tune(*OVER, "--study", "runs.jsonl", "-o", "json").stdout) == whole
    assert sorted((home / "runs.jsonl").read_bytes().splitlines()) == sorted(line.rstrip() for line in lines)


def test_a_file_of_another_tuning_is_refused(home: Path) -> None:
    (home / "runs.jsonl").write_text('{"tuning":"abc"}\n')
    result = tune(*OVER, "--study", "runs.jsonl", code=1)
    assert "another scenario, other plugins or another version" in result.stderr
    (home / "runs.jsonl").write_text("hello\n")
    assert "is not a file of `pumice tune`" in tune(*OVER, "--study", "runs.jsonl", code=1).stderr


@pytest.mark.slow
def test_runs_that_were_played_with_other_plugins_are_refused(home: Path) -> None:
    plugin = home / "plugins" / "mine.py"
    plugin.parent.mkdir()
    text = "from pumice.framework.plugin import Plugin\n\n\nclass Mine(Plugin):\n    name = 'mine'\n"
    for version, code in (("1", 0), ("2", 1)):
        plugin.write_text(f"{text}    version = {version}\n")
        result = tune(*OVER, "--runs", "1", "--study", "runs.jsonl", "--plugins-dir", "plugins", code=code)
    assert "plugins" in result.stderr
    assert "take another file" in result.stderr


def test_where_nothing_differs_no_conf_is_written(home: Path) -> None:
    result = tune("--over", "binpack.weight=1..5", "--runs", "6", "--write", "tuned.conf", "--report", "out.html")
    assert "Nothing to recommend" in result.stdout
    assert not (home / "tuned.conf").exists()
    assert "Nothing to recommend" in (home / "out.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--over", "binpack.wait=1..2"), "does not read the argument"),
        (("--over", "binpack.weight=1,soon"), "must be a whole number, got 'soon'"),
        (("--improve", "wait.meen"), "did you mean 'wait.mean'"),
        (("--seeds", "1..5"), "too few"),
        (("--split", "7d"), "say --seeds or --split"),
        (("--queue-loss", "much"), "must be a percentage"),
        (("--over", "sjf=on,off", "--over", "sjf=on,off"), "there twice"),
    ],
)
def test_wrong_values_are_wrong_usage(home: Path, words: tuple[str, ...], said: str) -> None:
    result = tune(*words, code=2)
    assert said in " ".join(result.stderr.replace("│", " ").split())
