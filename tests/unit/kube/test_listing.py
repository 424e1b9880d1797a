"""A list is the same whether it is read as a whole or as it comes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from pumice.kube import listing
from pumice.kube.kinds import RESOURCES
from pumice.kube.listing import ListReader, read_list

PODS = RESOURCES["Pod"]
CUT = '},{"metadata":{'


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec}


ITEMS = st.one_of(
    st.builds(
        pod, st.sampled_from(["a", "b"]), nodeName=st.sampled_from(["n1", CUT, f"x{CUT}y", "\\", '"', '"items":['])
    ),
    st.just(pod("odd", nested=[{"metadata": {"name": "not an object"}}, {"metadata": {"name": "nor this"}}])),
    st.just(pod("wrong", nodeName=7)),
    st.just(pod("large", schedulerName="x" * 300)),
)


def body(items: list[dict[str, Any]] | None, form: str) -> bytes:
    head, meta = {"kind": "PodList", "apiVersion": "v1"}, {"metadata": {"resourceVersion": "42"}}
    if form == "wide":
        return json.dumps({**head, **meta, "items": items}, indent=1).encode()
    parts = (
        {**head, **meta, "items": items} if form == "usual" else {"apiVersion": "v1", "items": items, **head, **meta}
    )
    return json.dumps(parts, separators=(",", ":")).encode() + b"\n"


@settings(max_examples=examples(400), deadline=None)
@given(
    st.one_of(st.none(), st.lists(ITEMS, max_size=12)),
    st.sampled_from(["usual", "metadata last", "wide"]),
    st.integers(1, 400),
    st.integers(1, 500),
)
def test_a_list_in_parts_is_read_as_one_in_a_whole(
    items: list[dict[str, Any]] | None, form: str, chunk: int, piece: int
) -> None:
    data = body(items, form)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(listing, "_PIECE", piece)
        reader = ListReader(PODS)
        for start in range(0, len(data), chunk):
            reader.feed(data[start : start + chunk])
        assert reader.end() == read_list(PODS, data)


def test_what_came_is_read_before_the_end_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_PIECE", 200)
    reader, data = ListReader(PODS), body([pod(f"p{n}") for n in range(50)], "usual")
    reader.feed(data[:-100])
    assert len(reader._objects) > 40
    reader.feed(data[-100:])
    assert [obj.metadata.name for obj in reader.end().objects] == [f"p{n}" for n in range(50)]


@pytest.mark.parametrize("missing", [1, 2, 30, 700])
def test_a_list_that_ends_too_soon_is_none(monkeypatch: pytest.MonkeyPatch, missing: int) -> None:
    monkeypatch.setattr(listing, "_PIECE", 200)
    reader = ListReader(PODS)
    reader.feed(body([pod(f"p{n}") for n in range(50)], "metadata last").rstrip()[:-missing])
    with pytest.raises(msgspec.MsgspecError):
        reader.end()


def test_an_object_of_which_a_field_is_wrong_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    found = read_list(PODS, body([pod("a"), pod("wrong", nodeName=7), pod("b")], "usual"))
    assert [obj.metadata.name for obj in found.objects] == ["a", "b"]
    assert found.version == "42"
    assert "Pod team/wrong is left out" in caplog.text
