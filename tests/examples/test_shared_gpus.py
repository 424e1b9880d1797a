"""The example of shared GPUs: servers two to a card, and one that wants a card alone says how much is free."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from pumice.cli.app import app

SHARED = Path(__file__).parents[2] / "examples" / "shared-gpus"


def test_tasks_share_cards_and_who_wants_one_alone_says_how_much_is_free() -> None:
    done = CliRunner().invoke(app, ["cycle", str(SHARED), "--conf", str(SHARED / "scheduler.conf"), "-o", "json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert len(told["binds"]) == 6
    assert told["binds"]["default/notebook-0"] == "gpu-2"
    [waits] = told["waiting"]
    assert waits["job"] == "default/train"
    assert "too few cards with room: 1 with 100 % of the memory and 100 % of the cores" in waits["text"]
    assert "the roomiest has 4000 MiB, 70 % of its cores" in waits["text"]


def test_played_the_one_that_waits_starts_when_the_others_end() -> None:
    done = CliRunner().invoke(app, ["simulate", str(SHARED / "scenario.yaml"), "-o", "json"])
    assert done.exit_code == 0, done.output
    [run] = json.loads(done.stdout)["runs"]
    assert (run["total"]["completed"], run["total"]["wait"]["max"]) == (4, 600)
