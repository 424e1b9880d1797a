"""A project that installs pumice gets the fixture ``scenario``, and its laws are checked when a test ends."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = """
from pumice import Plugin


def test_bound(scenario):
    scenario.cluster("1x8gpu").job("train", tasks=2, gpu=1).run(plugins=["gang"])
    scenario.assert_bound("train", to="node-0")


class Failing(Plugin):
    name = "failing"

    def predicate(self, task, node):
        return task.no_such_thing


def test_failed(scenario):
    scenario.cluster("1x8gpu").job("train").run(plugins=["gang", Failing])


def test_failed_knowingly(scenario):
    cycle = scenario.cluster("1x8gpu").job("train").run(plugins=["gang", Failing])
    assert "no_such_thing" in cycle.errors[0]


def test_failed_twice_and_looked_at_once(scenario):
    scenario.cluster("1x8gpu").job("train").run(plugins=["gang", Failing])
    assert scenario.job("more").run().errors


def test_broken(scenario):
    scenario.cluster("1x8gpu").run(plugins=["gang"])
    scenario.state.table.idle[0, 0] += 1
"""


@pytest.mark.slow
def test_a_users_project_has_the_fixture_and_hears_of_broken_laws_and_of_plugins_that_failed(tmp_path: Path) -> None:
    (tmp_path / "test_policy.py").write_text(PROJECT)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert "5 passed, 3 errors" in done.stdout
    assert sorted(re.findall(r"ERROR at teardown of (\w+)", done.stdout)) == [
        "test_broken",
        "test_failed",
        "test_failed_twice_and_looked_at_once",
    ]
    assert (
        "plugins failed, and the test has not looked at the errors of that cycle: plugin 'failing' failed"
        in done.stdout
    )
    assert "AssertionError: broken laws: node node-0: idle cpu is 32001, its tasks make 32000" in done.stdout


def test_other_projects_pay_nothing_for_the_plugin() -> None:
    """The plugin is imported in every run of pytest; it must not import the scheduler."""
    code = "import sys, pumice.testing.pytest_plugin; print(sorted(m for m in sys.modules if m.startswith('pumice')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    assert "numpy" not in done.stdout
    assert "pumice.framework" not in done.stdout
