"""The examples at the end of the help pages are run: in a folder with the files that they name, without a cluster."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from cli_runs import DEMO, DEMO_CONF, ROOT, Pumice
from test_help import COMMANDS

from pumice.extender import cassette

DAY = """
name: day
horizon: 2d
cluster:
  nodes:
  - {name: a100, count: 4, cpu: 8, memory: 32Gi, gpu: 4}
queues:
- {name: research}
workload:
  generators:
  - name: many
    queue: research
    arrivals: {every: 45m, until: 9h}
    duration: 20m
    gpu: 2
    cpuPerGpu: 1
    memoryPerGpu: 1Gi
configurations:
  default: default
"""
CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: proportion
  - name: binpack
    arguments: {binpack.weight: 1}
"""
CLUSTER = (
    "status --queue",
    "why research/llama",
    "what-if -f",
    "mcp",
    "run",
    "controllers",
    "shadow --conf",
    "dashboard",
)
"""Examples that ask a cluster. There is none: they end with one line that says where it was looked for."""
EXTENDER = ("extender check", "extender replay tape.jsonl --against")
"""Examples that ask an extender, which does not answer here."""
SERVERS = ("extender serve", "extender record", "extender replay tape.jsonl --address", "dashboard ex", "mcp")
"""Examples that would serve until they are stopped: each word of them is taken (test_help.py)."""
EXAMPLES = [line.removeprefix("pumice ") for command in COMMANDS.values() for line in command.examples]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every file that an example names."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "day.yaml").write_text(DAY)
    for name in ("volcano-scheduler.conf", "mine.conf", "candidate.conf"):
        (folder / name).write_text(CONF)
    (folder / "scheduler.yaml").write_text("apiVersion: pumice.dev/v1\nkind: Scheduler\n")
    (folder / "plugins").mkdir()
    shutil.copy(ROOT / "examples" / "kubernetes" / "vcjob.yaml", folder / "job.yaml")
    pumice = Pumice()
    pumice("cycle", DEMO, "--conf", DEMO_CONF, "--save", folder / "cycle-17.pumice")
    files = [folder / name for name in ("runs.jsonl", "before.jsonl", "after.jsonl")]
    pumice("simulate", folder / "day.yaml", "--conf", "default", "--history", folder / "past", "--record", files[0])
    for file in files[1:]:
        shutil.copy(files[0], file)
    one = cassette.recorded("predicate", b"{}", 200, b'{"code": 0}', 0.0)
    (folder / "tape.jsonl").write_bytes(cassette.write_line(one))
    return folder


@pytest.mark.parametrize("example", [example for example in EXAMPLES if not example.startswith(SERVERS)])
@pytest.mark.part(4)
def test_an_example_is_run(example: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("KUBECONFIG", str(place / "none"))
    monkeypatch.setenv("HOME", str(place))
    ran = Pumice()(*shlex.split(example), code=None)
    if example.startswith(CLUSTER):
        assert (ran.code, "kubeconfig" in ran.err) == (1, True), ran.err
    elif example.startswith(EXTENDER):
        assert (ran.code, "127.0.0.1:8080" in ran.out + ran.err) == (1, True), ran.err
    else:
        assert ran.code in (0, 3), ran.out + ran.err
        assert ran.out or "--write" in example or "new" in example
