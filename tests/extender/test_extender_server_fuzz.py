"""Whatever is posted, the server answers by its own document, and never with a broken policy's traceback."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from pumice.errors import PumiceError
from pumice.extender.answering.policies import PolicyServer
from pumice.extender.fields import WireError
from pumice.extender.protocol import VERBS
from pumice.extender.server import app
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


schema = schemathesis.openapi.from_asgi("/openapi.json", app([Plain]))
OPERATIONS: list[Any] = [cast("Any", found).ok() for found in schema.get_all_operations()]
CONFORMS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def _tried(operation: Any, mode: GenerationMode, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(generation_mode=mode))
    def holds(case: Any) -> None:
        answer = case.call()
        case.validate_response(answer, checks=CONFORMS)
        accepted = answer.status_code in (200, 409)  # 409: understood, but about what was not told
        assert accepted if mode is GenerationMode.POSITIVE else answer.status_code != 200, (case.body, answer.text)

    holds()


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.path)
def test_the_openapi_document_says_what_is_accepted_and_what_is_answered(operation: Any, mode: GenerationMode) -> None:
    _tried(operation, mode, 2)


LONG = [one for one in OPERATIONS if one.path != "/onSessionClose"]  # which tells nothing: a few questions are all


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", LONG, ids=lambda operation: operation.path)
def test_the_openapi_document_says_so_of_many_questions(operation: Any, mode: GenerationMode) -> None:
    _tried(operation, mode, 60)


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


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(VERBS)), st.dictionaries(_names(), JSON, max_size=4) | JSON)
def test_any_json_is_answered_or_refused_by_name(verb: str, body: Any) -> None:
    served = PolicyServer([Plain])
    try:
        answer = served.answer(VERBS[verb], json.dumps(body).encode())
    except PumiceError as refused:
        assert str(refused)
    else:
        assert isinstance(json.loads(answer), dict | list)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(VERBS)), st.binary(max_size=60))
def test_any_bytes_are_answered_or_refused(verb: str, body: bytes) -> None:
    try:
        PolicyServer([Plain]).answer(VERBS[verb], body)
    except WireError as refused:
        assert verb in str(refused) or "request" in str(refused)
    except PumiceError as refused:
        assert str(refused)
