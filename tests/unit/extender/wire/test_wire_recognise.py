"""In which dialect a question came."""

from __future__ import annotations

from typing import Any

import pytest
from wire_samples import REQUESTS

from pumice.extender.wire import verbs as v
from pumice.extender.wire.dialects import DIALECTS
from pumice.extender.wire.errors import WireError
from pumice.extender.wire.recognise import read_request, recognise


@pytest.mark.parametrize(
    ("verb", "body", "dialect"),
    [
        (v.PREDICATE, b'{"task": {"UID": "u"}, "node": {"Name": "n"}}', "volcano"),
        (v.PREDICATE, b'{"task": {"uid": "u"}, "node": {"name": "n"}}', "documented"),
        (v.PREDICATE, b'{"task": {"uid": "u", "UID": "u"}}', "both"),
        (v.ON_SESSION_OPEN, b'{"Jobs": {}, "Nodes": {}, "Queues": {}}', "volcano"),
        (v.ON_SESSION_OPEN, b'{"snapshot": {}}', "documented"),
        (v.ON_SESSION_OPEN, b'{"snapshot": {}, "Jobs": {}}', "both"),
        (v.JOB_ORDER, b'{"jobs": [{"UID": "u"}]}', "volcano"),
        (v.JOB_ORDER, b'{"jobs": []}', "documented"),
        (v.JOB_ORDER, b'{"jobs": null}', "documented"),
        (v.PRIORITIZE, b'{"pod": {}, "nodes": {"items": []}}', "kube"),
        (v.BIND, b'{"PodName": "p", "Node": "n"}', "kube"),
        (v.BIND, b'{"podName": "p", "node": "n"}', "kube"),
        (v.ON_SESSION_CLOSE, b"{}", "documented"),
        (v.PREDICATE, b'{"task": {"UID": "u"}} trailing', "volcano"),
    ],
)
def test_a_question_is_recognised(verb: v.Verb[Any, Any], body: bytes, dialect: str) -> None:
    assert recognise(verb, body).name == dialect


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"nonsense", b'{"task": 5}', b'{"task": [5]}'])
def test_what_is_no_question_is_refused(body: bytes) -> None:
    with pytest.raises(WireError, match=r"^extender predicate: request: "):
        recognise(v.PREDICATE, body)


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_a_question_is_read_in_its_dialect(name: str) -> None:
    dialect = DIALECTS[name]
    for verb in sorted(dialect.verbs - {v.ON_SESSION_CLOSE}, key=lambda verb: verb.name):
        body = dialect.encode_request(verb, REQUESTS[verb])
        assert read_request(verb, body) == (dialect, dialect.decode_request(verb, body))
