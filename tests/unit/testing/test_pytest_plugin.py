"""A project that installs pumice gets the fixture ``scenario``, and its laws are checked when a test ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = """
def test_bound(scenario):
    scenario.cluster("1x8gpu").job("train", tasks=2, gpu=1).run(plugins=["gang"])
    scenario.assert_bound("train", to="node-0")


def test_broken(scenario):
    scenario.cluster("1x8gpu").run(plugins=["gang"])
    scenario.state.table.idle[0, 0] += 1
"""


def test_a_users_project_has_the_fixture_and_hears_of_broken_laws(tmp_path: Path) -> None:
    (tmp_path / "test_policy.py").write_text(PROJECT)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert "2 passed, 1 error" in done.stdout
    assert "AssertionError: broken laws: node node-0: idle cpu is 32001, its tasks make 32000" in done.stdout


def test_other_projects_pay_nothing_for_the_plugin() -> None:
    """The plugin is imported in every run of pytest; it must not import the scheduler."""
    code = "import sys, pumice.testing.pytest_plugin; print(sorted(m for m in sys.modules if m.startswith('pumice')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    assert "numpy" not in done.stdout
    assert "pumice.framework" not in done.stdout
