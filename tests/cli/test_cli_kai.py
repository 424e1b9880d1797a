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
    out = pumice("explain", "a/half", objects, "--conf", conf).out
    assert "1 of the 4 pods that it needs together exist" in out
    assert "1 of 1 job waiting in queue team\n" in out
