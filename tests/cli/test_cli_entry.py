"""The program loads what it needs: ``pumice run`` nothing of the other commands, everything else all of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pumice.cli.app import app
from pumice.cli.entry import command_line

LOOK = "import sys; from pumice.cli.entry import command_line; command_line(['run']); print(*sys.modules)"


def test_run_loads_no_simulator_no_benchmarks_and_no_extender_server() -> None:
    loaded = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True).stdout.split()
    assert "pumice.kube.service" in loaded
    assert not [m for m in loaded if m.startswith(("pumice.sim", "pumice.bench", "pumice.extender.server"))]


@pytest.mark.parametrize("args", [[], ["version"], ["--log-level", "info", "run"], ["simulate", "run"]])
def test_everything_else_has_all_commands(args: list[str]) -> None:
    assert command_line(args) is app
