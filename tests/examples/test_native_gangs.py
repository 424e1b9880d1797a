"""The example of Kubernetes' own PodGroups: a gang in the smaller rack, and one that no rack takes."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from pumice.cli.app import app

NATIVE = Path(__file__).parents[2] / "examples" / "native-gangs"


def test_a_gang_is_in_one_rack_and_who_waits_says_how_much_room_there_is() -> None:
    done = CliRunner().invoke(app, ["cycle", str(NATIVE), "--conf", str(NATIVE / "scheduler.conf"), "-o", "json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert {told["binds"][f"default/train-workers-{n}"] for n in range(2)} == {"b1", "b2"}
    [waits] = told["waiting"]
    assert (waits["job"], waits["queue"]) == ("default/large", "research")
    assert "no example.com/rack has room for 4 of its pods together: a, the roomiest of 2, for 3" in waits["text"]


def test_played_a_constraint_of_a_group_is_kept_too() -> None:
    done = CliRunner().invoke(app, ["simulate", str(NATIVE / "scenario.yaml"), "-o", "json"])
    assert done.exit_code == 0, done.output
    [run] = json.loads(done.stdout)["runs"]
    assert run["total"]["completed"] == 1


def test_where_nobody_keeps_the_constraint_the_pods_wait() -> None:
    kai = NATIVE.parent / "volcano-or-kai" / "kai.conf"
    done = CliRunner().invoke(app, ["cycle", str(NATIVE), "--conf", str(kai), "-o", "json"])
    told = json.loads(done.stdout)
    assert (told["binds"], len(told["waiting"])) == ({}, 2)
