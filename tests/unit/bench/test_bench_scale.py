"""Big clusters are measured as they are asked for, here at a small size."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from pumice.bench import scale
from pumice.cli.app import app


def test_a_small_size_has_every_figure() -> None:
    got = scale.in_child(200)  # memory is told apart only where nothing was given back before
    assert (got.nodes, got.pods) == (200, 2000)
    assert min(got.events, got.first, got.steady, got.joined, got.peak_mib, got.pod_bytes) > 0


def test_the_command_prints_a_line_per_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "SIZES", (100, 200))
    monkeypatch.setattr(
        scale, "in_child", lambda n: scale.Scaled(n, 10 * n, 2000.0, 1800.0, 90.0, 0.5, 0.01, 0.003, 0.02)
    )
    said = CliRunner().invoke(app, ["bench", "scale"])
    assert said.exit_code == 0, said.output
    assert "1,800 B" in said.output
    assert [line.split()[0] for line in said.output.splitlines() if line[:1].isdigit() and "…" not in line] == [
        "100",
        "200",
    ]


def test_scale_is_measured_alone() -> None:
    said = CliRunner().invoke(app, ["bench", "scale", "gangs"])
    assert said.exit_code == 2
    assert "alone" in said.output
