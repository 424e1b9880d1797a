"""What is written into the status of queues."""

from __future__ import annotations

from typing import Any

from pumice.kube.statuses import EVERY, QueueStatuses
from pumice.model.api import decode
from pumice.model.events import Seen
from pumice.state.cluster import ClusterState


def put(state: ClusterState, kind: str, name: str, **parts: Any) -> None:
    namespace = {} if kind in ("Queue", "Node") else {"namespace": "ns"}
    meta = {"name": name, "uid": name, **namespace, **parts.pop("meta", {})}
    state.apply(Seen(decode(kind, {"metadata": meta, **parts})))


def cluster(**queues: str) -> ClusterState:
    """Queues with their parents; in each a job that holds 1500m CPU and 1Gi on a node."""
    state = ClusterState()
    room = {"cpu": "64", "memory": "64Gi", "pods": "100"}
    put(state, "Node", "n", status={"allocatable": room})
    for name, parent in queues.items():
        put(state, "Queue", name, spec={"parent": parent})
        put(state, "PodGroup", f"job-{name}", spec={"queue": name, "minMember": 1})
        requests = {"cpu": "1500m", "memory": "1Gi"}
        spec = {"nodeName": "n", "containers": [{"resources": {"requests": requests}}]}
        meta = {"annotations": {"scheduling.k8s.io/group-name": f"job-{name}"}}
        put(state, "Pod", f"pod-{name}", meta=meta, spec=spec, status={"phase": "Running"})
    return state


def cpu(state: ClusterState) -> dict[str, str]:
    return {u.key: u.status["allocated"]["cpu"] for u in QueueStatuses().updates(state)}


def test_a_queue_says_what_its_tasks_hold() -> None:
    (update,) = QueueStatuses().updates(cluster(a=""))
    assert (update.kind, update.key) == ("Queue", "a")
    allocated = update.status["allocated"]
    assert (allocated["cpu"], allocated["memory"]) == ("1500m", str(2**30))


def test_in_a_tree_a_queue_says_what_is_below_it_too() -> None:
    state = cluster(b="a", a="root", root="")
    assert cpu(state) == {"b": "1500m", "a": "3", "root": "4500m"}


def test_parents_that_form_a_ring_do_no_harm() -> None:
    assert cpu(cluster(root="", a="b", b="a")) == {"root": "1500m", "a": "3", "b": "3"}


def test_without_a_root_there_is_no_tree() -> None:
    assert cpu(cluster(a="", b="a")) == {"a": "1500m", "b": "1500m"}


def test_a_status_that_is_right_is_left_alone_however_it_is_written() -> None:
    state = cluster(a="")
    (update,) = QueueStatuses().updates(state)
    right = {**update.status["allocated"], "cpu": "1.5", "memory": "1Gi"}
    put(state, "Queue", "a", status={"allocated": right})
    assert QueueStatuses().updates(state) == []


def test_what_is_not_held_any_more_is_written_as_nothing() -> None:
    state = ClusterState()
    put(state, "Queue", "a", status={"allocated": {"cpu": "2", "nvidia.com/gpu": "1"}})
    (update,) = QueueStatuses().updates(state)
    assert update.status == {"allocated": {"cpu": "0", "nvidia.com/gpu": "0"}}


def test_queues_are_looked_at_now_and_then_only() -> None:
    state, statuses = cluster(a=""), QueueStatuses()
    state.now = 100.0
    assert len(statuses.updates(state)) == 1
    state.now += EVERY / 2
    assert statuses.updates(state) == []
    state.now += EVERY
    assert len(statuses.updates(state)) == 1
