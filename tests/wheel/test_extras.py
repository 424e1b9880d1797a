"""What is installed is enough: each extra in an environment of its own, which has nothing else."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from wheel_env import ROOT, environment, installed, run

DEMO = ROOT / "examples" / "demo"
GUIDE = ROOT / "examples" / "scenarios" / "guide.yaml"
KUBE = ("pumice.kube", "pumice.shadow.follower")
PAGES = ("pumice.dashboard",)
AGENTS = ("pumice.mcp",)
HTTP = (
    "pumice.extender.asking.client",
    "pumice.extender.asking.client",
    "pumice.extender.server",
    "pumice.extender.check",
    "pumice.extender.cassette",
    "pumice.serving",
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
PLAIN = 'actions: "allocate"\ntiers: [{plugins: [{name: gang}, {name: binpack}]}]\n'
TUNED = ("--over", "binpack.weight=1..3", "--runs", "4", "--seeds", "1..9")
FIGURE = """
import sys, pumice
day = pumice.simulate(sys.argv[1], seeds=[1, 2])
day.plot.ecdf("wait").savefig("waits.svg")
"""
CLIENT = {"name": "test", "version": "1"}
QUESTIONS = (
    {
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT},
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "why_pending", "arguments": {"job": "research/llama"}}},
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(wheel, tmp_path_factory.mktemp("core"), also=("pytest",))


def test_without_extras_only_what_talks_over_a_network_cannot_be_loaded(core: Path, tmp_path: Path) -> None:
    failed = json.loads(run(core / "python", "-c", WALK, cwd=tmp_path).splitlines()[-1])
    assert failed
    assert [name for name in failed if not name.startswith((*KUBE, *HTTP, *PAGES, *AGENTS))] == []


def test_without_extras_a_policy_is_written_tested_simulated_and_explained(core: Path, tmp_path: Path) -> None:
    pumice = core / "pumice"
    run(pumice, "plugin", "new", "rack", cwd=tmp_path)
    assert "3 passed" in run(core / "python", "-m", "pytest", "-q", "-W", "error", "rack", cwd=tmp_path)
    run(pumice, "simulate", "rack/scenario.yaml", "--horizon", "1h", cwd=tmp_path)
    run(pumice, "cycle", DEMO, "--conf", DEMO / "scheduler.conf", "--save", "now.cycle", cwd=tmp_path)
    assert "research/llama" in run(pumice, "why", "research/llama", "now.cycle", "--all", cwd=tmp_path)
    run(pumice, "cycle", "now.cycle", cwd=tmp_path)


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["run"], "kube"),
        (["controllers"], "kube"),
        (["dashboard", DEMO], "dashboard"),
        (["mcp", DEMO], "mcp"),
        (["tune", GUIDE, "--conf", "plain.conf", *TUNED], "tune"),
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
    (tmp_path / "plain.conf").write_text(PLAIN)
    said = run(core / "pumice", *words, cwd=tmp_path, code=1)
    assert re.fullmatch(rf"error: .* needs \w+, which is not installed: pip install '/.*\.whl\[{extra}\]'\n", said)


@pytest.mark.parametrize(
    ("extra", "commands", "said"),
    [
        ("kube", [["run", "--kubeconfig", "nowhere"], ["controllers", "--kubeconfig", "nowhere"]], "No such file"),
        ("extender", [["extender", "check", "http://127.0.0.1:1"]], "cannot be reached"),
    ],
)
def test_an_extra_brings_what_its_commands_need(
    wheel: Path, tmp_path: Path, extra: str, commands: list[list[str]], said: str
) -> None:
    scripts = installed(wheel, tmp_path, extra)
    for words in commands:
        assert said in run(scripts / "pumice", *words, cwd=tmp_path, code=1)
    parts = {"kube": KUBE, "extender": HTTP}[extra]
    assert [name for name in not_loaded(scripts, tmp_path) if name.startswith(parts)] == []


def not_loaded(scripts: Path, home: Path) -> dict[str, str]:
    """The modules that cannot be loaded, and what each lacks."""
    found: dict[str, str] = json.loads(run(scripts / "python", "-c", WALK, cwd=home).splitlines()[-1])
    return found


def test_the_extra_dashboard_serves_pages(wheel: Path, tmp_path: Path) -> None:
    scripts = installed(wheel, tmp_path, "dashboard")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{probe.getsockname()[1]}"
    words: list[str | Path] = [
        scripts / "pumice",
        "dashboard",
        DEMO,
        "--conf",
        DEMO / "scheduler.conf",
        "--address",
        where,
    ]
    process = subprocess.Popen(words, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        page = ""
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://{where}/jobs", timeout=20) as answer:
                    page = answer.read().decode()
                break
            except OSError:
                assert process.poll() is None, process.communicate()[1]
                time.sleep(0.1)
        assert "llama" in page
    finally:
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 0, said
    assert [name for name in not_loaded(scripts, tmp_path) if name.startswith(PAGES)] == []


def test_the_extra_tune_tunes(wheel: Path, tmp_path: Path) -> None:
    scripts = installed(wheel, tmp_path, "tune")
    (tmp_path / "plain.conf").write_text(PLAIN)
    words = (GUIDE, "--conf", "plain.conf", *TUNED, "-o", "json")
    said = json.loads(run(scripts / "pumice", "tune", *words, cwd=tmp_path).partition("\n}")[0] + "}")
    assert said["configurations"] >= 2


def test_the_extra_plots_draws(wheel: Path, tmp_path: Path) -> None:
    scripts = installed(wheel, tmp_path, "plots")
    run(scripts / "python", "-c", FIGURE, GUIDE, cwd=tmp_path)
    assert "<svg" in (tmp_path / "waits.svg").read_text()


def test_the_extra_mcp_answers_an_agent(wheel: Path, tmp_path: Path) -> None:
    scripts = installed(wheel, tmp_path, "mcp")
    words: list[str | Path] = [scripts / "pumice", "mcp", DEMO, "--conf", DEMO / "scheduler.conf"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=tmp_path, env=environment(), stdin=pipe, stdout=pipe, text=True) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        said: dict[str, Any] = {}
        for question in QUESTIONS:
            agent.stdin.write(json.dumps({"jsonrpc": "2.0", **question}) + "\n")
            agent.stdin.flush()
            said = json.loads(agent.stdout.readline()) if "id" in question else said
        agent.stdin.close()
    assert agent.returncode == 0
    assert said["result"]["structuredContent"]["answer"]["explanation"]["code"] == "NoNodeFits"
    assert [name for name in not_loaded(scripts, tmp_path) if name.startswith(AGENTS)] == []


def test_with_all_extras_everything_can_be_loaded(wheel: Path, tmp_path: Path) -> None:
    assert not_loaded(installed(wheel, tmp_path, "all", also=("pytest",)), tmp_path) == {}
