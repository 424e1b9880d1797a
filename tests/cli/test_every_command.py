"""Every command through its real entry point: one process each, JSON and nothing else on stdout, exit codes 0, 1, 2.

The commands are those that the application has: a new one without a run here fails the suite.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer
from cli_runs import DEMO, DEMO_CONF, PUMICE, ROOT, Ran

from pumice.cli.app import app

pytestmark = pytest.mark.timeout(300)  # some twenty processes, on a machine that may be busy

GUIDE = ROOT / "examples" / "scenarios" / "guide.yaml"
SERVERS = {"run", "controllers", "dashboard", "mcp", "extender serve", "extender record"}
"""They run until they are stopped, and have no result to print."""
FORGIVING = {"run", "controllers"}
"""They take Volcano's command line, and pass over flags that mean nothing here."""
JOB = """
kind: Job
apiVersion: batch.volcano.sh/v1alpha1
metadata: {name: new, namespace: research}
spec:
  minAvailable: 2
  queue: research
  tasks:
  - name: worker
    replicas: 2
    template: {spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 4, nvidia.com/gpu: 1}}}]}}
"""

Check = Callable[[Any], bool]
RUNS: dict[str, tuple[list[object], Check]] = {
    "simulate": ([GUIDE], lambda d: d["runs"][0]["total"]["completed"] == 1),
    "tune": (
        [GUIDE, "--conf", "{other.conf}", "--over", "binpack.weight=1..3", "--runs", "4", "--seeds", "1..9"],
        lambda d: d["recommended"] is False and d["configurations"] == 2,
    ),
    "plan": (
        [GUIDE, "--group", "gpu-a100", "--goal", "wait.p95 < 1h", "--between", "1..3", "--seeds", "1..22"],
        lambda d: d["answer"] is not None,
    ),
    "trace": (["{jobs.csv}"], lambda d: d["format"] == "native" and d["total"][1] == 1),
    "report": (["{runs.jsonl}"], lambda d: d["runs"][0]["total"]["completed"] == 1),
    "cycle": ([DEMO, "--conf", DEMO_CONF], lambda d: bool(d["binds"]) and bool(d["waiting"])),
    "why": (
        ["research/llama", DEMO, "--conf", DEMO_CONF],
        lambda d: d["explanation"]["code"] == "NoNodeFits" and bool(d["standing"]["shares"]) and d["unseen"] == [],
    ),
    "what-if": (
        [
            DEMO,
            "--conf",
            DEMO_CONF,
            "--set-queue",
            "vision:weight=20",
            "--set-queue",
            "vision:capability.nvidia.com/gpu=40",
        ],
        lambda d: d["changes"][0] == "queue vision: weight 2 → 20" and d["jobs"][-1]["after"]["fate"] == "starts",
    ),
    "shadow": (
        [GUIDE, "--conf", "{other.conf}"],
        lambda d: d["total"]["jobs"]["later"] == 1 and d["recent"][0]["candidate_says"],
    ),
    "status": (["--from", DEMO], lambda d: "research/llama" in {j["job"] for j in d}),
    "conf check": ([DEMO_CONF], lambda d: isinstance(d, (list, dict))),
    "conf explain": ([DEMO_CONF], lambda d: "predicate" in json.dumps(d)),
    "plugin": (["new", "rack", "--dir", "{new}"], lambda d: d["folder"].endswith("rack") and len(d["files"]) == 8),
}
TALKING = {"extender serve", "extender check", "extender record", "extender replay"}
"""Commands that talk to each other, in a test of their own."""


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command below a group, with its words."""
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path), command
        return
    for name, child in below.items():
        yield from leaves(child, (*path, name))


COMMANDS = dict(leaves(typer.main.get_command(app)))


def process(*words: object, cwd: Path | None = None, **environment: str) -> Ran:
    """Run ``pumice WORDS...`` as a process of its own."""
    command = [str(PUMICE), *(str(word) for word in words)]
    env = {**os.environ, **environment}
    ran = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """What each command printed with ``-o json``, two processes at a time."""
    home = tmp_path_factory.mktemp("home")
    (home / "other.conf").write_text('actions: "allocate"\ntiers:\n- plugins: [{name: gang}, {name: binpack}]\n')
    (home / "job.yaml").write_text(JOB)
    (home / "jobs.csv").write_text("job,submit_s,duration_s\na,1,2\n")
    saved = process("cycle", DEMO, "--conf", DEMO_CONF, "--save", home / "demo.cycle")
    assert saved.code == 0, saved.err
    recorded = process("simulate", GUIDE, "--record", home / "runs.jsonl")
    assert recorded.code == 0, recorded.err

    def run(name: str) -> Ran:
        words = [str(home / w[1:-1]) if isinstance(w, str) and w.startswith("{") else w for w in RUNS[name][0]]
        return process(*name.split(), *words, "-o", "json", cwd=home)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(RUNS, pool.map(run, RUNS), strict=True))


def test_there_is_a_run_of_every_command() -> None:
    assert set(RUNS) | TALKING | SERVERS == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - SERVERS))
def test_every_command_that_prints_a_result_takes_o_json(name: str) -> None:
    assert {"output"} <= {parameter.name for parameter in COMMANDS[name].params}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_command_prints_json_and_nothing_else(printed: dict[str, Ran], name: str) -> None:
    ran = printed[name]
    assert ran.code == 0, ran.err
    assert RUNS[name][1](ran.data), ran.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_in_help(pumice: Any, name: str) -> None:
    out = pumice(*name.split(), "--help").out
    assert f"Usage: pumice {name}" in re.sub(r"Usage: \w+", "Usage: pumice", out)
    assert COMMANDS[name].help
    usage = out.split("\n\n")[0]
    assert not set("{}<>") & set(usage), "a name is what must be given, a name in brackets what may be"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_in_words_what_an_option_takes(pumice: Any, name: str) -> None:
    """``--limit N``, not ``--limit <int range>``: every parameter that takes a value names it."""
    out = pumice(*name.split(), "--help").out
    assert not re.search(r"<(int|str|float|path|file|text|boolean)\b|<\w+\|", out)
    assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.parametrize("name", sorted({" ".join(n.split()[:-1]) for n in COMMANDS}))
def test_no_summary_of_a_command_is_cut_off(pumice: Any, name: str) -> None:
    listed = pumice(*name.split(), "--help").out.rpartition("--help ")[2]
    assert len(listed.splitlines()) > 3
    assert "..." not in listed


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - FORGIVING))
def test_an_option_that_does_not_exist_is_wrong_usage_for_every_command(pumice: Any, name: str) -> None:
    ran = pumice(*name.split(), "--frobnicate", code=2)
    assert ran.out == ""


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["cycle", "nowhere", "-o", "json"], 1, "error: nowhere: no such file\n"),
        (["cycle"], 2, "Missing argument"),
        (["run"], 1, "error: neither a kubeconfig nor a pod's account"),
        (["run", "--help"], 0, ""),
    ],
)
@pytest.mark.part(9)
def test_exit_codes_of_the_process_itself(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    ran = process(*words, KUBECONFIG=str(tmp_path / "none"), HOME=str(tmp_path), KUBERNETES_SERVICE_HOST="")
    assert ran.code == code, ran.err
    assert said in ran.err
    assert (ran.out == "") == (code != 0)


def test_the_shell_completes_commands_and_their_options() -> None:
    script = process(_PUMICE_COMPLETE="source_bash")  # as --show-completion does where it finds itself in a bash
    assert "_PUMICE_COMPLETE=complete_bash" in script.out
    assert script.code == 0
    found = process(_PUMICE_COMPLETE="complete_bash", COMP_WORDS="pumice sim", COMP_CWORD="1")
    assert found.out.split() == ["simulate"]
    found = process(_PUMICE_COMPLETE="complete_bash", COMP_WORDS="pumice simulate --rep", COMP_CWORD="2")
    assert found.out.split() == ["--report"]


# -- commands that talk to each other -------------------------------------------------------------------------------
@contextmanager
def server(*words: object, cwd: Path) -> Iterator[str]:
    """The address of a server that is ready; it must end well when it is told to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [str(PUMICE), *(str(word) for word in words), "--address", f"127.0.0.1:{port}"]
    running = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1).close()
                break
            except urllib.error.HTTPError as answer:
                answer.close()
                break
            except OSError:
                assert running.poll() is None, running.communicate()
                assert time.monotonic() < deadline, "the server does not listen after 30 s"
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=20)
    assert out == ""
    assert running.returncode in (0, 130, -signal.SIGINT)


