"""``pumice simulate`` through the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pumice.cli.app import app
from pumice.sim.results import decode

ROOT = Path(__file__).parents[2]
SCENARIO = """\
name: small
seed: 4
cluster:
  nodes: [{name: n, count: 3, cpu: 8, memory: 64Gi, gpu: 4}]
workload:
  generators:
  - name: a
    arrivals: {every: 2m, count: 40}
    duration: {lognormal: {median: 10m, p90: 30m}}
    gpu: {choice: {1: 3, 4: 1}}
configurations:
  plain: {actions: "enqueue, allocate", tiers: [{plugins: [{name: gang}, {name: predicates}]}]}
  packed: {actions: "enqueue, allocate", tiers: [{plugins: [{name: gang}, {name: predicates}, {name: tidy-gpus}]}]}
"""
CRASHING = """\
from pumice import Node, Plugin, Task


class Crashes(Plugin):
    name = "crashes"

    def predicate(self, task: Task, node: Node) -> None:
        if task.creation > 1200:
            raise KeyError(node.name)
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO + f"pluginsDir: {ROOT / 'examples' / 'plugins'}\n")
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_a_scenario_with_several_configurations_is_shown_side_by_side(scenario: Path, tmp_path: Path) -> None:
    code, out, err = run("simulate", scenario, "--report", tmp_path / "out" / "r.html")
    assert code == 0, err
    title, head, first, second, *_ = out.splitlines()
    assert title.startswith("small  3 nodes, 12 GPUs, 40 jobs, ")
    assert head.split() == ["plain", "packed"]
    assert first.split() == ["Jobs", "not", "finished", "0", "0", "no", "change"]
    assert second.startswith("Jobs never started")
    assert f"The report is in {tmp_path / 'out' / 'r.html'}" in err
    page = (tmp_path / "out" / "r.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "packed" in page


def test_one_configuration_is_summed_up(scenario: Path) -> None:
    code, out, _ = run("simulate", scenario, "--conf", "packed")
    assert code == 0
    assert out.startswith("packed  40 of 40 jobs done")


def test_results_are_there_for_programs(scenario: Path, tmp_path: Path) -> None:
    code, out, _ = run("simulate", scenario, "-o", "json", "--record", tmp_path / "runs.jsonl")
    assert code == 0
    data = json.loads(out)
    assert [r["total"]["completed"] for r in data["runs"]] == [40, 40]
    assert data["comparison"]["runs"] == ["plain", "packed"]
    records = [decode(line) for line in (tmp_path / "runs.jsonl").read_bytes().splitlines()]
    assert [(r.name, len(r.jobs), r.seed) for r in records] == [("plain", 40, 4), ("packed", 40, 4)]


@pytest.mark.slow
def test_the_event_log_is_the_same_byte_for_byte(scenario: Path, tmp_path: Path) -> None:
    for name in ("one", "two", "other"):
        seed = ["--seed", "5"] if name == "other" else []
        assert run("simulate", scenario, "--log", tmp_path / name, *seed)[0] == 0
    one, two, other = ((tmp_path / name).read_bytes() for name in ("one", "two", "other"))
    assert one == two
    assert one != other
    assert one.splitlines()[0] == b"0.000 node n-0 joins"


def test_two_configurations_are_compared_on_a_scenario(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.conf").write_text("actions: allocate\ntiers:\n- plugins: [{name: gang}, {name: binpack}]\n")
    code, out, err = run("simulate", scenario, "--conf", "helm", "--conf", tmp_path / "mine.conf")
    assert code == 0, err
    assert out.splitlines()[1].split() == ["helm", "mine"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seed: 4", "sede: 4", "small.yaml:2:1: sede: unknown key 'sede'; did you mean 'seed'?"),
        ("tidy-gpus", "tidy-gpu", "did you mean 'tidy-gpus'?"),
        ("duration: {lognormal: {median: 10m, p90: 30m}}", "duration: -5m", "must be a duration above 0"),
    ],
)
def test_a_bad_scenario_is_one_line_on_stderr_and_exit_code_1(scenario: Path, old: str, new: str, said: str) -> None:
    scenario.write_text(scenario.read_text().replace(old, new))
    code, out, err = run("simulate", scenario)
    assert (code, out) == (1, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_an_unknown_configuration_is_told(scenario: Path) -> None:
    code, _, err = run("simulate", scenario, "--conf", "fast")
    assert (code, "'fast' is not one of plain, packed" in " ".join(err.split())) == (2, True)


def test_a_job_that_can_never_fit_is_told_and_the_rest_is_run(scenario: Path) -> None:
    scenario.write_text(scenario.read_text().replace("4: 1}", "16: 1}"))
    code, out, err = run("simulate", scenario, "--conf", "plain")
    assert code == 1
    assert "can never fit: a pod asks for 16 of nvidia.com/gpu, the largest node has 4" in err
    assert out.startswith("plain  ")


def test_a_plugin_that_crashes_in_the_middle_is_named_and_partial_results_are_kept(
    scenario: Path, tmp_path: Path
) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "crashes.py").write_text(CRASHING)
    text = scenario.read_text().replace("{name: predicates}]", "{name: crashes}]").split("pluginsDir")[0]
    scenario.write_text(text.replace("{name: tidy-gpus}", "{name: gang}") + "pluginsDir: plugins\n")
    code, out, err = run("simulate", scenario, "--conf", "plain", "-o", "json", "--report", tmp_path / "r.html")
    assert code == 1
    assert "plugin 'crashes' failed at 'predicate': KeyError: 'n-" in err
    assert "crashes.py:9" in err
    (summary,) = json.loads(out)["runs"]
    assert summary["partial"]
    assert summary["total"]["completed"] > 0
    assert (tmp_path / "r.html").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)  # the whole demo, fourteen runs, on a machine that may be busy
