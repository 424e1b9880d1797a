"""Every table in a terminal of 80 columns: no line is longer, and no word is broken."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import typer
from cli_runs import DEMO, DEMO_CONF, Pumice
from pumice_bench.shapes import SHAPES

import bench
from pumice.cli.app import app
from pumice.cli.render import LONGEST_WORD

NODE = "gke-production-europe-west4-a100-80gb-pool-{}-7f3a2b1c"
JOB = "llm-pretraining-of-the-large-language-model-team-run-{}"
CONF = "actions: enqueue, allocate, preempt\ntiers: [{plugins: [{name: gang}, {name: priority}, {name: predicates}]}]\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster whose nodes, jobs and queues have the names that clusters have."""
    folder = tmp_path_factory.mktemp("long")
    objects = ["kind: Queue\nmetadata: {name: research-and-development-department}\nspec: {weight: 1}\n"]
    for n in range(3):
        room = "{cpu: '8', memory: 64Gi, nvidia.com/gpu: '8', pods: '110'}"
        objects.append(f"kind: Node\nmetadata: {{name: {NODE.format(n)}}}\nstatus: {{allocatable: {room}}}\n")
    for n in range(4):
        job = JOB.format(n)
        spec = f"{{minMember: 2, queue: research-and-development-department, priorityClassName: {'ab'[n == 3]}}}"
        objects.append(f"kind: PodGroup\nmetadata: {{name: {job}, namespace: natural-language}}\nspec: {spec}\n")
        for pod in range(2):
            where = f"nodeName: {NODE.format(n)}, " if n < 2 else ""
            asks = "{containers: [{name: c, resources: {requests: {cpu: '3', memory: 8Gi, nvidia.com/gpu: '3'}}}], "
            phase = "Running" if n < 2 else "Pending"
            objects.append(
                f"kind: Pod\nmetadata:\n  name: {job}-worker-{pod}\n  namespace: natural-language\n"
                f"  annotations: {{scheduling.k8s.io/group-name: {job}, volcano.sh/task-spec: parameter-server}}\n"
                f"spec: {asks}{where}schedulerName: pumice}}\nstatus: {{phase: {phase}}}\n"
            )
    (folder / "cluster.yaml").write_text("---\n".join(objects))
    (folder / "scheduler.conf").write_text(CONF)
    queues = ("research-and-development-department", "research-and-development-laboratory")
    (folder / "jobs.csv").write_text(
        "job,submit_s,duration_s,gpu,queue\n"
        + "".join(f"j{n},{n * 999},{n**6},{n},{queues[n % 2]}\n" for n in range(12))
    )
    (folder / "job.yaml").write_text(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"
        "metadata: {name: another-run-of-the-large-language-model-team, namespace: natural-language}\n"
        "spec:\n  queue: research-and-development-department\n  minAvailable: 2\n  tasks:\n"
        "  - {name: worker, replicas: 2, template: {spec: {containers: "
        "[{name: c, resources: {requests: {cpu: '1', nvidia.com/gpu: '1'}}}]}}}\n"
    )
    (folder / "other.conf").write_text("actions: enqueue\ntiers: [{plugins: [{name: gang}]}]\n")
    Pumice()("cycle", folder / "cluster.yaml", "--conf", folder / "scheduler.conf", "--save", folder / "now.cycle")
    return folder


