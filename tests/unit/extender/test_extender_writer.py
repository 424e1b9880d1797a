"""What is written once is not written again until it changes, and always says how things stand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pumice.engine.rows import NodeRows
from pumice.extender.answering.told_state import ToldState
from pumice.extender.asking.calls import CallFailed, QuestionWriter
from pumice.extender.dialects import QuestionReader
from pumice.extender.protocol import ALLOCATE_FUNC, BATCH_PREDICATE, BEST_NODE, ON_SESSION_OPEN, PREDICATE
from pumice.model import api
from pumice.model.events import Seen
from pumice.model.status import TaskStatus
from pumice.state.cluster import ClusterState

AMOUNTS = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"}


def _pod(name: str, labels: dict[str, str], on: str = "", group: str = "") -> dict[str, Any]:
    requests = {"cpu": "500m", "memory": "1Gi"}
    spec = {"containers": [{"resources": {"requests": requests}}]} | ({"nodeName": on} if on else {})
    meta: dict[str, Any] = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "labels": labels}
    if group:
        meta["annotations"] = {"scheduling.k8s.io/group-name": group}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running" if on else "Pending"}}


def _group(queue: str) -> dict[str, Any]:
    return {"metadata": {"name": "g", "namespace": "ml"}, "spec": {"minMember": 1, "queue": queue}}


def _see(state: ClusterState, kind: str, data: dict[str, Any]) -> None:
    state.apply(Seen(api.decode(kind, data)))


@pytest.fixture
def state() -> ClusterState:
    state = ClusterState()
    for name in ("n1", "n2"):
        _see(state, "Node", {"metadata": {"name": name}, "status": {"allocatable": AMOUNTS, "capacity": AMOUNTS}})
    _see(state, "Pod", _pod("run", {"a": "1"}, on="n1"))
    _see(state, "Pod", _pod("wait", {}))
    return state


def _nodes(writer: QuestionWriter, state: ClusterState, extra: list[int] | None = None) -> dict[str, Any]:
    """Name -> the node as it is told."""
    task = state.tasks["uid-wait"]
    rows = NodeRows(
        state.table, np.arange(2), np.array(extra, dtype=np.int64) if extra else None, task.klass if extra else None
    )
    told = json.loads(b"".join(writer.nodes(BATCH_PREDICATE, task, rows)))["nodes"]
    return {node.get("name") or node["Name"]: node for node in told}


def test_a_placement_shows_in_the_next_question(state: ClusterState) -> None:
    writer = QuestionWriter("documented")
    assert _nodes(writer, state)["n2"]["used"]["cpu"] == 0
    state.set_status(state.tasks["uid-wait"], TaskStatus.ALLOCATED, state.nodes["n2"])
    after = _nodes(writer, state)
    assert (after["n2"]["used"]["cpu"], after["n2"]["idle"]["cpu"]) == (0.5, 7.5)
    assert after["n1"]["used"]["cpu"] == 0.5


def test_new_labels_of_a_running_pod_show_in_the_next_question(state: ClusterState) -> None:
    writer = QuestionWriter("volcano")
    assert _nodes(writer, state)["n1"]["Tasks"]["ml/run"]["Pod"]["metadata"]["labels"] == {"a": "1"}
    _see(state, "Pod", _pod("run", {"a": "2"}, on="n1"))
    assert _nodes(writer, state)["n1"]["Tasks"]["ml/run"]["Pod"]["metadata"]["labels"] == {"a": "2"}


def test_a_job_that_moves_to_another_queue_is_told_in_it(state: ClusterState) -> None:
    for name in ("a", "b"):
        _see(state, "Queue", {"metadata": {"name": name}, "spec": {"weight": 1}})
    _see(state, "PodGroup", _group("a"))
    _see(state, "Pod", _pod("member", {}, group="g"))
    writer = QuestionWriter("documented")
    task = state.tasks["uid-member"]
    assert json.loads(writer.question(ALLOCATE_FUNC, task))["task"]["queue"] == "a"
    _see(state, "PodGroup", _group("b"))
    assert json.loads(writer.question(ALLOCATE_FUNC, state.tasks["uid-member"]))["task"]["queue"] == "b"


@pytest.mark.parametrize("names_only", [False, True])
def test_imagined_nodes_are_told_as_they_would_be(state: ClusterState, names_only: bool) -> None:
    writer = QuestionWriter("documented", names_only=names_only)
    _nodes(writer, state)
    imagined = _nodes(writer, state, [3, 1])
    assert imagined["n1"]["used"]["cpu"] == 0.5 + 3 * 0.5
    assert imagined["n2"]["idle"]["cpu"] == 7.5


def test_new_labels_of_a_running_pod_show_on_imagined_nodes_of_the_next_session(state: ClusterState) -> None:
    writer = QuestionWriter("volcano")
    for value in ("1", "2"):
        _see(state, "Pod", _pod("run", {"a": value}, on="n1"))
        writer.begin()
        told = _nodes(writer, state, [3, 1])["n1"]["Tasks"]
        assert (told["ml/run"]["Pod"]["metadata"]["labels"], "ml/wait" in told) == ({"a": value}, True)


def test_amounts_are_told_in_cores_mebibytes_and_whole_units(state: ClusterState) -> None:
    task = state.tasks["uid-wait"]
    (body,) = QuestionWriter("documented").predicate(PREDICATE, task, NodeRows(state.table, np.array([0])))
    told = json.loads(body)
    assert told["task"]["resources"] == {"cpu": 0.5, "memory": 1024}
    assert told["node"]["allocatable"] == {
        "cpu": 8,
        "memory": 32 * 1024,
        "pods": 110,
        "ephemeral-storage": 2**30,
        "hugepages-2Mi": 4 * 2**20,
    }
    (body,) = QuestionWriter("volcano").predicate(PREDICATE, task, NodeRows(state.table, np.array([0])))
    scalars = json.loads(body)["node"]["Allocatable"]["ScalarResources"]
    assert scalars == {"ephemeral-storage": 2**30 * 1000, "hugepages-2Mi": 4 * 2**20 * 1000, "pods": 110}


def test_a_task_that_was_placed_names_its_node_in_its_pod(state: ClusterState) -> None:
    writer = QuestionWriter("volcano")
    task = state.tasks["uid-wait"]
    assert "nodeName" not in json.loads(writer.task(task))["Pod"]["spec"]
    state.set_status(task, TaskStatus.ALLOCATED, state.nodes["n2"])
    told = json.loads(writer.task(task))
    assert (told["NodeName"], told["Pod"]["spec"]["nodeName"], told["Status"]) == ("n2", "n2", 2)


def test_what_cannot_be_written_is_an_error_of_the_extender(state: ClusterState) -> None:
    with pytest.raises(CallFailed, match="no such number") as failed:
        QuestionWriter("documented").question(BEST_NODE, state.tasks["uid-wait"], {"n1": float("inf")})
    assert failed.value.kind == "request"


@pytest.mark.parametrize("dialect", ["documented", "volcano", "kube"])
@pytest.mark.parametrize("names_only", [False, True])
def test_a_long_list_of_which_something_changed_is_what_a_fresh_writer_writes(dialect: str, names_only: bool) -> None:
    state = ClusterState()
    _see(state, "Pod", _pod("wait", {}))
    for n in range(300):
        _see(state, "Node", {"metadata": {"name": f"n{n}"}, "status": {"allocatable": AMOUNTS, "capacity": AMOUNTS}})
    task = state.tasks["uid-wait"]
    writer = QuestionWriter(dialect, names_only=names_only)
    for rows in ([*range(300)], [], [*range(299)], [7], [*range(290)], [*range(1, 300)], [*range(300)]):
        asked = NodeRows(state.table, np.array(rows, dtype=np.intp))
        fresh = QuestionWriter(dialect, names_only=names_only).nodes(BATCH_PREDICATE, task, asked)
        assert b"".join(writer.nodes(BATCH_PREDICATE, task, asked)) == b"".join(fresh)
        json.loads(b"".join(fresh))
        meta = {"name": f"n{len(rows) // 2}", "labels": {"seen": "again"}}
        _see(state, "Node", {"metadata": meta, "status": {"allocatable": AMOUNTS, "capacity": AMOUNTS}})


def test_what_a_snapshot_says_of_a_queue_stands_above_its_object_and_its_tasks(state: ClusterState) -> None:
    _see(state, "Queue", {"metadata": {"name": "q"}, "spec": {"weight": 1, "capability": {"cpu": "12"}}})
    snapshot = json.loads(QuestionWriter("documented").question(ON_SESSION_OPEN, state))
    snapshot["snapshot"]["queues"][0] |= {"capability": {"cpu": 13}, "allocated": {"cpu": 7}}
    told = ToldState()
    told.load(QuestionReader().read(ON_SESSION_OPEN, json.dumps(snapshot).encode()).parts["snapshot"])
    queue = told.state.queues["q"]
    assert (queue.capability["cpu"], queue.allocated["cpu"]) == (13, 7)
