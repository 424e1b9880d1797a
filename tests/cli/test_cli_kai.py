"""KAI's objects as commands show them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runs import Pumice

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {nvidia.com/gpu.count: "8", nvidia.com/gpu.memory: "40000"}}
status: {allocatable: {cpu: "64", memory: 512Gi, pods: "110", nvidia.com/gpu: "8"}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: 8, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
"""
JOB = """
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {{name: {name}, namespace: a}}
spec: {{queue: team, minMember: {least}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}-0, namespace: a, annotations: {{pod-group-name: {name}, {notes}}}}}
spec: {{schedulerName: kai-scheduler, containers: [{{name: c, resources: {{requests: {{cpu: "1"}}}}}}]}}
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "kai.yaml"
    path.write_text("dialect: kai\nactions: allocate, reclaim\n")
    return path


@pytest.mark.parametrize(
    ("notes", "asks"),
    [
        ('gpu-fraction: "0.5"', "0.5 gpu, 1 cpu"),
        ('gpu-memory: "2000"', "2000 MiB of a gpu, 1 cpu"),
        ('gpu-fraction: "0.25", gpu-fraction-num-devices: "2"', "2 × 0.25 gpu, 1 cpu"),
    ],
)
def test_a_share_of_gpus_is_shown_with_what_a_pod_asks_for(
    pumice: Pumice, tmp_path: Path, conf: Path, notes: str, asks: str
) -> None:
    objects = tmp_path / "cluster.yaml"
    objects.write_text(CLUSTER + JOB.format(name="part", least=1, notes=notes))
    assert asks in pumice("cycle", objects, "--conf", conf).out


def test_an_incomplete_gang_says_so_and_nobody_is_said_to_wait_to_be_let_in(
    pumice: Pumice, tmp_path: Path, conf: Path
) -> None:
    objects = tmp_path / "cluster.yaml"
    objects.write_text(CLUSTER + JOB.format(name="half", least=4, notes='team: "x"'))
    out = pumice("why", "a/half", objects, "--conf", conf).out
    assert "1 of the 4 pods that it needs together exist" in out
    assert "position 1 of 1 in queue team\n" in out


WAITS = "\n".join(
    JOB.format(name=f"big{n}", least=1, notes='team: "x"').replace('cpu: "1"', 'cpu: "1", nvidia.com/gpu: "8"')
    for n in range(2)
)
QUESTIONS = [
    ["cycle"],
    ["why", "a/big1", "--all"],
    ["what-if", "--more", "1xn1"],
    ["what-if", "--drain", "n1"],
    ["status", "queue", "team", "--from"],
]


@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
@pytest.mark.parametrize("quota", ["8", "-1"])
def test_no_question_about_a_job_that_waits_makes_a_plugin_of_kai_fail(
    pumice: Pumice, tmp_path: Path, conf: Path, caplog: pytest.LogCaptureFixture, words: list[str], quota: str
) -> None:
    objects = tmp_path / "cluster.yaml"
    objects.write_text(CLUSTER.replace("quota: 8", f"quota: {quota}") + WAITS)
    out = pumice(*words, objects, "--conf", conf)
    assert out.code == 0, out.out
    assert [record.getMessage() for record in caplog.records if record.levelname in ("ERROR", "WARNING")] == []
    if words[0] == "why":
        assert "1 Insufficient nvidia.com/gpu" in out.out


def test_a_quota_without_limit_is_not_said_to_be_nothing_so_that_all_is_borrowed(
    pumice: Pumice, tmp_path: Path, conf: Path
) -> None:
    objects = tmp_path / "cluster.yaml"
    running = WAITS.replace(
        "spec: {schedulerName: kai-scheduler,", "spec: {nodeName: n1, schedulerName: kai-scheduler,", 1
    )
    objects.write_text(CLUSTER + running.replace("  \n", ""))
    out = pumice("why", "a/big1", objects, "--conf", conf).out
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.startswith(("cpu", "nvidia.com"))}
    assert rows["nvidia.com/gpu"][:2] == ["8", "8"]
    assert rows["cpu"][1:3] == ["-", "-"]
