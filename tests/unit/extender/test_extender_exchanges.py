"""Exchanges as data: cassettes, and callers that answer from what was recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.errors import InvalidInput
from pumice.extender import cassette
from pumice.extender.answers import NodeRefusal, Victims
from pumice.extender.asking.calls import CallFailed, ReplayCaller, ReplayCallers, call, exchange
from pumice.extender.protocol import PREDICATE, PREEMPTABLE

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def test_the_same_question_gets_the_answers_that_it_got_in_order() -> None:
    body = b'{"task":{"uid":"a"},"node":{"name":"n"}}'
    other_order = b'{"node": {"name": "n"}, "task": {"uid": "a"}}'
    caller = ReplayCaller(
        [
            exchange("extender", PREDICATE, body, NodeRefusal(text="busy", code=2)),
            exchange("extender", PREDICATE, body, NodeRefusal()),
            exchange(
                "extender", PREDICATE, b'{"task":{},"node":{"name":"m"}}', CallFailed("predicate", "timeout", "slow")
            ),
        ]
    )
    assert call(caller, PREDICATE, body) == NodeRefusal(text="busy", code=2)
    assert call(caller, PREDICATE, other_order) == NodeRefusal()
    assert call(caller, PREDICATE, body) == NodeRefusal()
    with pytest.raises(CallFailed, match="slow") as failed:
        call(caller, PREDICATE, b'{"task":{},"node":{"name":"m"}}')
    assert failed.value.kind == "timeout"
    (unknown,) = caller.call_many(PREDICATE, [b'{"task":{},"node":{"name":"z"}}'])
    assert isinstance(unknown, CallFailed)


def test_a_question_that_was_not_asked_gets_the_next_answer_of_its_verb() -> None:
    asked = exchange("extender", PREDICATE, b'{"a":1}', NodeRefusal(text="busy", code=2))
    caller = ReplayCaller([asked])
    assert call(caller, PREDICATE, b'{"a":2}').text == "busy"
    with pytest.raises(CallFailed, match="not asked"):
        call(caller, PREDICATE, b'{"a":3}')


def test_each_extender_answers_for_itself() -> None:
    victims = Victims(status=1, uids=["a"])
    callers = ReplayCallers(
        [
            exchange("extender/a", PREEMPTABLE, b"{}", victims),
            exchange("extender/b", PREEMPTABLE, b"{}", Victims(status=0, uids=[])),
        ]
    )
    assert call(callers.get("extender/a"), PREEMPTABLE, b"{}") == victims
    assert call(callers.get("extender/b"), PREEMPTABLE, b"{}").status == 0


@given(JSON, JSON, st.integers(100, 599))
def test_a_cassette_gives_back_what_was_recorded(question: object, answer: object, status: int) -> None:
    asked, said = json.dumps(question).encode(), json.dumps(answer).encode()
    one = cassette.recorded("predicate", asked, status, said, 0.01)
    again = cassette._DECODER.decode(cassette.write_line(one))
    assert again == one
    assert json.loads(again.request_body) == question
    assert json.loads(again.response_body) == answer
    found = cassette.recording([one]).answer("predicate", asked)
    assert found == one


def test_bodies_that_are_no_json_are_kept_as_text() -> None:
    one = cassette.recorded("predicate", b"{}", 500, b"<html>", 0.0)
    assert one.response_body == b"<html>"
    assert cassette._DECODER.decode(cassette.write_line(one)) == one


def test_a_new_question_has_no_answer() -> None:
    one = cassette.recorded("predicate", b'{"a": 1}', 200, b'{"code": 2}', 0.0)
    assert cassette.recording([one]).answer("predicate", b'{"a": 1}') == one
    assert cassette.recording([one]).answer("predicate", b'{"a": 2}') is None


def test_a_broken_cassette_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"path": "predicate"}\n{"path": 3}\n')
    with pytest.raises(InvalidInput, match="line 2"):
        cassette.read(path)
    with pytest.raises(InvalidInput, match=r"nothing\.jsonl"):
        cassette.read(tmp_path / "nothing.jsonl")
