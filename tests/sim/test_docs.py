"""The pages about the simulator are true: their scenario, their commands, their Python, their traces."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pumice.cli.app import app
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import catalogue_of
from pumice.sim import traces
from pumice.sim.reading import Section
from pumice.sim.results.metrics import METRICS
from pumice.sim.scenario import read_scenario

ROOT = Path(__file__).parents[2]
SIMULATOR, STATISTICS, PYTHON = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("simulator", "simulator-statistics", "simulator-python")
)
TRACES = (ROOT / "docs" / "traces.md").read_text(encoding="utf-8")
PLANNING = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
TUNING = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
COMMANDS = [
    line.removeprefix("$ ").partition("  #")[0].partition(" | ")[0].strip()
    for page in (SIMULATOR, STATISTICS, PYTHON, TRACES, TUNING, PLANNING)
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("$ ")
]
WRITERS = {
    name.replace(".csv.gz", ".yaml"): command
    for command in COMMANDS
    for name in re.findall(r"--(?:record|save|history|write) (\S+)", command)
}
DAY = """\
seed: 7
horizon: 10h
cluster: {nodes: [{name: n, count: 2, cpu: 16, memory: 64Gi, gpu: 8}]}
workload:
  generators:
  - {name: training, arrivals: {every: 20m, until: 9h, process: regular}, duration: 8h, gpu: 8, cpu: 1}
