"""Every message of every dialect is written as the golden files have it, and read back from them.

The files lie under ``tests/golden/extender/<dialect>/<verb>.{request,response}.json``, pretty-printed. After a wanted
change run ``python tests/unit/extender/wire/test_wire_golden.py`` to write them anew, and read the difference.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from wire_samples import REQUESTS, RESPONSES

from pumice.extender.wire.dialects import DIALECTS
from pumice.extender.wire.recognise import recognise
from pumice.extender.wire.verbs import ON_SESSION_CLOSE, ON_SESSION_OPEN, VERBS, Verb

GOLDEN = Path(__file__).parents[3] / "golden" / "extender"
CASES = [(name, verb.name) for name, dialect in DIALECTS.items() for verb in VERBS.values() if verb in dialect.verbs]


def _written(dialect: str, verb: Verb[Any, Any]) -> dict[str, bytes]:
    """What the samples of *verb* look like, by part."""
    spoken = DIALECTS[dialect]
    return {
        "request": spoken.encode_request(verb, REQUESTS[verb]),
        "response": spoken.encode_response(verb, RESPONSES[verb]),
    }


def _path(dialect: str, verb: str, part: str) -> Path:
    return GOLDEN / dialect / f"{verb}.{part}.json"


def _pretty(body: bytes) -> bytes:
    return msgspec.json.format(body, indent=2) + b"\n"


@pytest.mark.parametrize(("dialect", "verb"), CASES)
@pytest.mark.parametrize("part", ["request", "response"])
def test_a_message_is_written_as_its_golden_file_has_it(dialect: str, verb: str, part: str) -> None:
    assert _pretty(_written(dialect, VERBS[verb])[part]).decode() == _path(dialect, verb, part).read_text()


@pytest.mark.parametrize(("dialect", "verb"), CASES)
def test_a_golden_request_is_read_and_written_again_without_loss(dialect: str, verb: str) -> None:
    spoken, question = DIALECTS[dialect], VERBS[verb]
    body = _path(dialect, verb, "request").read_bytes()
    assert _pretty(spoken.encode_request(question, spoken.decode_request(question, body))) == body


@pytest.mark.parametrize(("dialect", "verb"), CASES)
def test_a_golden_request_is_recognised(dialect: str, verb: str) -> None:
    body = _path(dialect, verb, "request").read_bytes()
    expected = "documented" if verb == ON_SESSION_CLOSE.name else dialect
    assert recognise(VERBS[verb], body).name == expected


@pytest.mark.parametrize(("dialect", "verb"), CASES)
def test_a_golden_answer_means_the_same_to_every_reader(dialect: str, verb: str) -> None:
    body = _path(dialect, verb, "response").read_bytes()
    question = VERBS[verb]
    readings = [other.decode_response(question, body) for other in DIALECTS.values() if question in other.verbs]
    if dialect != "kube":  # kube's own reader takes a node that is not named for one that does not fit
        readings = readings[:2]
    assert all(reading == readings[0] for reading in readings)
    assert (readings[0] == question.response()) == (RESPONSES[question] == question.response())


def test_there_is_a_sample_for_every_verb_and_no_golden_file_too_many() -> None:
    assert set(REQUESTS) == set(RESPONSES) == set(VERBS.values())
    expected = {_path(dialect, verb, part) for dialect, verb in CASES for part in ("request", "response")}
    found = {path for name in DIALECTS for path in (GOLDEN / name).glob("*.json")}
    assert found == expected


def test_session_answers_are_not_read() -> None:
    for verb in (ON_SESSION_OPEN, ON_SESSION_CLOSE):
        assert DIALECTS["volcano"].decode_response(verb, b"<<not json>>") == verb.response()


def main() -> None:
    """Write all golden files anew."""
    for dialect, verb in CASES:
        for part, body in _written(dialect, VERBS[verb]).items():
            path = _path(dialect, verb, part)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_pretty(body))


if __name__ == "__main__":
    main()
