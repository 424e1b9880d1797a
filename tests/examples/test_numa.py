"""The example of NUMA nodes: tasks of 5 CPUs in zones of 8, and one that says how many are free."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from pumice.cli.app import app

NUMA = Path(__file__).parents[2] / "examples" / "numa"


def test_tasks_get_cpus_of_one_numa_node_and_who_waits_says_how_many_are_free() -> None:
    done = CliRunner().invoke(app, ["cycle", str(NUMA), "--conf", str(NUMA / "scheduler.conf"), "-o", "json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    solvers = [told["binds"][f"default/solver-{n}"] for n in range(3)]
    assert sorted(solvers) == ["numa-0", "numa-1", "numa-1"]
    assert "default/loose-0" in told["binds"]
    [waits] = told["waiting"]
    assert waits["job"] == "default/wide"
    assert "had not 6 CPUs for one container in 1 NUMA node (4 free in the roomiest)" in waits["text"]


def test_played_the_one_that_waits_starts_when_the_others_end() -> None:
    done = CliRunner().invoke(app, ["simulate", str(NUMA / "scenario.yaml"), "-o", "json"])
    assert done.exit_code == 0, done.output
    [run] = json.loads(done.stdout)["runs"]
    assert run["total"]["completed"] == 3
    assert run["total"]["wait"]["max"] == 600
