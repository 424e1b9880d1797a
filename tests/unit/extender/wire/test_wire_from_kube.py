"""Kubernetes objects are read by Volcano's rules, and made where there are none."""

from __future__ import annotations

from typing import Any

import pytest
from wire_samples import JOB, NODE_2, QUEUE, VICTIM

from pumice.extender.wire import from_kube, to_kube
from pumice.extender.wire.objects import WireNode, WireTask


def _container(policy: str | None = None, **requests: str) -> dict[str, Any]:
    return {"resources": {"requests": requests}, "restartPolicy": policy}


def _task(spec: dict[str, Any] | None = None, **metadata: Any) -> WireTask:
    return from_kube.task_from_pod({"metadata": {"namespace": "ml", **metadata}, "spec": spec or {}})


def test_an_initial_step_counts_only_where_it_asks_for_more() -> None:
    spec = {
        "containers": [_container(cpu="1", memory="1Gi"), _container(cpu="500m")],
        "initContainers": [_container(cpu="2"), _container(memory="1Mi")],
    }
    assert _task(spec).requests == {"cpu": 2000, "memory": 2**30}


def test_a_sidecar_counts_beside_the_containers_and_beside_later_steps() -> None:
    spec = {
        "containers": [_container(cpu="1")],
        "initContainers": [_container("Always", cpu="250m"), _container(cpu="1500m")],
    }
    assert _task(spec).requests == {"cpu": 1750}


def test_requests_of_the_pod_replace_those_of_its_containers_and_overhead_is_added() -> None:
    spec = {
        "containers": [_container(cpu="1", memory="1Ki")],
        "resources": {"requests": {"cpu": "3"}},
        "overhead": {"cpu": "100m"},
    }
    assert _task(spec).requests == {"cpu": 3100, "memory": 1024}


@pytest.mark.parametrize(
    ("phase", "deleted", "node", "status"),
    [
        ("Running", None, "n1", "Running"),
        ("Running", "2024-01-01T00:00:00Z", "n1", "Releasing"),
        ("Pending", None, None, "Pending"),
        ("Pending", None, "n1", "Bound"),
        ("Pending", "2024-01-01T00:00:00Z", None, "Releasing"),
        ("Succeeded", "2024-01-01T00:00:00Z", "n1", "Succeeded"),
        ("Failed", None, "n1", "Failed"),
        ("Unknown", None, "n1", "Unknown"),
        (None, None, None, "Unknown"),
    ],
)
def test_a_status_follows_from_phase_deletion_and_node(
    phase: str | None, deleted: str | None, node: str | None, status: str
) -> None:
    pod = {"metadata": {"deletionTimestamp": deleted}, "spec": {"nodeName": node}, "status": {"phase": phase}}
    assert from_kube.task_from_pod(pod).status == status


@pytest.mark.parametrize(
    ("spec", "annotation", "priority"),
    [
        ({}, None, 1),
        ({"priority": 0}, None, 0),
        ({"priority": 5}, "-7", -7),
        ({"priority": 5}, "many", 5),
        ({"priority": 5}, "-+7", 5),
        ({"priority": 5}, "4294967296", 5),
    ],
)
def test_a_priority_comes_from_the_annotation_then_the_pod_then_is_one(
    spec: dict[str, Any], annotation: str | None, priority: int
) -> None:
    annotations = {} if annotation is None else {"volcano.sh/task-priority": annotation}
    assert _task(spec, annotations=annotations).priority == priority


@pytest.mark.parametrize(
    ("labels", "annotations", "preemptable"),
    [
        ({}, {}, True),
        ({"volcano.sh/preemptable": "false"}, {}, False),
        ({"volcano.sh/preemptable": "false"}, {"volcano.sh/preemptable": "true"}, True),
        ({}, {"volcano.sh/preemptable": "perhaps"}, False),
    ],
)
def test_a_task_may_be_a_victim_unless_it_says_otherwise(
    labels: dict[str, str], annotations: dict[str, str], preemptable: bool
) -> None:
    assert _task(labels=labels, annotations=annotations).preemptable is preemptable


def test_job_role_queue_and_gate_come_from_the_pod() -> None:
    task = _task(
        {"schedulingGates": [{"name": "wait"}]},
        labels={"volcano.sh/task-spec": "ps"},
        annotations={"scheduling.k8s.io/group-name": "train", "scheduling.volcano.sh/queue-name": "q"},
    )
    assert (task.job, task.role, task.queue, task.gated, task.best_effort) == ("ml/train", "ps", "q", True, True)
    assert _task().job == ""


def test_a_made_pod_stands_for_the_task_it_was_made_of() -> None:
    again = from_kube.task_from_pod(to_kube.pod_of(VICTIM))
    for field in ("uid", "namespace", "name", "requests", "priority", "labels", "node_name", "status", "creation"):
        assert getattr(again, field) == getattr(VICTIM, field)
    gated = to_kube.pod_of(WireTask(name="p", gated=True, status="Unknown"))
    assert (from_kube.task_from_pod(gated).gated, from_kube.task_from_pod(gated).status) == (True, "Unknown")


def test_a_made_node_stands_for_the_node_it_was_made_of() -> None:
    again = from_kube.node_from_node(to_kube.node_of(NODE_2))
    assert (again.name, again.taints, again.allocatable) == (NODE_2.name, NODE_2.taints, NODE_2.allocatable)
    closed = to_kube.node_of(WireNode(name="n", unschedulable=True, capacity={"cpu": 1}))
    assert from_kube.node_from_node(closed).unschedulable
    assert from_kube.node_from_node(closed).capacity == {"cpu": 1}


def test_a_made_queue_and_pod_group_stand_for_what_they_were_made_of() -> None:
    again = from_kube.queue_from_queue(to_kube.queue_of(QUEUE))
    for field in ("name", "capability", "deserved", "guarantee", "allocated", "state", "parent", "creation"):
        assert getattr(again, field) == getattr(QUEUE, field)
    group = from_kube.pod_group(to_kube.pod_group_of(JOB))
    assert (group.status.phase, group.min_resources()) == (JOB.phase, JOB.min_resources)
    assert group.metadata.annotations == JOB.annotations


def test_what_is_idle_is_told_or_follows_from_what_is_used() -> None:
    allocatable = {"cpu": 4000, "memory": 100}
    assert WireNode(name="n", allocatable=allocatable, used={"cpu": 1500}).free() == {"cpu": 2500, "memory": 100}
    assert WireNode(name="n", allocatable=allocatable, idle={"cpu": 1}, used={"cpu": 2}).free() == {"cpu": 1}
