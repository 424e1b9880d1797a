"""What is installed is enough: each extra in an environment of its own, which has nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from wheel_env import ROOT, installed, run

DEMO = ROOT / "examples" / "demo"
KUBE = ("pumice.kube", "pumice.shadow.live")
PAGES = ("pumice.dashboard",)
HTTP = (
    "pumice.extender.asking.client",
    "pumice.extender.answering.app",
    "pumice.extender.answering.serving",
    "pumice.extender.server",
    "pumice.extender.tools",
)
WALK = """
import importlib, json, pkgutil, pumice
failed = {}
for module in pkgutil.walk_packages(pumice.__path__, "pumice.", onerror=lambda name: None):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as exc:
        failed[module.name] = exc.name
print(json.dumps(failed))
"""
PROJECT = 'actions: "allocate"\ntiers: [{plugins: [{name: extender, arguments: {extender.urlPrefix: "http://x"}}]}]\n'

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(wheel, tmp_path_factory.mktemp("core"), also=("pytest",))


def test_without_extras_only_what_talks_over_a_network_cannot_be_loaded(core: Path, tmp_path: Path) -> None:
    failed = json.loads(run(core / "python", "-c", WALK, cwd=tmp_path).splitlines()[-1])
    assert failed
    assert [name for name in failed if not name.startswith((*KUBE, *HTTP, *PAGES))] == []


def test_without_extras_a_policy_is_written_tested_simulated_and_explained(core: Path, tmp_path: Path) -> None:
    pumice = core / "pumice"
    run(pumice, "plugin", "new", "rack", cwd=tmp_path)
    assert "2 passed" in run(core / "python", "-m", "pytest", "-q", "-W", "error", "rack", cwd=tmp_path)
    run(pumice, "simulate", "rack/scenario.yaml", "--horizon", "1h", cwd=tmp_path)
    run(pumice, "cycle", DEMO, "--conf", DEMO / "scheduler.conf", "--save", "now.cycle", cwd=tmp_path)
    assert "research/llama" in run(pumice, "explain", "research/llama", "now.cycle", cwd=tmp_path)
    run(pumice, "replay", "now.cycle", cwd=tmp_path)


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["run"], "kube"),
        (["controllers"], "kube"),
        (["dashboard", DEMO], "dashboard"),
        (["extender", "serve", "gang"], "extender"),
        (["extender", "check", "http://127.0.0.1:1"], "extender"),
        (["extender", "record", "http://127.0.0.1:1", "tape"], "extender"),
        (["cycle", DEMO, "--conf", "extender.conf"], "extender"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_command_whose_extra_is_missing_says_which_one_to_install(
    core: Path, tmp_path: Path, words: list[object], extra: str
) -> None:
    (tmp_path / "extender.conf").write_text(PROJECT)
    said = run(core / "pumice", *words, cwd=tmp_path, code=1)
    assert re.fullmatch(rf"error: .* needs \w+, which is not installed: pip install 'pumice\[{extra}\]'\n", said)


@pytest.mark.parametrize(
    ("extra", "commands", "said"),
    [
        ("kube", [["run", "--kubeconfig", "nowhere"], ["controllers", "--kubeconfig", "nowhere"]], "No such file"),
        ("extender", [["extender", "check", "http://127.0.0.1:1", "--only", "predicate"]], "cannot be reached"),
        ("dashboard", [], ""),
    ],
)
def test_an_extra_brings_what_its_commands_need(
    wheel: Path, tmp_path: Path, extra: str, commands: list[list[str]], said: str
) -> None:
    scripts = installed(wheel, tmp_path, extra)
    for words in commands:
        assert said in run(scripts / "pumice", *words, cwd=tmp_path, code=1)
    parts = {"kube": KUBE, "extender": HTTP, "dashboard": PAGES}[extra]
    failed = json.loads(run(scripts / "python", "-c", WALK, cwd=tmp_path).splitlines()[-1])
    assert [name for name in failed if name.startswith(parts)] == []