WHY: list[object] = ["why"]
SHOW: list[object] = ["plugin", "show"]
COMMANDS: list[list[object]] = [
    ["cycle", DEMO, "--conf", DEMO_CONF],
    *([*WHY, job, DEMO, "--conf", DEMO_CONF, "--all"] for job in ("llama", "sweep", "cleanup", "probe", "detector")),
    ["status", "--from", DEMO],
    ["status", "--from", DEMO, "-o", "wide"],
    ["status", "job", "llama", "--from", DEMO],
    ["status", "queue", "--from", DEMO],
    ["status", "queue", "vision", "--from", DEMO],
    ["status", "node", "--from", DEMO],
    ["status", "node", "a100-1", "--from", DEMO],
    ["plugin", "points"],
    ["plugin", "points", "predicate"],
    ["plugin", "list"],
    *([*SHOW, name] for name in ("nodeorder", "capacity", "deviceshare", "extender", "kai/proportion")),
    ["conf", "explain", DEMO_CONF],
    ["conf", "check", DEMO_CONF],
    ["cycle", "{cluster.yaml}", "--conf", "{scheduler.conf}"],
    ["why", JOB.format(3), "{cluster.yaml}", "--conf", "{scheduler.conf}", "--all"],
    ["cycle", "{now.cycle}", "--conf", "{other.conf}"],
    ["status", "--from", "{cluster.yaml}"],
    ["status", "--from", "{cluster.yaml}", "-n", "natural-language", "-o", "wide"],
    ["status", "job", JOB.format(0), "--from", "{cluster.yaml}"],
    ["status", "queue", "--from", "{cluster.yaml}", "-o", "wide"],
    ["status", "queue", "research-and-development-department", "--from", "{cluster.yaml}"],
    ["status", "node", "--from", "{cluster.yaml}"],
    ["trace", "{jobs.csv}"],
    ["why", JOB.format(3), "{cluster.yaml}", "--conf", "{scheduler.conf}"],
    ["what-if", "{cluster.yaml}", "--conf", "{scheduler.conf}", "--more", f"2x{NODE.format(0)}"],
    ["what-if", "{cluster.yaml}", "--conf", "{scheduler.conf}", "--drain", NODE.format(0), "--job", JOB.format(1)],
    ["what-if", "{cluster.yaml}", "--conf", "{scheduler.conf}", "-f", "{job.yaml}"],
]


def printed(words: list[object], folder: Path, columns: int, patch: pytest.MonkeyPatch) -> str:
    """What a command prints in a terminal."""
    patch.setenv("COLUMNS", str(columns))
    patch.setenv("TERM", "xterm")
    given = [str(folder / w[1:-1]) if isinstance(w, str) and w.startswith("{") else str(w) for w in words]
    out = Terminal()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        code = typer.main.get_command(app).main(given, prog_name="pumice", standalone_mode=False)
    assert not code
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(Path(str(w)).name for w in words))
@pytest.mark.part(4)
def test_what_a_command_prints_fits_and_breaks_no_word(
    words: list[object], long_names: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = set(re.split(r"[\s─]+", printed(words, long_names, 400, monkeypatch)))
    half = printed(words, long_names, 60, monkeypatch)
    assert [line for line in half.splitlines() if len(line) > 60] == [], "beside another window"
    narrow = printed(words, long_names, 80, monkeypatch)
    assert [line for line in narrow.splitlines() if len(line) > 80] == []
    figures = re.compile(r"[\d.,]+")  # times differ from run to run
    pieces = [
        word
        for word in re.split(r"[\s─]+", narrow)
        if word not in wide and "…" not in word and not figures.fullmatch(word)
    ]
    assert [word for word in pieces if not any(word in long and len(long) > LONGEST_WORD for long in wide)] == []


@pytest.mark.parametrize(
    "words", [["plugin", "list"], ["plugin", "points"], ["conf", "check", DEMO_CONF]], ids=lambda words: words[1]
)
def test_of_what_we_name_ourselves_no_word_is_too_long(
    words: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide, narrow = (set(re.split(r"[\s─]+", printed(words, tmp_path, columns, monkeypatch))) for columns in (400, 80))
    assert narrow - wide == set()


@pytest.mark.parametrize("name", ["capacity", "deviceshare"])
def test_what_a_plugin_says_of_itself_keeps_its_indent(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, said, rest = printed(["plugin", "show", name], tmp_path, 80, monkeypatch).split("\n\n", 2)
    text = said + "\n" + rest.rpartition("\n\n")[0]
    assert [line for line in text.splitlines() if line and not line.startswith("  ")] == []
    assert "``" not in text


def test_the_tables_of_the_benchmarks_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    run = {"per_cycle": False, "wall": 12.5, "per_second": 123456.0, "cpu": 12.5, "tasks": 1000, "peak_mib": 1234.0}
    both = {"then": 123.4, "now": 132.1}
    ratio = {"ratio": 1.0712, "low": 0.9012, "high": 1.2345, "speed": 0.9336, "verdict": "same"}
    ratio |= {"cpu": both, "peak_mib": both}
    lacking = {"verdict": "lacking", "reason": "cd59504 lacks the shape take-in"}
    monkeypatch.setenv("COLUMNS", "80")
    with redirect_stdout(Terminal()) as out, redirect_stderr(io.StringIO()):
        bench.show(dict.fromkeys(SHAPES, run))
        bench.show_compared("cd59504", {**dict.fromkeys(SHAPES, ratio), "take-in": lacking})
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()
    assert len(lines) > 2 * len(SHAPES)
    assert [line for line in lines if len(line) > 80] == []
