"""Limits and ledgers: what fits, how often, and what is short."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from pumice.framework import quota
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
    names = quota.lacking(limit, used, request.items())
    assert bool(names) is not quota.fits(limit, used, request.items())
    assert names == sorted(names)
    assert dim_name(PODS) not in names


def test_pod_slots_are_not_limited_by_quota() -> None:
    assert quota.fits({}, {}, [(PODS, 1)])
    assert quota.room({}, {}, [(PODS, 1)]) == quota.UNLIMITED


def test_a_name_that_a_limit_lacks_is_not_to_be_had() -> None:
    assert quota.lacking({CPU: 10}, {}, [(CPU, 1), (GPU, 1)]) == ["nvidia.com/gpu"]


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
