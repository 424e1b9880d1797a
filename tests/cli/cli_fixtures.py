"""Fixtures of the command line's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runs import DEMO, DEMO_CONF, Pumice


@pytest.fixture
def pumice() -> Pumice:
    return Pumice()


@pytest.fixture
def saved_demo(pumice: Pumice, tmp_path: Path) -> Path:
    """The demo's cycle, saved."""
    file = tmp_path / "demo.cycle"
    pumice("cycle", DEMO, "--conf", DEMO_CONF, "--save", file)
    return file
