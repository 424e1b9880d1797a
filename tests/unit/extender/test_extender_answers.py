"""Answers are read as Go reads them, in whatever dialect they come."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.extender import answers as m
from pumice.extender import protocol as v
from pumice.extender.answers import decode, of_value
from pumice.extender.dialects import DIALECTS
from pumice.extender.gojson import MAX_BODY, MAX_DEPTH, WireError


@pytest.mark.parametrize(
    ("verb", "body", "response"),
    [
        (v.PREDICATE, b'{"status": "no", "code": 2}', m.NodeRefusal(text="no", code=2)),
        (v.PREDICATE, b'{"code": 2, "errorMessage": "no"}', m.NodeRefusal(text="no", code=2)),
        (v.PREDICATE, b'{"status": "", "errorMessage": "no"}', m.NodeRefusal(text="no")),
        (v.PREDICATE, b'{"STATUS": "no", "Code": 3}', m.NodeRefusal(text="no", code=3)),
        (v.PREDICATE, '{"ſtatus": "no"}'.encode(), m.NodeRefusal(text="no")),
        (v.PREDICATE, b'{"status": "a", "Status": "b"}', m.NodeRefusal(text="b")),
        (v.PREDICATE, b'{"code": null, "other": [1, {}]}', m.NodeRefusal()),
        (v.PREDICATE, b" null", m.NodeRefusal()),
        (v.PREDICATE, b'{"code": 3}{"code": 4}', m.NodeRefusal(code=3)),
        (v.PREDICATE, b'\n{"status": "\xff"}\x00', m.NodeRefusal(text="\ufffd")),
        (
            v.PRIORITIZE,
            b'{"nodeScore": {"a": 1, "b": 0.5, "c": null}}',
            m.Scores(scores={"a": 1, "b": 0.5, "c": 0}),
        ),
        (v.PRIORITIZE, b'{"nodeScore": {}}', m.Scores(scores={})),
        (v.PRIORITIZE, b'{"nodeScore": null, "errorMessage": "x"}', m.Scores(scores=None, error="x")),
        (v.PRIORITIZE, b"{}", m.Scores()),
        (v.PRIORITIZE, b'[{"Host": "a", "Score": 7}, {"host": "b"}]', m.Scores(scores={"a": 7, "b": 0})),
        (v.PREEMPTABLE, b'{"status": 1}', m.Victims(status=1)),
        (v.PREEMPTABLE, b'{"status": 1, "victims": null}', m.Victims(status=1, uids=None)),
        (v.RECLAIMABLE, b'{"status": -1, "victims": []}', m.Victims(status=-1, uids=[])),
        (
            v.RECLAIMABLE,
            b'{"status": 1, "victims": [{"UID": "u", "Job": 5}]}',
            m.Victims(status=1, uids=["u"]),
        ),
        (v.JOB_READY, b'{"status": true}', m.VerdictAnswer(status=True)),
        (v.JOB_READY, b"{}", m.VerdictAnswer(status=False)),
        (v.QUEUE_OVERUSED, b'{"Overused": true}', m.Overused(overused=True)),
        (v.JOB_ENQUEUED, b'{"anything": 1}', m.Acknowledged()),
        (v.BIND, b'{"Error": "taken"}', m.Error(error="taken")),
        (v.BIND, b'{"errorMessage": "taken"}', m.Error(error="taken")),
        (
            v.BATCH_PREDICATE,
            b'{"errors": {"a": "no"}, "code": {"a": 2, "b": 3}}',
            m.NodeRefusals(errors={"a": "no"}, codes={"a": 2, "b": 3}),
        ),
        (
            v.BATCH_PREDICATE,
            b'{"nodenames": ["c"], "failedNodes": {"a": "no"}, "failedAndUnresolvableNodes": {"b": "never"}}',
            m.NodeRefusals(
                errors={"a": "no", "b": "never"},
                codes={"a": 2, "b": 3},
                fitting=["c"],
            ),
        ),
    ],
)
def test_an_answer_is_understood(verb: v.Verb[Any], body: bytes, response: object) -> None:
    assert decode(verb.name, verb.answer, body) == response


@pytest.mark.parametrize(
    ("verb", "body", "rule"),
    [
        (v.PREDICATE, b'{"status": 5}', "answer.status: must be text, got 5"),
        (v.PREDICATE, b'{"code": "2"}', "answer.code: must be a whole number of 64 bits, got '2'"),
        (v.PREDICATE, b'{"code": 1.0}', "answer.code: must be a whole number of 64 bits, got 1.0"),
        (v.PREDICATE, b'{"code": true}', "answer.code: must be a whole number of 64 bits, got True"),
        (v.PREDICATE, b'{"code": 9223372036854775808}', "answer.code: must be a whole number"),
        (v.PREDICATE, b"[]", r"answer: must be an object, got \[\]"),
        (v.PRIORITIZE, b"[]", r"answer: must be an object, got \[\]"),
        (v.PRIORITIZE, b'{"nodeScore": {"a": "high"}}', r"answer.nodeScore\['a'\]: must be a number, got 'high'"),
        (v.PRIORITIZE, b'{"nodeScore": {"a": true}}', r"answer.nodeScore\['a'\]: must be a number, got True"),
        (
            v.PRIORITIZE,
            b'{"nodeScore": {"a": 1' + b"0" * 400 + b"}}",
            r"answer.nodeScore\['a'\]: must be a number of 64",
        ),
        (v.PRIORITIZE, b'{"nodeScore": [1]}', r"answer.nodeScore: must be an object, got \[1\]"),
        (v.PRIORITIZE, b'[{"Host": "a", "Score": 0.5}]', r"answer\[0\].score: must be a whole number"),
        (v.PREEMPTABLE, b'{"victims": {}}', r"answer.victims: must be a list, got \{\}"),
        (v.PREEMPTABLE, b'{"victims": ["u"]}', r"answer.victims\[0\]: must be an object, got 'u'"),
        (v.PREEMPTABLE, b'{"victims": [null]}', r"answer.victims\[0\].uid: must be given, got None"),
        (v.PREEMPTABLE, b'{"victims": [{"uid": ""}]}', r"answer.victims\[0\].uid: must be given, got ''"),
        (v.JOB_READY, b'{"status": 1}', "answer.status: must be true or false, got 1"),
        (v.BATCH_PREDICATE, b'{"errors": {"a": 1}}', r"answer.errors\['a'\]: must be text, got 1"),
        (v.BATCH_PREDICATE, b'{"nodeNames": [1]}', r"answer.nodeNames\[0\]: must be text, got 1"),
        (v.BATCH_PREDICATE, b'{"nodes": {"items": [{}]}}', r"answer.nodes.items\[0\].metadata.name: must be given"),
        (v.PREDICATE, b"", "answer: must be JSON, got ''"),
        (v.PREDICATE, b"scheduler extender is down", "answer: must be JSON, got 'scheduler extender is down'"),
        (v.PREDICATE, b'{"code": NaN}', "answer: must be JSON"),
        (v.PREDICATE, b'{"code": 1e999}', "answer: Number out of range"),
    ],
)
def test_a_bad_answer_is_refused_with_verb_field_and_value(verb: v.Verb[Any], body: bytes, rule: str) -> None:
    with pytest.raises(WireError, match=rf"^extender {verb}: {rule}") as caught:
        decode(verb.name, verb.answer, body)
    assert caught.value.verb == verb.name


def test_a_long_bad_value_is_cut_in_the_message() -> None:
    with pytest.raises(WireError) as caught:
        decode(v.PREDICATE.name, v.PREDICATE.answer, b'{"code": "' + b"x" * 5000 + b'"}')
    assert len(str(caught.value)) < 200


def test_an_answer_may_be_as_large_as_volcano_allows_and_no_larger() -> None:
    body = b'{"status": ""}'
    largest = body + b" " * (MAX_BODY - len(body))
    assert decode(v.PREDICATE.name, v.PREDICATE.answer, largest) == m.NodeRefusal()
    with pytest.raises(WireError, match="answer: must not be larger than 10485760 bytes, got 10485761"):
        decode(v.PREDICATE.name, v.PREDICATE.answer, largest + b" ")


def _nested(levels: int) -> bytes:
    """An answer with lists inside each other, *levels* deep in all."""
    return b'{"x": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.slow
def test_an_answer_may_nest_as_deep_as_allowed_and_no_deeper() -> None:
    wide = b'{"y": "[[[[", "z": [' + b"{}," * 500 + b"{}]}"
    assert decode(v.PREDICATE.name, v.PREDICATE.answer, wide) == m.NodeRefusal()
    assert decode(v.PREDICATE.name, v.PREDICATE.answer, _nested(MAX_DEPTH)) == m.NodeRefusal()
    for levels in (MAX_DEPTH + 1, 5_000, 1_000_000):
        with pytest.raises(WireError, match="extender predicate: answer: must not nest deeper than 100 levels"):
            decode(v.PREDICATE.name, v.PREDICATE.answer, _nested(levels))


def test_brackets_inside_strings_do_not_hide_depth() -> None:
    levels = 3_000
    body = b'["]",' * levels + b"0" + b',"["]' * levels
    with pytest.raises(WireError, match="must not nest deeper than 100 levels"):
        decode(v.PREDICATE.name, v.PREDICATE.answer, body)


def test_an_answer_cut_short_is_refused_as_such() -> None:
    with pytest.raises(WireError, match="answer: must be JSON"):
        decode(v.PREDICATE.name, v.PREDICATE.answer, b'{"x": [' + b"[]," * 200)


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_no_bytes_whatsoever_raise_anything_but_a_wire_error(body: bytes) -> None:
    for verb in v.VERBS.values():
        try:
            decode(verb.name, verb.answer, body)
        except WireError:
            continue


_NAMES = [
    "status",
    "code",
    "victims",
    "UID",
    "nodeScore",
    "errors",
    "Nodes",
    "items",
    "metadata",
    "nodeNameToMetaVictims",
    "pods",
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=4),
    max_leaves=8,
)


@given(json_values)
@settings(deadline=None)
def test_no_json_value_raises_anything_but_a_wire_error(value: Any) -> None:
    for verb in v.VERBS.values():
        try:
            of_value(verb.name, verb.answer, value)
        except WireError:
            continue


def test_a_batch_answer_gives_code_and_reason_for_each_node_that_does_not_fit() -> None:
    answer = m.NodeRefusals(errors={"a": "no", "b": "never"}, codes={"b": 3, "c": 2})
    assert answer.refused("abcd") == {"a": (1, "no"), "b": (3, "never"), "c": (2, "refused with code 2")}
    only = m.NodeRefusals(fitting=["a"])
    assert only.refused("ab") == {"b": (2, "not among the nodes that fit")}


def test_a_volcano_reader_understands_a_kube_answer() -> None:
    response = DIALECTS["volcano"].read_answer(v.PRIORITIZE, b'[{"Host": "n1", "Score": 10}]')
    assert response.scores == {"n1": 10}
