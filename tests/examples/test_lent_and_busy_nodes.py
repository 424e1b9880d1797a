"""The examples of nodes that are lent by night, of nodes that are busy, and of pods that are left alone at first."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from pumice.cli.app import app

EXAMPLES = Path(__file__).parents[2] / "examples"


def played(name: str, tmp_path: Path) -> list[list[str]]:
    """What happened to pods: time, what, which, where."""
    log = tmp_path / "events.log"
    done = CliRunner().invoke(app, ["simulate", str(EXAMPLES / name / "scenario.yaml"), "--log", str(log)])
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in log.read_text().splitlines()]
    return [line for line in lines if line[1] in ("bind", "evict")]


def test_a_lent_node_is_taken_back_in_the_morning_and_lent_to_nobody_by_day(tmp_path: Path) -> None:
    lines = played("lent-nodes", tmp_path)
    assert [line[3] for line in lines[:2]] == ["lent", "lent"]
    gone = [float(line[0]) / 3600 for line in lines if line[1] == "evict"]
    assert len(gone) == 2
    assert 6 <= gone[0] < gone[1] < 7
    assert not [line for line in lines if line[1] == "bind" and line[3] == "lent" and 6 <= float(line[0]) / 3600 < 22]


def test_one_server_leaves_the_busy_node_and_all_is_quiet_afterwards(tmp_path: Path) -> None:
    lines = [line for line in played("busy-nodes", tmp_path) if "serve" in line[2]]
    assert [line[3] for line in lines[:4]] == ["node-0"] * 4
    [gone] = [line for line in lines if line[1] == "evict"]
    assert 300 <= float(gone[0]) < 400
    assert [line[3] for line in lines if line[1] == "bind" and float(line[0]) > float(gone[0])] == ["node-1"]


def test_a_pod_is_left_alone_until_its_cooldown_is_over(tmp_path: Path) -> None:
    lines = [line for line in played("cooldown", tmp_path) if line[1] == "evict"]
    assert [(float(line[0]), line[2]) for line in lines] == [(60, "default/cold-pod-0"), (600, "default/warm-pod-0")]
