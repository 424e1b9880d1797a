"""An extender server that follows a cluster: names are enough, and what it binds counts at once."""

from __future__ import annotations

from typing import Any

from extender_serving import Serving
from extender_world import node, pod

from pumice.engine.scope import Scope, scope
from pumice.extender.server import app
from pumice.framework.plugin import Plugin
from pumice.model import api
from pumice.model.events import ClusterEvent, Gone, Seen
from pumice.model.intents import Bind
from pumice.model.node import Node
from pumice.model.reason import Unfit
from pumice.model.task import Task


class One(Plugin):
    """One pod on a node; prefers nodes with a long label."""

    name = "one"

    @scope(Scope.NODE)
    def predicate(self, task: Task, node: Node) -> None:
        if node.tasks:
            raise Unfit("taken")

    @scope(Scope.STATIC)
    def node_order(self, task: Task, node: Node) -> float:
        return float(len(node.labels.get("rack", "")))


class Follow:
    """A cluster whose events the test gives."""

    name = "cluster"

    def __init__(self, *objects: tuple[str, dict[str, Any]]) -> None:
        self.batches: list[list[ClusterEvent]] = [[Seen(api.decode(kind, data)) for kind, data in objects]]
        self.waits = ""
        self.binds: list[Bind] = []
        self.refuses = ""

    def trouble(self) -> str:
        return self.waits

    def drain(self) -> list[ClusterEvent]:
        return self.batches.pop(0) if self.batches else []

    def bind(self, intent: Bind) -> None:
        if self.refuses:
            raise ValueError(self.refuses)
        self.binds.append(intent)


TWO = [("Node", node("n1", labels={"rack": "aaa"})), ("Node", node("n2", labels={"rack": "b"}))]


def fitting(serving: Serving, data: dict[str, Any], *names: str) -> list[str]:
    status, answer = serving.post("filter", {"Pod": data, "NodeNames": list(names)})
    assert status == 200, answer
    return answer["NodeNames"] or []


def test_nodes_need_only_be_named() -> None:
    with Serving(app([One], cluster=Follow(*TWO, ("Pod", pod("w-0", on="n1"))))) as serving:
        assert fitting(serving, pod("w-1"), "n1", "n2") == ["n2"]
        scores = serving.post("prioritize", {"Pod": pod("w-1"), "NodeNames": ["n1", "n2"]})[1]
    assert {one["Host"]: one["Score"] for one in scores} == {"n1": 3, "n2": 1}


def test_a_node_that_was_not_seen_yet_is_refused_alone() -> None:
    with Serving(app([One], cluster=Follow(*TWO))) as serving:
        answer = serving.post("filter", {"Pod": pod("w-1"), "NodeNames": ["n1", "n9"]})[1]
        scores = serving.post("prioritize", {"Pod": pod("w-1"), "NodeNames": ["n9", "n2"]})[1]
    assert answer["NodeNames"] == ["n1"]
    assert answer["FailedNodes"] == {"n9": "the extender has not seen this node yet"}
    assert [one["Host"] for one in scores] == ["n2"]


def test_a_pod_that_only_the_question_tells_of_is_forgotten_again() -> None:
    with Serving(app([One], cluster=Follow(*TWO))) as serving:
        assert fitting(serving, pod("w-0", on="n1"), "n1") == []
        assert fitting(serving, pod("w-1"), "n1") == ["n1"]


def test_a_pod_of_the_same_name_in_a_question_does_not_replace_the_clusters_own() -> None:
    cluster = Follow(*TWO, ("Pod", pod("w-0", on="n1")))
    other = pod("w-0")
    other["metadata"]["uid"] = "another"
    with Serving(app([One], cluster=cluster)) as serving:
        assert fitting(serving, other, "n1", "n2") == ["n1", "n2"]
        assert fitting(serving, pod("w-1"), "n1", "n2") == ["n2"]


def test_nothing_is_answered_before_the_cluster_was_read() -> None:
    cluster = Follow(*TWO)
    cluster.waits = "waiting for the first list of Pod"
    with Serving(app([One], cluster=cluster)) as serving:
        assert serving.request("GET", "/readyz")[0] == 503
        status, answer = serving.post("filter", {"Pod": pod("w-1"), "NodeNames": ["n1"]})
        assert (status, answer) == (503, {"errorMessage": cluster.waits})
        cluster.waits = ""
        assert serving.request("GET", "/readyz")[0] == 200
        assert fitting(serving, pod("w-1"), "n1") == ["n1"]


def bind(serving: Serving, name: str, where: str) -> str:
    asked = {"PodName": name, "PodNamespace": "ml", "PodUID": f"uid-{name}", "Node": where}
    status, answer = serving.post("bind", asked)
    assert status == 200
    return str(answer["Error"])


def test_a_pod_that_it_bound_counts_before_the_cluster_shows_it() -> None:
    cluster = Follow(*TWO, ("Pod", pod("w-0")))
    with Serving(app([One], cluster=cluster)) as serving:
        assert fitting(serving, pod("w-0"), "n1") == ["n1"]
        assert bind(serving, "w-0", "n1") == ""
        assert fitting(serving, pod("w-1"), "n1", "n2") == ["n2"]
    assert cluster.binds == [Bind("ml/w-0", "uid-w-0", "n1")]


def test_a_bind_that_the_cluster_refuses_is_answered_with_its_reason_and_does_not_count() -> None:
    cluster = Follow(*TWO, ("Pod", pod("w-0")))
    cluster.refuses = "already assigned"
    with Serving(app([One], cluster=cluster)) as serving:
        assert "already assigned" in bind(serving, "w-0", "n1")
        assert fitting(serving, pod("w-1"), "n1") == ["n1"]


def test_a_no_to_every_node_is_thought_over_when_the_watch_is_a_moment_late() -> None:
    cluster = Follow(*TWO, ("Pod", pod("w-0", on="n1")))
    with Serving(app([One], cluster=cluster)) as serving:
        assert fitting(serving, pod("w-1"), "n1") == []
        cluster.batches = [[], [Gone("Pod", "ml/w-0")]]
        assert fitting(serving, pod("w-1"), "n1") == ["n1"]


def test_a_name_alone_is_not_enough_where_no_cluster_is_followed() -> None:
    with Serving(app([One])) as serving:
        status, answer = serving.post("filter", {"Pod": pod("w-1"), "NodeNames": ["n1"]})
    assert status == 409
    assert answer["errorMessage"].startswith("node n1: not told")