@pytest.mark.slow
def test_an_extender_is_served_checked_recorded_and_replayed(tmp_path: Path) -> None:
    with server("extender", "serve", ROOT / "examples" / "plugins" / "tidy_gpus.py", cwd=tmp_path) as extender:
        with server("extender", "record", extender, "tape.jsonl", cwd=tmp_path) as between:
            checked = process("extender", "check", between, "-o", "json", cwd=tmp_path)
        assert checked.code == 0, checked.err
        assert {v["verb"]: v["verdict"] for v in checked.data}["prioritize"] == "ok", checked.out
        asked = process("extender", "replay", "tape.jsonl", "--against", extender, "-o", "json", cwd=tmp_path)
        assert (asked.code, asked.data["differ"]) == (0, []), asked.err
        assert asked.data["asked"] > 0
    with server("extender", "replay", "tape.jsonl", cwd=tmp_path) as tape:
        again = process("extender", "check", tape, "-o", "json", cwd=tmp_path)
    verdicts = [{v["verb"]: v["verdict"] for v in ran.data} for ran in (checked, again)]
    assert verdicts[0] == verdicts[1]


@pytest.mark.slow
def test_a_dashboard_ends_when_told_although_a_page_is_open() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(PUMICE), "dashboard", str(DEMO), "--conf", str(DEMO_CONF), "--address", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "The pages are at" in process.stderr.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/stream", timeout=60) as stream:
            assert stream.readline().startswith(b"retry")
            process.terminate()
            assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()
