"""Bad input: a clear message with file and line, partial results kept and marked, exit code 1."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pumice.cli.app import app

CLUSTER = "cluster: {nodes: [{name: n, count: 2, cpu: 8, memory: 64Gi}]}\n"
GENERATOR = CLUSTER + (
    "workload:\n  generators:\n  - {name: a, arrivals: {every: 2m, count: 4}, duration: 5m, cpu: 1, queue: default}\n"
)
POD = "{spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}"


def simulate(directory: Path, scenario: str, **files: str) -> tuple[int, str, list[str]]:
    """Exit code, stdout and the lines on stderr of ``pumice simulate`` on files that are written first."""
    for name, text in {"s_yaml": scenario, **files}.items():
        (directory / name.replace("_", ".")).write_text(text)
    before = Path.cwd()
    os.chdir(directory)
    try:
        result = CliRunner().invoke(app, ["simulate", "s.yaml", "--horizon", "1h"])
    finally:
        os.chdir(before)
    return result.exit_code, result.stdout, result.stderr.splitlines()


LARGE = 99_999_999_999
COUNTS = [
    (GENERATOR.replace("count: 2", f"count: {LARGE}"), "cluster.nodes[0].count", "whole number of at most 100000"),
    (GENERATOR.replace("cpu: 8", f"cpu: 8, gpu: {LARGE}"), "cluster.nodes[0].gpu", "whole number of at most 1024"),
    (GENERATOR.replace("cpu: 8", f"cpu: 8, pods: {LARGE}"), "cluster.nodes[0].pods", "whole number of at most 1000000"),
    *(
        (GENERATOR.replace("cpu: 1,", f"cpu: 1, {key}: {LARGE},"), f"workload.generators[0].{key}", rule)
        for key, rule in {
            "pods": "number of at most 1e+06",
            "gpu": "number of at most 1024",
            "minAvailable": "whole number of at most 1000000",
            "users": "whole number of at most 1000000",
            "priority": f"whole number of at most {2**31 - 1}",
        }.items()
    ),
    *(
        (GENERATOR.replace("count: 4", f"count: 4, {key}: {LARGE}").replace("count: 4, count: ", "count: "), path, rule)
        for key, path, rule in (
            ("count", "workload.generators[0].arrivals.count", "whole number of at most 1000000"),
            ("batch", "workload.generators[0].arrivals.batch", "whole number of at most 1000000"),
        )
    ),
    (GENERATOR + f"seed: {2**63}\n", "seed", f"whole number of at most {2**63 - 1}"),
]


@pytest.mark.parametrize(("scenario", "path", "rule"), COUNTS, ids=[path for _, path, _ in COUNTS])
def test_no_number_of_a_scenario_is_so_large_that_it_is_never_made(
    tmp_path: Path, scenario: str, path: str, rule: str
) -> None:
    code, out, errors = simulate(tmp_path, scenario)
    assert (code, out, len(errors)) == (1, "", 1)
    assert f" {path}: must be a {rule}, got the number " in errors[0]


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        (GENERATOR + "sede: 1\n", "s.yaml:5:1: sede: unknown key 'sede'; did you mean 'seed'?"),
        (GENERATOR + "seed: 1\nseed: 2\n", "s.yaml:6:1: seed: the key 'seed' stands here a second time"),
        (
            GENERATOR.replace("count: 4", "cuont: 4"),
            "s.yaml:4:37: workload.generators[0].arrivals.cuont: unknown key 'cuont'; did you mean 'count'?",
        ),
        (
            GENERATOR.replace("cpu: 1,", "gpu: {choice: {x: 1}},"),
            "s.yaml:4:77: workload.generators[0].gpu.choice.x: must be a number, got the text 'x'",
        ),
        (
            GENERATOR.replace("queue: default", "queue: defualt"),
            "s.yaml:4: generator 'a': no queue 'defualt'; did you mean 'default'?",
        ),
        (GENERATOR + "pluginsDir: nowhere\n", "s.yaml:5:13: pluginsDir: 'nowhere' is no directory"),
        (
            GENERATOR + "configurations: {a: defualt}\n",
            "s.yaml:5:21: configurations.a: must be default, helm, a file or a conf, and there is no file 'defualt'",
        ),
        (
            GENERATOR + "faults: {planned: [{at: 1h, fail: m}]}\n",
            "s.yaml:5:35: faults.planned[0].fail: node 'm' is not in the cluster",
        ),
        ("cluster: [\n", "s.yaml:2:1: not YAML: while parsing a flow node, did not find expected node content"),
        ("- a\n", "s.yaml:1:1: must be a mapping, got a list"),
        (CLUSTER, "s.yaml:1:1: needs the key 'workload'"),
        (CLUSTER + "workload: {}\n", "s.yaml:2:11: workload: needs manifests, generators or a trace"),
    ],
)
def test_a_scenario_that_breaks_a_rule_is_named_with_line_and_column(
    tmp_path: Path, scenario: str, message: str
) -> None:
    assert simulate(tmp_path, scenario) == (1, "", [f"error: {message}"])


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ("job,submit_s,duration_s\na,1,2\n\nb,x,3\n", "t.csv:4: submit_s: must be a number of seconds of at least 0"),
        ("job,submit_s,duration_s\na,1\n", "t.csv:2: must have 3 values as the header, has 2"),
        ("job,submit_s,duration_s\na,1,2\na,1,2\nb,1,2\na,3,2\n", "t.csv:5: job: must be unique"),
        ("job,submit_s,duration_s,gpus\n", "t.csv:1: gpus: no column of this format"),
        ("hello\n", "t.csv:1: the format is not recognised"),
    ],
)
def test_a_trace_with_a_broken_line_is_named_with_that_line(tmp_path: Path, trace: str, message: str) -> None:
    code, out, err = simulate(tmp_path, CLUSTER + "workload: {trace: {file: t.csv}}\n", t_csv=trace)
    assert (code, out, len(err)) == (1, "", 1)
    assert err[0].startswith(f"error: {message}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (f"{{parallelism: two, template: {POD}}}", "Job 'b': parallelism: must be a whole number, got text"),
        (
            f"{{tasks: [{{template: {POD}}}], policies: [{{event: PodFailed, action: Explode}}]}}",
            "Job 'b': policies: action must be one of",
        ),
        (
            f"{{tasks: [{{template: {POD}}}], minAvailable: 2}}",
            "Job 'b': minAvailable must be at most the number of pods (1), got 2",
        ),
    ],
)
def test_a_manifest_that_breaks_a_rule_is_named_with_its_line_and_job(tmp_path: Path, spec: str, message: str) -> None:
    version = "batch/v1" if "parallelism" in spec else "batch.volcano.sh/v1alpha1"
    good = f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: a}}, spec: {{template: {POD}}}}}\n"
    bad = f"apiVersion: {version}\nkind: Job\nmetadata: {{name: b}}\nspec: {spec}\n"
    scenario = CLUSTER + "workload: {manifests: [j.yaml]}\n"
    code, out, err = simulate(tmp_path, scenario, j_yaml=f"{good}---\n{bad}")
    assert (code, out, len(err)) == (1, "", 1)
    assert err[0].startswith(f"error: j.yaml:3: {message}")


VCS = "job,submit_s,duration_s,queue\na,1,2,vc1\nb,1,2,vc1\nc,1,2,\n"


def test_the_queues_of_a_trace_are_made(tmp_path: Path) -> None:
    code, out, err = simulate(tmp_path, CLUSTER + "workload: {trace: {file: t.csv}}\n", t_csv=VCS)
    assert (code, err) == (0, [])
    assert "3 of 3 jobs done" in out
    assert "note: 1 queue that t.csv names and `queues` does not, made with weight 1: vc1" in out


def test_queues_of_a_trace_that_must_be_declared_are_warned_about_and_the_remedy_is_named(tmp_path: Path) -> None:
    declared = CLUSTER + "workload: {trace: {file: t.csv, queues: declared}}\n"
    code, out, err = simulate(tmp_path, declared, t_csv=VCS)
    assert (code, err) == (
        0, ["warning: no queue 'vc1': 2 jobs that name it never start; declare it under `queues`"],
    )  # fmt: skip
    assert "queue 'vc1' does not exist" in out
    assert "Jobs never started" in out
    code, out, err = simulate(tmp_path, declared, t_csv=VCS.replace("c,1,2,\n", ""))
    assert (code, out) == (1, "")
    assert err == [
        "error: workload: none of the 2 jobs can start: no queue 'vc1'; declare them under `queues`, or say "
        "`queues: create` or `queue: NAME` of the trace"
    ]


def test_two_jobs_of_one_name_stop_the_run(tmp_path: Path) -> None:
    trace = "job,submit_s,duration_s\na,1,600\n"
    files = "[{file: t.csv}, {file: u.csv}]"
    code, out, err = simulate(
        tmp_path, CLUSTER + f"workload: {{trace: {files}}}\n", t_csv=trace, u_csv=trace.replace("1,", "60,")
    )
    assert code == 1
    assert "u.csv:2: job default/a is submitted while another one of that name is there" in err[0]
    assert "partial" in out.splitlines()[0]


def test_ctrl_c_keeps_what_was_reached_and_marks_it(tmp_path: Path) -> None:
    (tmp_path / "long.yaml").write_text(
        CLUSTER + "horizon: 3000d\nworkload:\n  generators:\n"
        "  - {name: a, arrivals: {every: 1m, until: 3000d}, duration: 5m, cpu: 1}\n"
    )
    files = {name: tmp_path / name for name in ("report", "record", "log")}
    command = [str(Path(sys.executable).with_name("pumice")), "simulate", "long.yaml", "-o", "json"]
    command += [word for name, path in files.items() for word in (f"--{name}", str(path))]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not (files["log"].exists() and files["log"].stat().st_size):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "the run did not begin within a minute"
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1
    said = err.splitlines()
    assert said[0].startswith("error: default: stopped at ")
    assert said[0].endswith(": interrupted; the results are partial")
    [run] = json.loads(out)["runs"]
    assert run["partial"]
    assert run["total"]["completed"] > 0
    assert "stopped before its end" in files["report"].read_text()
    assert json.loads(files["record"].read_text())["partial"]
    assert files["log"].read_text().endswith("\n")
