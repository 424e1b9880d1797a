"""Whatever is posted, the server answers by its own document, and never with a broken policy's traceback."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

import jsonschema_rs
import pytest
from extender_openapi import Questions
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from pumice.errors import PumiceError
from pumice.extender.answering.policies import PolicyServer
from pumice.extender.gojson import WireError
from pumice.extender.protocol import VERBS
from pumice.extender.server import all_paths, app, document
from pumice.framework.plugin import Plugin
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.reason import Unfit
from pumice.model.task import Task


class Plain(Plugin):
    """A small policy."""

    name = "plain"

    def predicate(self, task: Task, node: Node) -> None:
        if task.requests.milli_cpu > node.allocatable.milli_cpu:
            raise Unfit("too small")

    def node_order(self, task: Task, node: Node) -> float:
        return float(node.idle["cpu"])

    def job_ready(self, job: Job) -> bool:
        return len(job.tasks) >= job.min_available


SERVED = app([Plain])
DOCUMENT: dict[str, Any] = document(all_paths({}), "plain", token=False)
QUESTIONS = Questions(DOCUMENT)
PATHS: list[str] = sorted(DOCUMENT["paths"])


def _schema(path: str) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return found


def _validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({**schema, "components": DOCUMENT["components"]})


def _answers(path: str, bodies: Iterable[Any]) -> Iterator[tuple[Any, int, Any]]:
    """Each body, and the status and the answer that it gets, which are as the document says."""
    said = {
        int(status): _validator(one["content"]["application/json"]["schema"])
        for status, one in DOCUMENT["paths"][path]["post"]["responses"].items()
    }
    with asyncio.Runner() as runner:
        for body in bodies:
            status, headers, content = runner.run(_exchange(path, json.dumps(body).encode()))
            assert headers[b"content-type"] == b"application/json"
            assert status in said, (body, status, content)
            assert status < 500, (body, status, content)
            answer = json.loads(content)
            assert said[status].is_valid(answer), (body, status, answer)
            yield body, status, answer


async def _exchange(path: str, body: bytes = b"", method: str = "POST") -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and content of what the application answers."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [], "client": ("127.0.0.1", 1)}
    await SERVED(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


def test_the_document_is_served() -> None:
    status, _, content = asyncio.run(_exchange("/openapi.json", method="GET"))
    assert status == 200
    served = json.loads(content)
    assert served["paths"] == json.loads(json.dumps(DOCUMENT["paths"]))
    assert served["components"] == json.loads(json.dumps(DOCUMENT["components"]))


@pytest.mark.parametrize("path", PATHS)
def test_a_question_may_lack_its_body_where_the_document_says_so(path: str) -> None:
    needed = DOCUMENT["paths"][path]["post"]["requestBody"]["required"]
    assert asyncio.run(_exchange(path))[0] == (400 if needed else 200)


def _allowed(path: str, seeds: int) -> None:
    """Questions that the document allows are understood; 409: understood, but about what was not told."""
    schema, valid = _schema(path), _validator(_schema(path))
    bodies = [QUESTIONS.allowed(schema, random.Random(seed)) for seed in range(seeds)]
    assert all(map(valid.is_valid, bodies))
    for body, status, answer in _answers(path, bodies):
        assert status in (200, 409), (body, answer)


@pytest.mark.parametrize("path", PATHS)
def test_what_the_openapi_document_allows_is_accepted(path: str) -> None:
    _allowed(path, 20)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_much_of_what_the_openapi_document_allows_is_accepted(path: str) -> None:
    _allowed(path, 1000)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.part(3)
def test_what_the_openapi_document_forbids_is_refused_at_every_place(path: str) -> None:
    """One fault at a time: every field missing, of every wrong type, beyond each bound."""
    schema, valid = _schema(path), _validator(_schema(path))
    faults = {json.dumps(body): where for where, body in QUESTIONS.broken(schema) if not valid.is_valid(body)}
    assert len(faults) > (100 if "properties" in schema else 5)
    bodies = [json.loads(body) for body in faults]
    for body, status, answer in _answers(path, bodies):
        assert status == 400, (faults[json.dumps(body)], body, answer)


def _names() -> st.SearchStrategy[str]:
    known = [
        "task",
        "node",
        "nodes",
        "job",
        "queue",
        "evictor",
        "evictees",
        "Pod",
        "Name",
        "name",
        "UID",
        "uid",
        "Jobs",
    ]
    return st.sampled_from(known) | st.text(max_size=5)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(st.sampled_from(sorted(VERBS)), st.dictionaries(_names(), JSON, max_size=4) | JSON)
def test_any_json_is_answered_or_refused_by_name(verb: str, body: Any) -> None:
    served = PolicyServer([Plain])
    try:
        answer = served.answer(VERBS[verb], json.dumps(body).encode())
    except PumiceError as refused:
        assert str(refused)
    else:
        assert isinstance(json.loads(answer), dict | list)


@settings(max_examples=examples(40), deadline=None, derandomize=True)
@given(st.sampled_from(sorted(VERBS)), st.binary(max_size=60))
def test_any_bytes_are_answered_or_refused(verb: str, body: bytes) -> None:
    try:
        PolicyServer([Plain]).answer(VERBS[verb], body)
    except WireError as refused:
        assert verb in str(refused) or "request" in str(refused)
    except PumiceError as refused:
        assert str(refused)
