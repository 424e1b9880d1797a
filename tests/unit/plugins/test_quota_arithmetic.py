"""Limits and ledgers: what fits, how often, and what is short."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.framework import quota
from pumice.model.limit import Bound, Limit, shown
from pumice.model.resources import CPU, MEMORY, PODS, dim, dim_name

GPU = dim("nvidia.com/gpu")
DIMS = (CPU, MEMORY, PODS, GPU)
amounts = st.integers(min_value=0, max_value=50)
limits = st.one_of(amounts, st.floats(min_value=0, max_value=50), st.just(math.inf))
ledgers = st.dictionaries(st.sampled_from(DIMS), amounts)


@given(
    limit=st.dictionaries(st.sampled_from(DIMS), limits),
    used=ledgers,
    request=st.dictionaries(st.sampled_from(DIMS), amounts),
)
def test_room_is_how_often_asking_one_by_one_says_yes(
    limit: dict[int, float], used: dict[int, int], request: dict[int, int]
) -> None:
    items = tuple(request.items())
    room = quota.room(limit, used, items)
    holding: dict[int, float] = dict(used)
    for n in range(min(room, 60)):
        assert quota.fits(limit, holding, items), f"the {n + 1}th of {room} must fit"
        quota.added(holding, items)
    if room < 60:
        assert not quota.fits(limit, holding, items)


@given(limit=st.dictionaries(st.sampled_from(DIMS), limits), used=ledgers, request=ledgers)
def test_something_is_lacking_exactly_when_it_does_not_fit(
    limit: dict[int, float], used: dict[int, int], request: dict[int, int]
) -> None:
    names = [short.resource for short in quota.lacking("queue a", limit, used, request.items(), ruled)]
    assert bool(names) is not quota.fits(limit, used, request.items())
    assert names == sorted(names)
    assert dim_name(PODS) not in names


def test_pod_slots_are_not_limited_by_quota() -> None:
    assert quota.fits({}, {}, [(PODS, 1)])
    assert quota.room({}, {}, [(PODS, 1)]) == quota.UNLIMITED


def test_a_name_that_a_limit_lacks_is_not_to_be_had() -> None:
    assert quota.lacking("queue a", {CPU: 10000}, {}, [(CPU, 1000), (GPU, 1000)], ruled) == (
        Limit("queue a", "nvidia.com/gpu", 0, 0, Bound.CAPABILITY, 1),
    )


def test_what_was_just_placed_for_who_asks_is_asked_for_and_what_is_promised_is_not_held() -> None:
    used, asked = {CPU: 9000}, [(CPU, 2000)]
    (short,) = quota.lacking("queue a", {CPU: 10000}, used, asked, ruled, own={CPU: 4000}, promised={CPU: 2000})
    assert (short.holds, short.promised, short.may_have, short.asks) == (3, 2, 10, 6)
    assert str(short) == "queue a holds 3 and has promised 2 of 10 cpu (its capability); 6 more are needed"


def ruled(_: int) -> tuple[Bound, str]:
    return Bound.CAPABILITY, ""


@pytest.mark.parametrize("bound", Bound)
@pytest.mark.parametrize("may_have", [0.0, 4.0])
def test_every_kind_of_limit_says_its_numbers_and_names_a_knob(bound: Bound, may_have: float) -> None:
    short = Limit(
        "queue a", "memory", float(3 << 30), may_have * (1 << 30), bound, float(1 << 29), detail="weight 2 of 8"
    )
    for said in ("queue a", "3Gi", f"{may_have:g}", "512Mi", str(bound), "weight 2 of 8"):
        assert said in str(short)
    knobs = {
        Bound.CAPABILITY: "capability of queue a",
        Bound.SHARE: "weight of queue a",
        Bound.DESERVED: "deserved of queue a",
        Bound.PARENT: "capability of weight 2 of 8",
        Bound.QUOTA: "spec.hard of queue a",
    }
    assert knobs.get(bound, "nodes with memory") in short.advice


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [("cpu", 12345.6789, "12345.679"), ("cpu", 0.5, "0.5"), ("memory", 1 << 41, "2Ti"), ("memory", 100, "100")],
)
def test_amounts_read_as_a_manifest_writes_them(resource: str, amount: float, text: str) -> None:
    assert shown(resource, amount) == text


def test_within_forgives_less_than_the_tolerance() -> None:
    assert quota.within({CPU: 10.05}, {CPU: 10})
    assert not quota.within({CPU: 10.2}, {CPU: 10})
    assert not quota.within({GPU: 1}, {CPU: 10})


def test_a_share_of_nothing_is_whole_once_something_is_held() -> None:
    assert quota.largest_share({CPU: 1}, [(CPU, 4), (MEMORY, 8)]) == 0.25
    assert quota.largest_share({CPU: 1}, [(CPU, 0)]) == 1.0


def test_a_queue_problem_is_told_once() -> None:
    notes = quota.queue_notes({"a": "bad"}, {"a": "bad", "b": "worse"})
    assert [(n.kind, n.key, n.type, n.message) for n in notes] == [("Queue", "b", "Warning", "worse")]
