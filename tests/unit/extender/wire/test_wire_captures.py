"""Traffic recorded from a real Volcano: its requests survive, its answers and bad replies are understood as it did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pumice.extender.wire import answers, volcano
from pumice.extender.wire.dialects import DIALECTS
from pumice.extender.wire.errors import WireError
from pumice.extender.wire.messages import PredicateResponse, PrioritizeResponse, VictimsResponse
from pumice.extender.wire.recognise import recognise
from pumice.extender.wire.verbs import ON_SESSION_CLOSE, PREEMPTABLE, PRIORITIZE, VERBS

CAPTURES = Path(__file__).parents[3] / "golden" / "extender" / "volcano-captures"
EXCHANGES = sorted(path.stem for path in CAPTURES.glob("*.json") if not path.stem.startswith(("cluster-", "failures-")))
UNDERSTOOD = {"json-null", "trailing-data"}
"""The replies with status 200 that Volcano's decoder accepts."""


def _capture(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CAPTURES / f"{name}.json").read_text())
    return found


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _failures() -> list[Any]:
    cases = [
        case for path in sorted(CAPTURES.glob("failures-*.json")) for case in json.loads(path.read_text())["failures"]
    ]
    read = [case for case in cases if case["responseStatus"] == 200 and case["responseRaw"] is not None]
    return [
        pytest.param(case["verb"], case["failure"], case["responseRaw"], id=f"{case['verb']}-{case['failure']}")
        for case in read
        if case["ignorable"]
    ]


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_recorded_request_is_written_again_byte_for_byte(name: str) -> None:
    capture = _capture(name)
    verb, body = VERBS[capture["verb"]], _compact(capture["request"])
    written = volcano.encode_request(verb, volcano.decode_request(verb, body))
    assert written == body
    assert len(written) == int(capture["headers"]["Content-Length"])


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_recorded_request_says_the_same_in_both_forms(name: str) -> None:
    capture = _capture(name)
    verb = VERBS[capture["verb"]]
    request = volcano.decode_request(verb, _compact(capture["request"]))
    both = DIALECTS["both"]
    assert both.decode_request(verb, both.encode_request(verb, request)) == request


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_recorded_request_is_recognised_as_volcanos(name: str) -> None:
    capture = _capture(name)
    verb = VERBS[capture["verb"]]
    expected = "documented" if verb is ON_SESSION_CLOSE else "volcano"  # an empty message tells nothing
    assert recognise(verb, _compact(capture["request"])).name == expected


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_recorded_answer_is_read(name: str) -> None:
    capture = _capture(name)
    verb, answer = VERBS[capture["verb"]], capture["response"]
    response = volcano.decode_response(verb, _compact(answer))
    if isinstance(response, VictimsResponse):
        assert response.status == answer["status"]
        assert response.uids == [victim["UID"] for victim in answer["victims"] or ()]
    elif isinstance(response, PrioritizeResponse):
        assert response.error == answer["errorMessage"]
        assert (response.scores or {}) == answer.get("nodeScore", {})
    elif isinstance(response, PredicateResponse):
        assert (response.text, response.code) == (answer["status"], answer["code"])
    else:
        said = {"status", "overused"} & answer.keys()
        assert {field: getattr(response, field) for field in said} == {field: answer[field] for field in said}


def test_recorded_null_victims_and_missing_scores_are_told_apart_from_empty_ones() -> None:
    victims = volcano.decode_response(PREEMPTABLE, _compact(_capture("preemptable-null-evictees")["response"]))
    assert victims.victims is None
    nobody = volcano.decode_response(PREEMPTABLE, _compact(_capture("preemptable-preempt-nobody")["response"]))
    assert nobody.victims == []
    missing = _capture("prioritize-prioritize-null-scores-ignorable")["response"]
    assert volcano.decode_response(PRIORITIZE, _compact(missing)) == PrioritizeResponse()


@pytest.mark.parametrize(("verb", "failure", "reply"), _failures())
def test_a_bad_reply_is_refused_where_volcano_refuses_it(verb: str, failure: str, reply: str) -> None:
    question = VERBS[verb]
    if failure in UNDERSTOOD or verb in ("onSessionOpen", "onSessionClose"):
        answers.decode(question, reply.encode())
        return
    with pytest.raises(WireError, match=rf"^extender {verb}: answer"):
        answers.decode(question, reply.encode())
