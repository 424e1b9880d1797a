"""Traffic recorded from a real Volcano: what it tells is what the state then holds, its answers are understood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from extender_samples import recognised

from pumice.extender import gojson
from pumice.extender.answering.told_state import ToldState
from pumice.extender.answers import Acknowledged, NodeRefusal, Scores, Victims, decode
from pumice.extender.asking.calls import QuestionWriter
from pumice.extender.dialects import DIALECTS, QuestionReader
from pumice.extender.gojson import WireError
from pumice.extender.protocol import ON_SESSION_CLOSE, ON_SESSION_OPEN, VERBS, PartKind
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.task import Task

CAPTURES = Path(__file__).parents[2] / "golden" / "extender" / "volcano-captures"
EXCHANGES = sorted(path.stem for path in CAPTURES.glob("*.json") if not path.stem.startswith(("cluster-", "failures-")))
UNDERSTOOD = {"json-null", "trailing-data"}
"""The replies with status 200 that Volcano's decoder accepts."""
API_OBJECTS = {"Pod", "Node", "PodGroup", "Queue"}
"""Fields with objects of the API server, of which we keep what a scheduler reads."""
NOT_OURS = {"Job", "SubJobs", "TaskToSubJob", "LastTransaction", "JobAllocatedHyperNode", "NodesFitErrors", "Others"}
NOT_OURS |= {"EvictionOccurred", "JobFitErrors", "ScheduleStartTimestamp", "Generation", "BindGeneration"}
"""Fields that say what Volcano's own session has found out, which no object holds."""


def _capture(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CAPTURES / f"{name}.json").read_text())
    return found


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _differs(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Where what we write says something else than what was recorded; of API objects we may say less."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        inside_object = any(f".{name}" in path for name in API_OBJECTS)
        found = [f"{path}.{key}: only recorded" for key in theirs.keys() - ours.keys() if not inside_object]
        for key in ours.keys() & theirs.keys():
            if key not in NOT_OURS:
                found += _differs(ours[key], theirs[key], f"{path}.{key}")
        return found + [f"{path}.{key}: only written" for key in ours.keys() - theirs.keys()]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [
            line for at, (a, b) in enumerate(zip(ours, theirs, strict=True)) for line in _differs(a, b, f"{path}[{at}]")
        ]
    return [] if ours == theirs else [f"{path}: {ours!r}, recorded {theirs!r}"]


class Plain:
    """Writes tasks and keeps nothing."""

    def whole(self, task: Task) -> msgspec.Raw:
        return msgspec.Raw(gojson.encode(DIALECTS["volcano"].task(task)))

    def on(self, node: Node) -> msgspec.Raw:
        return msgspec.Raw(gojson.encode({task.key: self.whole(task) for task in node.tasks.values()}))


def _written(thing: Any) -> Any:
    """A task, node, job or queue as we would send it to a service made for Volcano."""
    volcano, writer = DIALECTS["volcano"], Plain()
    match thing:
        case Task():
            said = volcano.task(thing)
        case Node():
            said = volcano.node(thing, writer)
        case Job():
            said = volcano.job(thing, writer)
        case _:
            said = volcano.queue(thing)
    return json.loads(gojson.encode(said))


@pytest.mark.parametrize("name", EXCHANGES)
def test_what_volcano_tells_is_what_the_state_holds(name: str) -> None:
    capture = _capture(name)
    verb, request = VERBS[capture["verb"]], capture["request"]
    asked = QuestionReader().read(verb, _compact(request))
    told = ToldState()
    if verb is ON_SESSION_OPEN:
        told.load(asked.parts["snapshot"])
        assert _differs(json.loads(QuestionWriter("volcano").question(ON_SESSION_OPEN, told.state)), request) == []
        return
    things: dict[PartKind, Any] = {PartKind.TASK: told.task, PartKind.NODE: told.node}
    things |= {PartKind.JOB: told.job, PartKind.QUEUE: told.queue}
    for part in verb.parts:
        given = asked.parts[part.name]
        thing = [things[part.kind](one) for one in given] if part.many else things[part.kind](given)
        written = [_written(one) for one in thing] if part.many else _written(thing)
        assert _differs(written, request[part.name] or []) == []


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_recorded_request_is_recognised_as_volcanos(name: str) -> None:
    capture = _capture(name)
    verb = VERBS[capture["verb"]]
    expected = "documented" if verb is ON_SESSION_CLOSE else "volcano"  # an empty message tells nothing
    assert recognised(verb, _compact(capture["request"])) == expected


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_recorded_answer_is_read(name: str) -> None:
    capture = _capture(name)
    verb, said = VERBS[capture["verb"]], capture["response"]
    answer = DIALECTS["volcano"].read_answer(verb, _compact(said))
    match answer:
        case Victims():
            assert answer.status == said["status"]
            assert (answer.uids or []) == [victim["UID"] for victim in said["victims"] or ()]
        case Scores():
            assert answer.error == said["errorMessage"]
            assert (answer.scores or {}) == said.get("nodeScore", {})
        case NodeRefusal():
            assert (answer.text, answer.code) == (said["status"], said["code"])
        case _:
            told = {"status", "overused"} & said.keys()
            assert {field: getattr(answer, field) for field in told} == {field: said[field] for field in told}


def test_recorded_null_victims_and_missing_scores_are_told_apart_from_empty_ones() -> None:
    def answer(name: str) -> Any:
        capture = _capture(name)
        return DIALECTS["volcano"].read_answer(VERBS[capture["verb"]], _compact(capture["response"]))

    assert answer("preemptable-null-evictees").uids is None
    assert answer("preemptable-preempt-nobody").uids == []
    assert answer("prioritize-prioritize-null-scores-ignorable") == Scores()


def _failures() -> list[Any]:
    cases = [
        case for path in sorted(CAPTURES.glob("failures-*.json")) for case in json.loads(path.read_text())["failures"]
    ]
    read = [case for case in cases if case["responseStatus"] == 200 and case["responseRaw"] is not None]
    return [
        pytest.param(case["verb"], case["failure"], case["responseRaw"], id=f"{case['verb']}-{case['failure']}")
        for case in read
        if case["ignorable"] and VERBS[case["verb"]] not in (ON_SESSION_OPEN, ON_SESSION_CLOSE)
    ]


@pytest.mark.parametrize(("verb", "failure", "reply"), _failures())
def test_a_bad_reply_is_refused_where_volcano_refuses_it(verb: str, failure: str, reply: str) -> None:
    if failure in UNDERSTOOD:
        decode(verb, VERBS[verb].answer, reply.encode())
        return
    with pytest.raises(WireError, match=rf"^extender {verb}: answer"):
        decode(verb, VERBS[verb].answer, reply.encode())


def test_a_victim_goes_back_to_volcano_byte_for_byte() -> None:
    body = _compact(_capture("preemptable-preempt-extender-decides")["request"])
    asked = QuestionReader().read(VERBS["preemptable"], body)
    answer = Victims(status=1, uids=["x"], echoed=asked.echo() or [])
    written = DIALECTS["volcano"].write_answer(VERBS["preemptable"], answer)
    assert msgspec.json.decode(written)["victims"] == json.loads(body)["evictees"]
    assert isinstance(DIALECTS["volcano"].read_answer(VERBS["jobEnqueued"], b"{}"), Acknowledged)
