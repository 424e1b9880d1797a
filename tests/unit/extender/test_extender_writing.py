"""What is written once is not written again until it changes, and always says how things stand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pumice.engine.rows import NodeRows
from pumice.extender.port import CallFailed
from pumice.extender.wire.dialects import DIALECTS
from pumice.extender.wire.messages import BestNodeRequest, WireTask
from pumice.extender.wire.verbs import BATCH_PREDICATE, BEST_NODE, PREDICATE
from pumice.extender.writing import Writer
from pumice.model import api
from pumice.model.events import Seen
from pumice.model.status import TaskStatus
from pumice.state.cluster import ClusterState

AMOUNTS = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"}


def _pod(name: str, labels: dict[str, str], on: str = "") -> dict[str, Any]:
    requests = {"cpu": "500m", "memory": "1Gi"}
    spec = {"containers": [{"resources": {"requests": requests}}]} | ({"nodeName": on} if on else {})
    meta = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "labels": labels}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running" if on else "Pending"}}


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


def _nodes(writer: Writer, state: ClusterState, extra: list[int] | None = None) -> dict[str, Any]:
    task = state.tasks["uid-wait"]
    rows = NodeRows(
        state.table, np.arange(2), np.array(extra, dtype=np.int64) if extra else None, task.klass if extra else None
    )
    body = writer.nodes(BATCH_PREDICATE, task, rows)
    request = DIALECTS[writer.dialect].decode_request(BATCH_PREDICATE, body)
    return {node.name: node for node in request.nodes}


@pytest.mark.parametrize("dialect", ["documented", "volcano", "both"])
def test_a_placement_shows_in_the_next_question(state: ClusterState, dialect: str) -> None:
    writer = Writer(dialect, names_only=False)
    assert _nodes(writer, state)["n2"].used.get("cpu", 0) == 0
    state.set_status(state.tasks["uid-wait"], TaskStatus.ALLOCATED, state.nodes["n2"])
    after = _nodes(writer, state)
    assert after["n2"].used["cpu"] == 500
    assert after["n2"].idle["cpu"] == 7500
    assert after["n1"].used["cpu"] == 500


@pytest.mark.parametrize("dialect", ["volcano", "both"])
def test_new_labels_of_a_running_pod_show_in_the_next_question(state: ClusterState, dialect: str) -> None:
    writer = Writer(dialect, names_only=False)
    assert _nodes(writer, state)["n1"].tasks[0].labels == {"a": "1"}
    _see(state, "Pod", _pod("run", {"a": "2"}, on="n1"))
    assert _nodes(writer, state)["n1"].tasks[0].labels == {"a": "2"}


@pytest.mark.parametrize("names_only", [False, True])
def test_imagined_nodes_are_told_as_they_would_be(state: ClusterState, names_only: bool) -> None:
    writer = Writer("documented", names_only=names_only)
    _nodes(writer, state)
    imagined = _nodes(writer, state, [3, 1])
    assert imagined["n1"].used["cpu"] == 500 + 3 * 500
    assert imagined["n2"].idle["cpu"] == 7500


def test_amounts_keep_their_units_on_the_way(state: ClusterState) -> None:
    task = state.tasks["uid-wait"]
    (body,) = Writer("documented", names_only=False).predicate(task, NodeRows(state.table, np.array([0])))
    told = json.loads(body)
    assert told["task"]["resources"]["cpu"] == 0.5
    assert told["node"]["allocatable"]["memory"] == 32 * 1024
    assert told["node"]["allocatable"]["ephemeral-storage"] == 2**30
    request = DIALECTS["documented"].decode_request(PREDICATE, body)
    assert request.node.allocatable["hugepages-2Mi"] == 4 * 2**20 * 1000


def test_a_task_that_was_placed_names_its_node_in_its_pod(state: ClusterState) -> None:
    writer = Writer("volcano", names_only=False)
    task = state.tasks["uid-wait"]
    assert "nodeName" not in json.loads(writer.task(task))["Pod"]["spec"]
    state.set_status(task, TaskStatus.ALLOCATED, state.nodes["n2"])
    told = json.loads(writer.task(task))
    assert (told["NodeName"], told["Pod"]["spec"]["nodeName"], told["Status"]) == ("n2", "n2", 2)


def test_what_cannot_be_written_is_an_error_of_the_extender(state: ClusterState) -> None:
    writer = Writer("documented", names_only=False)
    request = BestNodeRequest(task=WireTask(uid="a"), scores={"n1": float("inf")})
    with pytest.raises(CallFailed, match="no such number") as failed:
        writer.request(BEST_NODE, request)
    assert failed.value.kind == "request"
