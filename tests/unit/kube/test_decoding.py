"""Objects that somebody nested deeper than a decoder can take are read all the same, but for what is too deep."""

from __future__ import annotations

import json

import pytest

from pumice.kube.kinds import BOOKMARK, DECODERS, DEEPEST, LISTS, RAW_LIST, WATCH_LINE, shallow

DEEP = 5000  # a server takes 10,000 levels


def nested(levels: int, opened: str = "[", closed: str = "]") -> str:
    return opened * levels + closed * levels


def obj(inside: str) -> bytes:
    return b'{"metadata":{"name":"n","resourceVersion":"5","odd":%s},"odd":%s}' % (inside.encode(), inside.encode())


@pytest.mark.parametrize("inside", [nested(DEEP), '{"a":' * DEEP + "1" + "}" * DEEP, nested(DEEP, "[[", "]]")])
@pytest.mark.part(9)
def test_every_kind_is_read_however_deep_it_is_nested(inside: str) -> None:
    data = obj(inside)
    assert BOOKMARK.decode(data).metadata.resource_version == "5"
    line = WATCH_LINE.decode(b'{"type":"ADDED","object":%s}' % data)
    assert line.type == "ADDED"
    for kind, decoder in DECODERS.items():
        assert decoder.decode(line.object).metadata.name == "n", kind
        whole = b'{"metadata":{"resourceVersion":"7"},"items":[%s,%s]}' % (data, obj("1"))
        assert [found.metadata.name for found in LISTS[kind].decode(whole).items] == ["n", "n"], kind
    assert len(RAW_LIST.decode(whole).items or ()) == 2


def test_what_is_not_too_deep_stays_as_it_is() -> None:
    text = json.dumps({"a": [1, {"b": '["\\"{'}], "c": "}]", "d": json.loads(nested(DEEPEST - 1))})
    assert shallow(text.encode()) == text.encode()
    assert json.loads(shallow(b'{"a":[%s,1],"b":2}' % nested(DEEP).encode()))["b"] == 2
