"""Decisions are those that were recorded: shapes of the benchmark, scenarios, random stories in both dialects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from effort import WHOLE

ROOT = Path(__file__).parents[2]
SOME = ("singles-differ", "gangs-differ", "kai-reclaim-half", "stories-volcano-0", "stories-kai-0")


@pytest.mark.law
def test_decisions_are_those_recorded() -> None:
    command = [sys.executable, str(ROOT / "tools/digests.py"), *(() if WHOLE else SOME)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "INTENTS DIFFER" not in done.stdout
