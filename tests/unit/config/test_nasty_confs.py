"""Whatever stands at any place of a conf, it is used or refused with a message that can be read."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from pumice.config import load
from pumice.errors import PumiceError
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import assemble, catalogue_of

CATALOGUE = catalogue_of(default_registry())
WHOLE: dict[str, Any] = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}]},
        {
            "plugins": [
                {"name": "predicates", "arguments": {"predicate.GPUSharingEnable": True}},
                {"name": "proportion"},
                {"name": "nodeorder", "arguments": {"nodeaffinity.weight": 2}},
                {"name": "binpack", "arguments": {"binpack.resources": "a/b", "binpack.resources.a/b": 2}},
            ]
        },
    ],
    "configurations": [{"name": "enqueue", "arguments": {"overCommitFactor": 1.2}}],
}
NASTY: list[Any] = [
    *(None, True, 3, -1, 2**70, float("inf"), float("nan"), "", "x", "a,b", "٣", "\0", "x" * 10_000),
    *([], [None], [[]], [1, "a"], {}, {"a": 1}, {1: 2}, {None: None}, [{"plugins": [{"name": None}]}]),
]


def places(data: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        yield from places(value, (*at, key))


@pytest.mark.parametrize("value", NASTY, ids=lambda value: repr(value)[:20])
@pytest.mark.part(3)
def test_any_value_at_any_place_is_used_or_refused_in_a_few_words(value: Any) -> None:
    for at in places(WHOLE):
        data: Any = [copy.deepcopy(WHOLE)]
        inner: Any = data
        for key in (0, *at)[:-1]:
            inner = inner[key]
        inner[(0, *at)[-1]] = value
        try:
            assemble(load(yaml.safe_dump(data[0], allow_unicode=True), CATALOGUE).conf, default_registry())
        except PumiceError as refused:
            assert len(str(refused)) < 3000, at
