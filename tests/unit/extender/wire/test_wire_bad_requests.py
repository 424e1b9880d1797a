"""Whatever a question looks like, it is read or refused; nothing else happens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_samples import REQUESTS

from pumice.extender.wire.dialects import DIALECTS
from pumice.extender.wire.errors import WireError
from pumice.extender.wire.recognise import read_request
from pumice.extender.wire.verbs import VERBS

odd_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything inside *value*."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inside for place in _places(item, (*path, key)))]


def _replaced(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[path[0]] = _replaced(value[path[0]], path[1:], odd)
    return changed


@pytest.mark.parametrize("name", sorted(DIALECTS))
@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_a_request_with_one_odd_value_is_read_or_refused(name: str, data: st.DataObject) -> None:
    dialect = DIALECTS[name]
    verb = data.draw(st.sampled_from([verb for verb in VERBS.values() if verb in dialect.verbs]))
    request = json.loads(dialect.encode_request(verb, REQUESTS[verb]))
    place = data.draw(st.sampled_from(_places(request)))
    body = json.dumps(_replaced(request, place, data.draw(odd_values))).encode()
    try:
        read = dialect.decode_request(verb, body)
        assert isinstance(read, verb.request)
        dialect.encode_request(verb, read)
        read_request(verb, body)
    except WireError as error:
        assert error.verb == verb.name


def test_an_amount_too_large_for_a_number_is_refused() -> None:
    body = b'{"task": {"resources": {"cpu": 1e308}}}'
    with pytest.raises(WireError, match="extender allocateFunc: request: amount of cpu: must be a number below 1e300"):
        DIALECTS["documented"].decode_request(VERBS["allocateFunc"], body)
