"""What the other files here try with real installations, in short: what the wheel holds, and what needs what."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from wheel_env import ROOT

from pumice.mcp.server import PAGES

SOURCE = ROOT / "src"
WITHOUT = """
import importlib, json, pkgutil, sys
gone = set(json.loads(sys.argv[1]))
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in gone:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
import pumice
failed = {}
for module in pkgutil.walk_packages(pumice.__path__, "pumice.", onerror=lambda name: None):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as exc:
        failed[module.name] = exc.name
print(json.dumps(failed))
"""
TALKS = (
    "pumice.dashboard",
    "pumice.kube",
    "pumice.mcp.knowledge",
    "pumice.mcp.server",
    "pumice.mcp.server",
    "pumice.mcp.studies",
    "pumice.mcp.tools",
    "pumice.shadow.follower",
    "pumice.extender.asking.client",
    "pumice.extender.asking.client",
    "pumice.extender.server",
    "pumice.extender.check",
    "pumice.extender.cassette",
    "pumice.serving",
)
"""What an extra is for."""
EXTRA = [
    "aiohttp",
    "starlette",
    "uvicorn",
    "prometheus_client",
    "httptools",
    "uvloop",
    "matplotlib",
    "optuna",
    "jinja2",
    "mcp",
    "mcp_types",
    "anyio",
]


def test_the_wheel_holds_every_file_of_the_package_and_every_entry_point(tmp_path: Path) -> None:
    [made] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(made) as wheel:
        names = set(wheel.namelist())
        [points] = [wheel.read(name).decode() for name in names if name.endswith("/entry_points.txt")]
    files = {
        p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*") if p.is_file() and "__pycache__" not in p.parts
    }
    assert files - names == set()
    pages = {f"pumice/mcp/pages/{name}.md" for name in PAGES}
    assert {name for name in names - files if ".dist-info/" not in name} == pages
    known = {f"{point.name} = {point.value}" for point in distribution("pumice").entry_points}
    assert known - set(points.splitlines()) == set()


@pytest.mark.slow
def test_where_no_extra_is_installed_only_what_talks_over_a_network_cannot_be_loaded(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WITHOUT, json.dumps(EXTRA)]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    failed = json.loads(ran.stdout.splitlines()[-1])
    assert failed
    assert [name for name in failed if not name.startswith(TALKS)] == []
