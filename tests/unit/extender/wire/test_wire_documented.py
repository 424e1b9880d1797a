"""The documented dialect: units, defaults, and that nothing it carries is lost."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_samples import jobs, nodes, queues, tasks, texts

from pumice.extender.wire import documented
from pumice.extender.wire import messages as m
from pumice.extender.wire import verbs as v
from pumice.extender.wire.errors import WireError
from pumice.extender.wire.objects import WireNode, WireSnapshot, WireTask

EXAMPLE = (
    b'{"task": {"namespace": "default", "name": "task-1", "resources": {"cpu": 2, "memory": 4096}},'
    b' "node": {"name": "node-1", "allocatable": {"cpu": 8, "memory": 16384}}}'
)


def test_the_example_of_the_documentation_is_read_in_base_units() -> None:
    request = documented.decode_request(v.PREDICATE, EXAMPLE)
    assert request == m.PredicateRequest(
        task=WireTask(namespace="default", name="task-1", requests={"cpu": 2000, "memory": 4 * 2**30}),
        node=WireNode(name="node-1", allocatable={"cpu": 8000, "memory": 16 * 2**30}),
    )


def test_the_example_of_the_documentation_is_answered_as_documented() -> None:
    assert documented.encode_response(v.PREDICATE, m.PredicateResponse()) == b'{"code":0,"errorMessage":""}'


def test_amounts_are_written_in_cores_mebibytes_and_whole_units() -> None:
    task = WireTask(requests={"cpu": 1500, "memory": 3 * 2**19, "nvidia.com/gpu": 500, "pods": 1})
    body = json.loads(documented.encode_request(v.ALLOCATE_FUNC, m.TaskRequest(task=task)))
    assert body["task"]["resources"] == {"cpu": 1.5, "memory": 1.5, "nvidia.com/gpu": 0.5}


def test_what_a_node_does_not_tell_is_not_written() -> None:
    body = json.loads(documented.encode_request(v.BIND, m.BindRequest(task=WireTask(), node=WireNode(name="n1"))))
    assert body["node"] == {"name": "n1", "labels": {}, "annotations": {}, "taints": [], "allocatable": {}}


def test_what_the_documentation_has_no_field_for_follows_from_annotations_and_requests() -> None:
    body = b'{"task": {"uid": "u", "annotations": {"volcano.sh/preemptable": "false"}, "resources": {"cpu": 0}}}'
    task = documented.decode_request(v.ALLOCATE_FUNC, body).task
    assert (task.preemptable, task.best_effort) == (False, True)


@given(tasks(), nodes())
@settings(deadline=None)
def test_a_task_and_a_node_come_back_as_they_were(task: WireTask, node: WireNode) -> None:
    request = m.PredicateRequest(task=task, node=node)
    assert documented.decode_request(v.PREDICATE, documented.encode_request(v.PREDICATE, request)) == request


@given(st.lists(jobs(), max_size=2), st.lists(nodes(), max_size=2), st.lists(queues, max_size=2))
@settings(deadline=None, max_examples=50)
def test_a_snapshot_comes_back_as_it_was(some_jobs: list, some_nodes: list, some_queues: list) -> None:
    request = m.SessionOpenRequest(snapshot=WireSnapshot(jobs=some_jobs, nodes=some_nodes, queues=some_queues))
    body = documented.encode_request(v.ON_SESSION_OPEN, request)
    assert documented.decode_request(v.ON_SESSION_OPEN, body) == request


scores = st.dictionaries(texts, st.floats(allow_nan=False, allow_infinity=False), max_size=3)


@given(
    st.one_of(
        st.tuples(st.just(v.PREDICATE), st.builds(m.PredicateResponse, text=texts, code=st.integers(-9, 9))),
        st.tuples(st.just(v.PRIORITIZE), st.builds(m.PrioritizeResponse, scores=st.none() | scores, error=texts)),
        st.tuples(st.just(v.JOB_ENQUEUEABLE), st.builds(m.VoteResponse, status=st.integers(-(2**63), 2**63 - 1))),
        st.tuples(
            st.just(v.JOB_VALID), st.builds(m.VerdictResponse, status=st.booleans(), reason=texts, message=texts)
        ),
        st.tuples(st.just(v.TASK_ORDER), st.builds(m.OrderResponse, ranks=scores)),
        st.tuples(st.just(v.GPU_ORDER), st.builds(m.GpuOrderResponse, scores=scores, error=texts)),
        st.tuples(st.just(v.BIND), st.builds(m.ErrorResponse, error=texts)),
    )
)
@settings(deadline=None)
def test_an_answer_comes_back_as_it_was(exchange: tuple) -> None:
    verb, response = exchange
    assert documented.decode_response(verb, documented.encode_response(verb, response)) == response


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b'{"node": {"name": "n"}}', "missing required field `task`"),
        (b'{"task": {"name": 5}, "node": {"name": "n"}}', r"Expected `str \| null`, got `int` - at `\$.task.name`"),
        (b'{"task": {"phase": "Dreaming"}, "node": {"name": "n"}}', "phase: must be one of .*, got 'Dreaming'"),
        (b"[1]", "Expected `object`, got `array`"),
        (b"", "must be JSON, got ''"),
    ],
)
def test_a_bad_request_is_refused_with_verb_and_rule(body: bytes, rule: str) -> None:
    with pytest.raises(WireError, match=rf"^extender predicate: request: .*{rule}"):
        documented.decode_request(v.PREDICATE, body)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_none_cannot_be_said(number: float) -> None:
    with pytest.raises(WireError, match=r"extender prioritize: answer: number (nan|inf): JSON has no such number"):
        documented.encode_response(v.PRIORITIZE, m.PrioritizeResponse(scores={"n1": number}))
    with pytest.raises(WireError, match="extender allocateFunc: request: number"):
        documented.encode_request(v.ALLOCATE_FUNC, m.TaskRequest(task=WireTask(requests={"cpu": number})))


def test_a_verb_that_the_dialect_does_not_carry_is_refused() -> None:
    with pytest.raises(WireError, match="extender preempt: the documented dialect does not carry this verb"):
        documented.decode_request(v.PREEMPT, b"{}")
