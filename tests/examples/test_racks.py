"""The example of racks: gangs in one rack, a wide one in the spine, and two that say what is in their way."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from pumice.cli.app import app

RACKS = Path(__file__).parents[2] / "examples" / "racks"


def test_gangs_are_placed_in_racks_and_those_that_wait_say_why() -> None:
    done = CliRunner().invoke(app, ["cycle", str(RACKS), "--conf", str(RACKS / "scheduler.conf"), "-o", "json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    places: dict[str, set[str]] = {}
    for pod, node in told["binds"].items():
        places.setdefault(pod.rsplit("-", 1)[0], set()).add(node)
    assert places["default/small"] <= {"gpu-0", "gpu-1"}
    assert len(places["default/wide"]) == 3
    assert places["default/wide"] <= {"gpu-0", "gpu-1", "gpu-2", "gpu-3"}
    why = {one["job"]: one["text"] for one in told["waiting"]}
    assert "rack-a, the roomiest of 3, has room for 2" in why["default/large"]
    assert "no HyperNode has that tierName (there are rack, spine)" in why["default/typo"]
