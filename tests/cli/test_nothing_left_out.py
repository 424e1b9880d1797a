"""Objects of manifests are decided about or named as left out; jobs that run in part, and shared GPUs, show as such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_runs import Pumice

SCHEDULERS = ("", "pumice", "volcano", "kai-scheduler")
KAI = "dialect: kai\nactions: allocate, reclaim, preempt\n"


def node(gpu: int = 8) -> dict[str, Any]:
    offers = {"cpu": "64", "memory": "64Gi", "pods": "50", "nvidia.com/gpu": str(gpu)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": offers}}


def pod(name: str, scheduler: str = "volcano", gpu: int = 0, **meta: Any) -> dict[str, Any]:
    asked = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": str(gpu)} if gpu else {}}
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "resources": asked}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": spec}


def file(folder: Path, *objects: dict[str, Any]) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return path


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("conf", ["", KAI])
def test_a_pending_bare_pod_is_a_group_of_one(pumice: Pumice, tmp_path: Path, scheduler: str, conf: str) -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": {}}
    labels = {"kai.scheduler/queue": "q"}
    path = file(tmp_path, node(), queue, pod("bare", scheduler, labels=labels), pod("huge", scheduler, 99))
    options: tuple[object, ...] = ()
    if conf:
        (tmp_path / "kai.conf").write_text(conf)
        options = ("--conf", tmp_path / "kai.conf")
    data = pumice("cycle", path, *options, "-o", "json").data
    assert data["binds"] == {"default/bare": "n1"}
    assert [why["job"] for why in data["waiting"]] == ["default/podgroup-huge"]
    assert data["warnings"] == []
    assert pumice("why", "bare", path, *options, "-o", "json").data["explanation"]["queue"] == "q"
    assert "can never fit" in pumice("why", "huge", path, *options, "--all").out


def test_pods_of_one_controller_share_a_group(pumice: Pumice, tmp_path: Path) -> None:
    owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u1", "controller": True}]
    path = file(tmp_path, node(), *(pod(f"p{n}", ownerReferences=owner) for n in range(3)))
    assert "3   1 cpu" in pumice("cycle", path).out
    assert "default/podgroup-u1" in pumice("cycle", path).out


def test_pods_of_another_scheduler_are_counted_and_named(pumice: Pumice, tmp_path: Path) -> None:
    path = file(tmp_path, node(), *(pod(f"p{n}", "default-scheduler") for n in range(12)), pod("q", "other"))
    some = ", ".join(f"default/p{n}" for n in range(10))
    warnings = [
        f"12 pods were left out, of scheduler 'default-scheduler': {some}, …",
        "1 pod was left out, of scheduler 'other': default/q",
    ]
    assert pumice("cycle", path, "-o", "json").data["warnings"] == warnings
    assert all(text in pumice("cycle", path).err for text in warnings)
    why = pumice("why", "p3", path, code=1).err
    assert "pod default/p3 is in no PodGroup, so that nothing here schedules it" in why


def test_kinds_that_are_not_read_are_told_to_programs_too(pumice: Pumice, tmp_path: Path) -> None:
    path = file(tmp_path, node(), {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}})
    told = pumice("cycle", path, "-o", "json").data["warnings"]
    assert told == ["ignored, for a scheduler does not read them: Service"]


@pytest.mark.parametrize("started", [0, 8])
def test_a_job_that_runs_with_part_of_its_pods_is_said_to_run(pumice: Pumice, tmp_path: Path, started: int) -> None:
    marks = {"scheduling.k8s.io/group-name": "el"}
    pods = [pod(f"el-{n}", gpu=1, annotations=marks) for n in range(10)]
    for one in pods[:started]:
        one["spec"]["nodeName"], one["status"] = "n1", {"phase": "Running"}
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "el"},
        "spec": {"minMember": 1, "queue": "default"},
    }
    path = file(tmp_path, node(8), group, *pods)
    told = pumice("cycle", path).out
    assert "Grows: 1 job" in told
    assert "Waiting" not in told
    assert pumice("cycle", path, "-o", "json").data["waiting"][0]["runs"] == "8 of 10 pods"
    for options in ((), ("--all",)):
        said = pumice("why", "el", path, *options).out
        assert "runs with 8 of 10 pods" in said
        assert "never" not in said


def test_parts_of_gpus_show_in_the_table_of_nodes(pumice: Pumice, tmp_path: Path) -> None:
    shared = [
        {**pod(f"s{n}", annotations=marks)}
        for n, marks in enumerate(({"gpu-fraction": "0.5"}, {"gpu-memory": "2000"}, {}))
    ]
    shared[2] = pod("s2", gpu=1)
    offers = node(4)
    offers["metadata"]["labels"] = {"nvidia.com/gpu.memory": "20000"}
    out = pumice("cycle", file(tmp_path, offers, *shared)).out
    row = next(line.split() for line in out.splitlines() if line.startswith("n1"))
    assert row[1] == "1.6/4"
    assert row[2] == "███░░░░░"
    assert "nothing" not in out
