"""Big clusters are measured as they are asked for, here at a small size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pumice_bench import scale
from typer.testing import CliRunner

import bench
from pumice.cli.options import WrongUsage


def test_a_small_size_has_every_figure() -> None:
    got = scale.in_child(200)  # memory is told apart only where nothing was given back before
    assert (got.nodes, got.pods) == (200, 2000)
    assert min(got.events, got.first, got.steady, got.joined, got.peak_mib, got.pod_bytes) > 0


def test_the_command_prints_a_line_per_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "SIZES", (100, 200))
    monkeypatch.setattr(
        scale, "in_child", lambda n: scale.Scaled(n, 10 * n, 2000.0, 1800.0, 90.0, 0.5, 0.01, 0.003, 0.02)
    )
    said = CliRunner().invoke(bench.app, ["scale"])
    assert said.exit_code == 0, said.output
    assert "1,800 B" in said.output
    assert [line.split()[0] for line in said.output.splitlines() if line[:1].isdigit() and "…" not in line] == [
        "100",
        "200",
    ]


def test_scale_is_measured_alone() -> None:
    said = CliRunner().invoke(bench.app, ["scale", "gangs"])
    assert isinstance(said.exception, WrongUsage)
    assert "alone" in str(said.exception)


def test_the_tool_runs_from_any_folder() -> None:
    file = Path(bench.__file__)

    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(file), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=file.parents[2])

    measured = ran("small-cycle", "-o", "json")
    assert measured.returncode == 0, measured.stderr
    assert json.loads(measured.stdout)["small-cycle"]["wrong"] == []
    wrong = ran("gnags")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("error: shape 'gnags': must be one of singles, gangs")