def test_the_readme_quotes_the_demo() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [quote] = [text for text in re.findall(r"```text\n(.*?)```", readme, re.DOTALL) if "Fragmentation" in text]
    code, out, err = run("simulate", ROOT / "examples" / "scenarios" / "three-teams.yaml", "--seeds", "1..7")
    assert code == 0, err
    assert [line for line in quote.splitlines() if line not in out.splitlines()] == []


def test_the_job_of_the_plugin_guide_goes_where_it_prefers(tmp_path: Path) -> None:
    code, _, err = run("simulate", ROOT / "examples" / "scenarios" / "guide.yaml", "--log", tmp_path / "log")
    assert code == 0, err
    binds = [line.split()[2:] for line in (tmp_path / "log").read_text().splitlines() if " bind " in line]
    assert [pod for pod, _ in binds] == ["default/test-job-worker-0", "default/test-job-worker-1"]
    assert all(node.startswith("gpu-a100-") for _, node in binds)


@pytest.mark.slow
def test_on_a_bad_day_everything_happens_and_is_counted(tmp_path: Path) -> None:
    day = ROOT / "examples" / "scenarios" / "bad-day.yaml"
    code, out, err = run("simulate", day, "--conf", "reclaim", "--log", tmp_path / "log", "-o", "json")
    assert code == 0, err
    log = (tmp_path / "log").read_text()
    for happened in (
        r"^7200.000 node gpu-0 fails$",
        r"^12600.000 node gpu-0 joins$",
        r"^18000.000 node gpu-1 drains$",
        r"^21600.000 node gpu-1 returns$",
        r"^21600.000 node spare joins$",
        r" bind \S+ \S+ fails$",
        r" evict default/tuning-\S+ .*training",
        r" fail default/parameter-server-worker-0\n\S+ restart default/parameter-server$",
        r" end default/parameter-server completed$",
        r" end default/sweep completed$",
    ):
        assert re.search(happened, log, re.MULTILINE), happened
    victim = re.search(r" evict (default/tuning-\S+)", log)
    assert victim is not None
    assert f" bind {victim[1]} " in log[victim.end() :]  # it comes back
    [figures] = json.loads(out)["runs"]
    assert (figures["nodes"], figures["gpus"]) == (5, 40)
    total = figures["total"]
    assert total["evictions"] > 0
    assert total["lost_gpu_hours"] > 0
    assert {group["name"] for group in figures["by_queue"]} == {"default", "gold", "silver"}
    assert [group["name"] for group in figures["by_size"]] == ["no GPU", "2 to 4 GPUs", "5 to 8 GPUs", "9 to 32 GPUs"]
    for part in ("fragmentation", "fairness_service", "fairness_share"):
        assert 0 < figures[part] < 1


