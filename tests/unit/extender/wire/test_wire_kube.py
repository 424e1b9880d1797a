"""kube-scheduler's extender protocol: questions with whole nodes and with names, and what it reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from wire_samples import NODE, POD, TASK, VICTIM

from pumice.extender.wire import kube
from pumice.extender.wire import messages as m
from pumice.extender.wire import verbs as v
from pumice.extender.wire.errors import WireError
from pumice.extender.wire.objects import WireNode, WireVictims


def _body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def test_a_filter_question_with_whole_nodes_is_read() -> None:
    request = kube.decode_request(
        v.BATCH_PREDICATE, _body(Pod=POD, Nodes={"metadata": {}, "items": [NODE]}, NodeNames=None)
    )
    task, node = request.task, request.nodes[0]
    assert (task.uid, task.job, task.role, task.priority, task.status) == (
        "uid-0",
        "ml/train",
        "worker",
        1000,
        "Pending",
    )
    assert task.requests == {"cpu": 1500, "memory": 4 * 2**30, "nvidia.com/gpu": 1000}
    assert node.allocatable == {"cpu": 7500, "memory": 30 * 2**30, "nvidia.com/gpu": 2000, "pods": 110}
    assert (node.name, node.max_pods, node.idle, node.taints[0].key) == ("gpu-1", 110, None, "gpu")
    assert not request.names_only


@pytest.mark.parametrize(
    "names", [{"pod": POD, "nodenames": ["a", "b"]}, {"Pod": POD, "Nodes": None, "NodeNames": ["a", "b"]}]
)
def test_a_filter_question_with_names_is_read_in_any_case(names: dict[str, Any]) -> None:
    request = kube.decode_request(v.BATCH_PREDICATE, _body(**names))
    assert (request.nodes, request.names_only) == ([WireNode(name="a"), WireNode(name="b")], True)


def test_names_are_answered_with_names_and_nodes_with_nodes() -> None:
    named = kube.decode_request(v.BATCH_PREDICATE, _body(Pod=POD, NodeNames=["a", "b"]))
    answer = m.BatchPredicateResponse.to(named, {"b": (2, "full")})
    assert json.loads(kube.encode_response(v.BATCH_PREDICATE, answer)) == {
        "Nodes": None,
        "NodeNames": ["a"],
        "FailedNodes": {"b": "full"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    whole = kube.decode_request(v.BATCH_PREDICATE, _body(Pod=POD, Nodes={"items": [NODE]}))
    body = json.loads(kube.encode_response(v.BATCH_PREDICATE, m.BatchPredicateResponse.to(whole, {})))
    assert (body["Nodes"]["items"], body["NodeNames"]) == ([NODE], None)


def test_a_refusal_by_code_alone_is_still_a_refusal() -> None:
    named = kube.decode_request(v.BATCH_PREDICATE, _body(Pod=POD, NodeNames=["a", "b"]))
    body = json.loads(
        kube.encode_response(v.BATCH_PREDICATE, m.BatchPredicateResponse.to(named, {"a": (3, ""), "b": (2, "")}))
    )
    assert body["FailedAndUnresolvableNodes"] == {"a": "code 3"}
    assert body["FailedNodes"] == {"b": "code 2"}


def test_a_filter_answer_must_say_which_nodes_fit() -> None:
    with pytest.raises(WireError, match="extender batchPredicate: answer: fitting: must name the nodes that fit"):
        kube.encode_response(v.BATCH_PREDICATE, m.BatchPredicateResponse())
    failed = kube.encode_response(v.BATCH_PREDICATE, m.BatchPredicateResponse(error="down"))
    assert json.loads(failed)["Error"] == "down"


def test_a_filter_answer_without_nodes_lets_none_pass() -> None:
    answer = kube.decode_response(v.BATCH_PREDICATE, b'{"FailedNodes": {"a": "full"}}')
    assert answer.fitting == []
    assert answer.refusals(["a", "b"]) == {"a": (2, "full"), "b": (2, "not among the nodes that fit")}


def test_scores_are_written_as_whole_numbers_and_an_empty_list_is_an_answer() -> None:
    answer = m.PrioritizeResponse(scores={"b": 2.5, "a": -0.4, "c": 9})
    body = json.loads(kube.encode_response(v.PRIORITIZE, answer))
    assert body == [{"Host": "a", "Score": 0}, {"Host": "b", "Score": 3}, {"Host": "c", "Score": 9}]
    assert kube.encode_response(v.PRIORITIZE, m.PrioritizeResponse()) == b"[]"
    assert kube.decode_response(v.PRIORITIZE, b"[]") == kube.decode_response(v.PRIORITIZE, b"null")
    with pytest.raises(WireError, match="number nan: JSON has no such number"):
        kube.encode_response(v.PRIORITIZE, m.PrioritizeResponse(scores={"a": float("nan")}))


def test_victims_are_read_whole_or_by_uid() -> None:
    victims = {"n1": {"Pods": [POD], "NumPDBViolations": 1}}
    for field in ("NodeNameToVictims", "nodeToVictims"):
        request = kube.decode_request(v.PREEMPT, _body(Pod=POD, **{field: victims}))
        assert request.candidates["n1"].tasks[0].uid == "uid-0"
        assert (request.candidates["n1"].pdb_violations, request.names_only) == (1, False)
    by_uid = {"n1": {"Pods": [{"UID": "u"}], "NumPDBViolations": 0}}
    request = kube.decode_request(v.PREEMPT, _body(Pod=POD, NodeNameToVictims=None, NodeNameToMetaVictims=by_uid))
    assert (request.candidates["n1"].tasks[0].uid, request.names_only) == ("u", True)
    assert json.loads(kube.encode_request(v.PREEMPT, request))["NodeNameToMetaVictims"] == by_uid


def test_a_preempt_answer_names_victims_by_uid() -> None:
    answer = m.PreemptResponse(candidates={"n1": WireVictims(tasks=[VICTIM], pdb_violations=2)})
    body = kube.encode_response(v.PREEMPT, answer)
    assert json.loads(body) == {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-9"}], "NumPDBViolations": 2}}}
    assert kube.decode_response(v.PREEMPT, body).candidates["n1"].tasks[0].uid == "uid-9"


def test_a_bind_question_names_pod_and_node() -> None:
    request = m.BindRequest(task=TASK, node=WireNode(name="gpu-1"))
    body = kube.encode_request(v.BIND, request)
    assert json.loads(body) == {"PodName": "train-worker-0", "PodNamespace": "ml", "PodUID": "uid-0", "Node": "gpu-1"}
    again = kube.decode_request(v.BIND, body)
    assert (again.task.uid, again.task.namespace, again.node.name) == ("uid-0", "ml", "gpu-1")


@pytest.mark.parametrize(
    ("verb", "fields", "rule"),
    [
        (v.BATCH_PREDICATE, {"Nodes": None}, "request: Pod: must be given"),
        (v.BATCH_PREDICATE, {"Pod": {"spec": {"containers": [5]}}}, "request: Expected `object`, got `int`"),
        (v.BATCH_PREDICATE, {"Pod": POD, "Nodes": {"items": [3]}}, "request: Expected `object`, got `int`"),
        (
            v.BATCH_PREDICATE,
            {"Pod": {"spec": {"overhead": {"cpu": "much"}}}},
            "request: quantity 'much': must be a number",
        ),
        (v.BIND, {"PodName": "p"}, "request.node: must be given, got None"),
        (v.PREDICATE, {}, "the kube dialect does not carry this verb"),
    ],
)
def test_a_bad_question_is_refused(verb: v.Verb[Any, Any], fields: dict[str, Any], rule: str) -> None:
    with pytest.raises(WireError, match=f"^extender {verb}: {rule}"):
        kube.decode_request(verb, _body(**fields))
