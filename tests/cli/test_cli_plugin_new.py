"""``plugin new`` makes something that works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import DEMO, Pumice

from pumice.framework.registry import default_registry


@pytest.mark.slow
def test_a_new_plugin_passes_its_own_test(pumice: Pumice, tmp_path: Path) -> None:
    pumice("plugin", "new", "spot-first", "--dir", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "spot-first"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed" in ran.stdout


@pytest.mark.slow
def test_a_new_plugin_is_installed_as_a_package(pumice: Pumice, tmp_path: Path) -> None:
    pumice("plugin", "new", "spot-first", "--dir", tmp_path)
    folder, site = tmp_path / "spot-first", tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", str(site), str(folder)], check=True, cwd=tmp_path)
    assert (site / "spot_first.py").is_file()
    command = [sys.executable, "-c", "from pumice.cli.entry import main; main()", "cycle", str(folder / "cluster.yaml")]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    ran = subprocess.run(
        [*command, "--conf", str(folder / "scheduler.conf"), "-o", "json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert len(json.loads(ran.stdout)["binds"]) == 5


def test_a_new_plugin_runs_in_a_cycle_with_its_own_conf(pumice: Pumice, tmp_path: Path) -> None:
    files = pumice("plugin", "new", "spot-first", "--dir", tmp_path, "-o", "json").data["files"]
    folder = tmp_path / "spot-first"
    assert sorted(files) == sorted(str(p) for p in folder.rglob("*") if p.is_file())
    ran = pumice("cycle", DEMO, "--conf", folder / "scheduler.conf", "--plugins-dir", folder / "plugins", "-o", "json")
    assert ran.data["binds"]
    assert ran.data["errors"] == []
    assert "spot-first" in pumice("plugin", "list", "--plugins-dir", folder / "plugins").out


def test_a_folder_that_exists_is_left_alone(pumice: Pumice, tmp_path: Path) -> None:
    (tmp_path / "spot-first").mkdir()
    assert "exists already" in pumice("plugin", "new", "spot-first", "--dir", tmp_path, code=1).err
    assert list((tmp_path / "spot-first").iterdir()) == []


@pytest.mark.parametrize("name", sorted(default_registry().plugins))
def test_a_name_that_a_plugin_has_is_refused_at_once(pumice: Pumice, tmp_path: Path, name: str) -> None:
    ran = pumice("plugin", "new", name, "--dir", tmp_path, code=2)
    assert f"plugin name {name!r}: is taken by the one from entry point pumice." in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.part(9)
def test_the_first_scenario_shows_the_new_policy_doing_good(pumice: Pumice, tmp_path: Path, seed: int) -> None:
    pumice("plugin", "new", "spot-first", "--dir", tmp_path)
    ran = pumice("simulate", tmp_path / "spot-first" / "scenario.yaml", "--seed", seed, "-o", "json")
    default, ours = (run["total"] for run in ran.data["runs"])
    assert ours["wait"]["mean"] < 0.9 * default["wait"]["mean"]
    assert ours["completed"] == default["completed"]