def test_a_run_can_be_saved_at_its_end_explained_and_played_on(scenario: Path, tmp_path: Path) -> None:
    scenario.write_text(scenario.read_text().replace("4: 1}", "4: 3}").replace("every: 2m", "every: 20s"))
    saved = tmp_path / "end.cycle"
    code, _, err = run("simulate", scenario, "--conf", "plain", "--horizon", "10m", "--save", saved)
    assert code == 0, err
    code, out, err = run("status", "--from", saved, "-o", "json")
    waiting = [job["job"] for job in json.loads(out) if job["waits"]]
    assert waiting
    code, out, err = run("why", waiting[0], saved, "-o", "json")
    assert (code, json.loads(out)["explanation"]["stage"]) == (0, "nodes"), err
    assert run("cycle", saved)[0] == 0
    (tmp_path / "on.yaml").write_text("horizon: 1h\ncluster: {manifests: [end.cycle]}\nworkload: {}\n")
    code, out, err = run("simulate", tmp_path / "on.yaml", "-o", "json")
    assert code == 0, err
    assert json.loads(out)["runs"][0]["total"]["running"] > 0
    code, _, err = run("simulate", scenario, "--save", saved)
    assert (code, err) == (1, "error: --save: saves one configuration of 2; say which with --conf\n")


def test_a_file_that_cannot_be_written_is_told_before_the_run(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, out, err = run("simulate", scenario, "--report", tmp_path / "file" / "r.html")
    assert (code, out) == (1, "")
    assert err.startswith("error: --report ")


def test_a_saved_cycle_can_be_played_on(tmp_path: Path) -> None:
    demo = ROOT / "examples" / "demo"
    code, _, err = run("cycle", demo, "--conf", demo / "scheduler.conf", "--save", tmp_path / "now.cycle")
    assert code == 0, err
    (tmp_path / "s.yaml").write_text(
        "horizon: 1h\ncluster: {manifests: [now.cycle]}\n"
        "workload: {generators: [{name: more, arrivals: {every: 1m, count: 3}, duration: 5m, cpu: 1}]}\n"
    )
    code, out, err = run("simulate", tmp_path / "s.yaml", "-o", "json")
    assert code == 0, err
    total = json.loads(out)["runs"][0]["total"]
    assert total["completed"] == 3
    assert total["running"] > 0


def test_jobs_that_wait_though_nothing_runs_are_warned_of_in_the_terminal_and_on_the_page(tmp_path: Path) -> None:
    """Each of two queues deserves half a node, and asks for a whole one: the plugin proportion lets neither begin."""
    generators = [
        f"{{name: {name}, queue: {name}, arrivals: {{every: 1m, count: 2}}, duration: 10m, gpu: 8}}" for name in "ab"
    ]
    path, page = tmp_path / "stuck.yaml", tmp_path / "r.html"
    path.write_text(
        "cluster: {nodes: [{name: n, cpu: 8, gpu: 8}]}\nqueues: [{name: a}, {name: b}]\n"
        f"workload: {{generators: [{', '.join(generators)}]}}\n"
    )
    for seeds in ((), ("--seeds", "1..2", "--workers", "1")):
        code, _, err = run("simulate", path, "--report", page, *seeds)
        assert code == 0
        assert " ".join(err.split()).count("warning: jobs wait for ever though nothing runs: queue resource quota") == 1
        assert "jobs wait for ever though nothing runs" in page.read_text()
    assert "nothing runs" not in run("simulate", path, "--horizon", "1m")[2], "more may happen"
