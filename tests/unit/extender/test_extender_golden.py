"""Every message of every dialect is written as the golden files have it, and read back from them.

The files lie under ``tests/golden/extender/<dialect>/<verb>.{request,response}.json``, pretty-printed. After a wanted
change run ``python tests/unit/extender/test_extender_golden.py`` to write them anew, and read the difference.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from extender_samples import ANSWERS, cluster, question, recognised

from pumice.extender.answering.told_state import ToldState
from pumice.extender.answers import Victims
from pumice.extender.asking.calls import QuestionWriter
from pumice.extender.dialects import DIALECTS, QuestionReader
from pumice.extender.protocol import ON_SESSION_CLOSE, ON_SESSION_OPEN, VERBS

GOLDEN = Path(__file__).parents[2] / "golden" / "extender"
CASES = [(name, verb) for name, dialect in sorted(DIALECTS.items()) for verb in sorted(dialect.carries)]


def _path(dialect: str, verb: str, part: str) -> Path:
    return GOLDEN / dialect / f"{verb}.{part}.json"


def _written(dialect: str, verb: str) -> dict[str, bytes]:
    answer = ANSWERS[verb]
    if isinstance(answer, Victims) and answer.uids and dialect != "kube":
        victim = QuestionWriter(dialect).task(cluster().tasks["uid-9"])
        answer = msgspec.structs.replace(answer, echoed=[msgspec.Raw(victim)])
    return {
        "request": question(VERBS[verb], dialect),
        "response": DIALECTS[dialect].write_answer(VERBS[verb], answer),
    }


def _pretty(body: bytes) -> bytes:
    return msgspec.json.format(body, indent=2) + b"\n"


@pytest.mark.parametrize(("dialect", "verb"), CASES)
def test_a_message_is_written_as_the_golden_file_has_it(dialect: str, verb: str) -> None:
    for part, body in _written(dialect, verb).items():
        assert _pretty(body) == _path(dialect, verb, part).read_bytes(), part


@pytest.mark.parametrize(("dialect", "verb"), CASES)
def test_a_golden_question_is_recognised_and_read(dialect: str, verb: str) -> None:
    body = _path(dialect, verb, "request").read_bytes()
    expected = "documented" if verb == ON_SESSION_CLOSE.name else dialect  # an empty message tells nothing
    assert recognised(VERBS[verb], body) == expected
    asked = QuestionReader().read(VERBS[verb], body)
    assert asked.dialect.name == expected
    assert set(asked.parts) >= {part.name for part in VERBS[verb].parts}


@pytest.mark.parametrize(("dialect", "verb"), CASES)
def test_a_golden_answer_means_the_same_to_every_reader(dialect: str, verb: str) -> None:
    body = _path(dialect, verb, "response").read_bytes()
    readings = [
        other.read_answer(VERBS[verb], body)
        for other in DIALECTS.values()
        if verb in other.carries and (other.name != "kube" or dialect == "kube")
    ]
    assert all(reading == readings[0] for reading in readings)
    assert (readings[0] == VERBS[verb].answer()) == (ANSWERS[verb] == VERBS[verb].answer())


@pytest.mark.parametrize("dialect", ["documented", "volcano"])
def test_a_cluster_that_was_told_is_told_on_as_it_was(dialect: str) -> None:
    body = question(ON_SESSION_OPEN, dialect)
    told = ToldState()
    told.load(DIALECTS[dialect].read_snapshot(body))
    again = msgspec.json.decode(QuestionWriter("documented").question(ON_SESSION_OPEN, told.state))
    first = msgspec.json.decode(question(ON_SESSION_OPEN, "documented"))
    assert again == first


def test_there_is_a_sample_for_every_verb_and_no_golden_file_too_many() -> None:
    assert set(ANSWERS) == set(VERBS)
    expected = {_path(dialect, verb, part) for dialect, verb in CASES for part in ("request", "response")}
    assert {path for name in DIALECTS for path in (GOLDEN / name).glob("*.json")} == expected


def main() -> None:
    """Write all golden files anew."""
    for dialect, verb in CASES:
        for part, body in _written(dialect, verb).items():
            path = _path(dialect, verb, part)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_pretty(body))


if __name__ == "__main__":
    main()