configurations: {default: default, mine: mine.conf, tidy: mine.conf}
"""
SHORT = DAY.replace("duration: 8h", "duration: 50m")
JOBS = "cluster: {nodes: [{name: n, cpu: 4}]}\nworkload: {trace: {file: jobs.csv}}\n"
JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: %s}\nspec: {template: {spec: {containers: [{name: c}]}}}\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the commands name."""
    home = tmp_path_factory.mktemp("home")
    (home / "day.yaml").write_text(DAY)
    (home / "short.yaml").write_text(SHORT)
    (home / "jobs.yaml").write_text(JOBS)
    (home / "jobs.csv").write_text("job,submit_s,duration_s\n" + "".join(f"j{d},{86400 * d},60\n" for d in range(10)))
    (home / "examples").symlink_to(ROOT / "examples")
    (home / "DIR").mkdir()
    for name, content in DATA.items():
        (home / "DIR" / name).write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    (home / "mine.conf").write_text("actions: enqueue, allocate\ntiers: [{plugins: [{name: gang}, {name: binpack}]}]\n")
    return home


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.part(4)
def test_every_command_of_the_pages_works(command: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(command)
    monkeypatch.chdir(home)
    if words[0] == "python":  # on data that does not come with the source
        ran = subprocess.run([sys.executable, ROOT / words[1], "--help"], capture_output=True, text=True, check=True)
        assert all(option in ran.stdout for option in words if option.startswith("--"))
        return
    assert words[0] == "pumice"
    run(command)


def run(command: str) -> None:
    """Run it, and before it the command of the pages that writes what it reads."""
    words = shlex.split(command)[1:]
    for name, writer in WRITERS.items():
        if name in words and writer != command and not Path(name).exists():
            run(writer)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, f"{result.stdout}{result.stderr}"


SNIPPETS = re.findall(r"```python\n(.*?)```", PYTHON, re.DOTALL)


@pytest.mark.filterwarnings("ignore:::distributed")
@pytest.mark.parametrize(
    "code",
    [pytest.param(code, marks=pytest.mark.slow if n in (2, 3) else ()) for n, code in enumerate(SNIPPETS)],
    ids=["study", "data", "plots", "dask", "parts"],
)
def test_the_python_of_the_page_runs(code: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(home)
    exec(compile(code, "docs/simulator-python.md", "exec"), {"__name__": "page"})
    said = capsys.readouterr().out
    for name in re.findall(r'"(\w+\.(?:csv|html|pdf|svg))"', code):
        assert (home / name).stat().st_size > 100
    if "assemble" in code:
        assert [line.split()[0] for line in said.splitlines()] == ["default", "mine", "tidy"]


def test_the_python_of_the_page_runs_on_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Its plugin is in a directory beside it, and must be found; the rest of the demo's day is not played here."""
    text = (ROOT / "examples" / "scenarios" / "three-teams.yaml").read_text(encoding="utf-8")
    text = text.replace("pluginsDir: ../plugins", f"horizon: 3h\npluginsDir: {ROOT / 'examples' / 'plugins'}")
    (tmp_path / "day.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    [code] = [code for code in SNIPPETS if "assemble" in code]
    exec(compile(code, "docs/simulator-python.md", "exec"), {"__name__": "page"})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["default", "tidy"]


def test_every_figure_is_named_on_the_page() -> None:
    rules = STATISTICS.partition("## Rules for CI")[2].partition("\n## ")[0]
    assert [name for name in METRICS if f"`{name}`" not in rules] == []


@pytest.mark.parametrize(("command", "page"), [("simulate", SIMULATOR), ("tune", TUNING), ("plan", PLANNING)])
def test_every_option_of_a_command_is_on_its_page(command: str, page: str) -> None:
    listed = re.search(r"\| option \| what it does \|\n(.*?)\n\n", page, re.DOTALL)
    assert listed is not None
    shown = set(re.findall(r"(--[a-z]+(?:-[a-z]+)*)", listed[1])) | {"--output", "--help"}
    assert shown == set(re.findall(r" (--[a-z-]+)", CliRunner().invoke(app, [command, "--help"]).stdout))


def test_every_key_of_a_scenario_is_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[str] = set()
    read = Section.get

    def get(section: Section, key: str) -> Any:
        asked.add(key)
        return read(section, key)

    monkeypatch.setattr(Section, "get", get)
    test_the_scenario_of_the_page_can_be_read(tmp_path)
    assert asked >= {"nodes", "generators", "bindFailures"}
    assert [key for key in sorted(asked) if not re.search(rf"\b{key}\b", SIMULATOR)] == []


def test_the_trace_of_the_page_can_be_read(tmp_path: Path) -> None:
    [text] = re.findall(r"```csv\n(.*?)```", TRACES, re.DOTALL)
    (tmp_path / "jobs.csv").write_text(text)
    jobs = {job.name: job for job in traces.read(tmp_path / "jobs.csv")}
    assert list(jobs) == ["train-1", "sweep", "notebook", "spark"]
    assert (jobs["spark"].tasks, jobs["sweep"].min_available, jobs["notebook"].gpus) == (9, 2, 0.5)


DATA = {
    "philly_jobs.csv.gz": "job_id,submit_s,duration_s,num_gpus,vc\n"
    + "".join(f"{n},{5_184_000 + 600 * n},900,{1 + n % 9},vc{n % 3}\n" for n in range(20)),
    "openb_node_list_gpu_node.csv": "sn,cpu_milli,memory_mib,gpu,model\nnode-1,64000,262144,4,T4\n",
    "openb_pod_list_default.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
    + "".join(f"pod-{n},4000,1024,1,500,,{'LS' if n % 2 else 'BE'},Running,{n},{n + 60},{n + 1}\n" for n in range(9)),
    "lublin_256.swf.gz": "; a log\n"
    + "".join(f"{n} {60 * n} -1 600 {16 * n} -1 -1 {16 * n} 900 -1 1 {n} 1 1 1 1 -1 -1\n" for n in range(1, 13)),
}
"""A little of each format, under the names that the page gives them."""


@pytest.mark.parametrize("name", ["philly", "openb", "swf"])
def test_every_scenario_for_a_public_log_runs_at_once_where_the_data_is_given(name: str, home: Path) -> None:
    file = ROOT / "examples" / "scenarios" / f"{name}.yaml"
    assert f"simulate examples/scenarios/{name}.yaml --data DIR" in TRACES
    result = CliRunner().invoke(app, ["simulate", str(file), "--data", str(home / "DIR"), "-o", "json"])
    assert result.exit_code == 0, result.stderr
    for run in json.loads(result.stdout)["runs"]:
        assert run["total"]["jobs"] > 5
        assert run["total"]["unfinished"] == 0
    assert result.stderr == ""
    missing = CliRunner().invoke(app, ["simulate", str(file)])
    assert missing.exit_code == 1
    assert "say with --data DIR where the data is" in missing.stderr


def test_the_columns_and_formats_of_the_page_are_those_of_the_code(tmp_path: Path) -> None:
    own = TRACES.partition("## Formats of others")[0]
    assert re.findall(r"^\| `(\w+)` \|", own, re.MULTILINE) == list(traces.native.COLUMNS)
    others = TRACES.partition("## Formats of others")[2]
    assert {*re.findall(r"^\| `(\w+)` \(", others, re.MULTILINE), "native"} == set(traces.FORMATS)
    (tmp_path / "jobs.csv").write_text("job,submit_s,duration_s\na,1,2\nb,1,soon\n")
    [said] = re.findall(r"```text\n(.*?)\n```", TRACES, re.DOTALL)
    with pytest.raises(traces.TraceError) as error:
        traces.read(tmp_path / "jobs.csv")
    assert str(error.value).endswith(said)


def test_the_scenario_of_the_page_can_be_read(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(.*?)```", SIMULATOR, re.DOTALL)
    assert found is not None
    (tmp_path / "day.yaml").write_text(found[1])
    (tmp_path / "nodes.yaml").write_text("kind: Node\nmetadata: {name: extra}\nstatus: {allocatable: {cpu: 4}}\n")
    (tmp_path / "jobs.yaml").write_text(JOB % "now")
    (tmp_path / "more.yaml").write_text(JOB % "later")
    (tmp_path / "jobs.csv").write_text("job,submit_s,duration_s\na,1,2\n")
    (tmp_path / "mine.conf").write_text("actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n")
    scenario = read_scenario(tmp_path / "day.yaml", catalogue_of(default_registry()))
    assert list(scenario.configurations) == ["default", "mine"]
    jobs = {job.name: job for job in scenario.workload()}
    assert (jobs["later"].submit_s, jobs["later"].run_s, jobs["now"].run_s) == (7200, 1800, None)
    assert [node.metadata.name for node in scenario.setting.faults.joining] == ["late-0", "late-1"]
