"""Resource vectors: reading, arithmetic, and Volcano's comparisons with what a missing name stands for."""

from __future__ import annotations

import gc
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.errors import InvalidInput
from pumice.model.events import Seen
from pumice.model.resources import (
    CPU,
    EMPTY,
    MEMORY,
    MOST_OFFERED,
    MOST_UNOFFERED,
    Missing,
    Resources,
    dim,
    dim_count,
    dim_name,
    dominant_share,
    give_back,
    share,
    unit,
)
from pumice.state.cluster import ClusterState
from pumice.testing import node

GPU = "nvidia.com/gpu"
ZERO, INFINITY = Missing.ZERO, Missing.INFINITY


def r(**written: str | float) -> Resources:
    return Resources.of(**written)


def test_names_are_interned_once() -> None:
    assert dim("cpu") == CPU
    new = dim("example.com/fpga")
    assert dim("example.com/fpga") == new
    assert dim_name(new) == "example.com/fpga"
    assert dim_count() > new
    assert (unit(CPU), unit(MEMORY), unit(dim("ephemeral-storage")), unit(new)) == (1000, 1, 1, 1000)


def test_amounts_read_as_a_manifest_writes_them() -> None:
    res = Resources.parse({"cpu": "1500m", "memory": "2Gi", GPU: 2, "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"})
    assert (res.milli_cpu, res.memory) == (1500, 2**31)
    assert res["cpu"] == 1.5
    assert res[GPU] == 2
    assert isinstance(res[GPU], int)
    assert res["hugepages-2Mi"] == 4 * 2**20
    assert res["never/seen"] == 0
    assert GPU in res
    assert "never/seen" not in res
    assert 7 not in res


def test_names_that_no_scheduler_counts_are_left_out() -> None:
    res = Resources.parse({"count/pods": 3, "requests.cpu": 1, "something": 4, "attachable-volumes-ebs": 2, "cpu": 1})
    assert res.as_written() == {"attachable-volumes-ebs": 2, "cpu": 1}
    assert Resources.parse(None) is EMPTY
    assert Resources.parse({}) is EMPTY


def test_a_bad_quantity_is_named() -> None:
    with pytest.raises(InvalidInput, match="quantity 'many'"):
        Resources.parse({"cpu": "many"})


@pytest.mark.parametrize("written", ["1e30", "-1e30", "1000Ei"])
def test_an_amount_that_no_machine_has_is_refused(written: str) -> None:
    with pytest.raises(InvalidInput, match="of memory: must be below 72057594037927936 in ledger units"):
        Resources.parse({"memory": written})


def test_arithmetic_and_printing() -> None:
    a, b = r(cpu=2, memory=10, gpu=1), r(cpu=3, gpu=1)
    assert a + b == r(cpu=5, memory=10, gpu=2)
    assert (a - b).milli_cpu == -1000
    assert a.scaled(2) == r(cpu=4, memory=20, gpu=2)
    assert a.exceeding(b) == r(memory=10)
    assert a.only([CPU]) == r(cpu=2)
    assert repr(a) == "Resources(cpu=2, memory=10, nvidia.com/gpu=1)"
    assert a.names() == ["cpu", "memory", GPU]
    assert a != 5
    assert hash(r(cpu=1)) == hash(Resources({CPU: 1000, MEMORY: 0}))


def test_emptiness_ignores_pods_and_traces() -> None:
    assert EMPTY.is_empty
    assert r(pods=3).is_empty
    assert Resources({CPU: 0.05}).is_empty
    assert not r(cpu="1m").is_empty


def test_at_most_and_at_least() -> None:
    a = r(cpu=2, gpu=4)
    assert a.at_most(r(cpu=1, memory=5), ZERO) == r(cpu=1)
    assert a.at_most(r(cpu=1, memory=5), INFINITY) == r(cpu=1, gpu=4)
    assert r(cpu=1).at_least(r(cpu=3, gpu=1)) == r(cpu=3, gpu=1)
    below = Resources({CPU: -5, dim(GPU): -1})
    assert dict(below.at_least(below).items()) == {CPU: -5, MEMORY: 0}


@pytest.mark.parametrize(
    ("left", "right", "missing", "less", "less_equal"),
    [
        (r(cpu=1, memory=1), r(cpu=2, memory=2), ZERO, True, True),
        (r(cpu=1, memory=1), r(cpu=1, memory=2), ZERO, False, True),
        (r(cpu=3, memory=1), r(cpu=2, memory=2), ZERO, False, False),
        (r(cpu=1, memory=1, gpu=1), r(cpu=2, memory=2), ZERO, False, False),
        (r(cpu=1, memory=1, gpu=1), r(cpu=2, memory=2), INFINITY, True, True),
        (r(cpu=1, memory=1), r(cpu=2, memory=2, gpu=1), ZERO, True, True),
        (r(cpu=1, memory=1), r(cpu=2, memory=2, gpu=1), INFINITY, False, False),
        (Resources({CPU: 1000.05, MEMORY: 1}), r(cpu=1, memory=2), ZERO, False, True),
    ],
)
def test_less_counts_every_own_name(
    left: Resources, right: Resources, missing: Missing, less: bool, less_equal: bool
) -> None:
    assert left.less(right, missing) is less
    assert left.less_equal(right, missing) is less_equal


def test_what_is_not_within_is_named() -> None:
    a = r(cpu=3, memory=1, gpu=2)
    assert a.not_within(r(cpu=2, memory=1)) == ["cpu", GPU]
    assert a.not_within(r(cpu=2, memory=1), INFINITY) == ["cpu"]
    assert a.within_requested(r(cpu=2, memory=5), r(cpu=1, gpu=1, pods=1)) == ["cpu", GPU]


@pytest.mark.parametrize(
    ("left", "right", "missing", "partly", "equal_partly"),
    [
        (r(cpu=1, memory=9), r(cpu=2, memory=2), ZERO, True, True),
        (r(cpu=2, memory=9), r(cpu=2, memory=2), ZERO, False, True),
        (r(cpu=3, memory=9), r(cpu=2, memory=2), ZERO, False, False),
        (r(cpu=3, memory=9), r(cpu=2, memory=2, gpu=1), ZERO, True, True),
        (r(cpu=3, memory=9, gpu=1), r(cpu=2, memory=2), INFINITY, True, True),
        (r(cpu=3, memory=9, gpu=1), r(cpu=2, memory=2, gpu=1), INFINITY, False, True),
        (r(cpu=3, memory=9, gpu=1), r(cpu=2, memory=2, gpu=2), ZERO, True, True),
    ],
)
def test_partly_asks_for_one_name(
    left: Resources, right: Resources, missing: Missing, partly: bool, equal_partly: bool
) -> None:
    assert left.less_partly(right, missing) is partly
    assert left.less_equal_partly(right, missing) is equal_partly


def test_comparisons_by_what_is_requested() -> None:
    request = r(cpu=1, gpu=1, pods=1)
    a, b = r(cpu=1, memory=9, gpu=2, pods=9), r(cpu=2, memory=1, gpu=1)
    assert a.less_equal_partly_requested(b, request) == ["cpu"]
    assert EMPTY.less_equal_partly_requested(EMPTY, request, drop_zeros=True) == []
    assert EMPTY.less_equal_partly_requested(EMPTY, request) == ["cpu", GPU]
    assert a.greater_partly_requested(b, request)
    assert not a.greater_partly_requested(b, r(cpu=1, pods=1))
    assert a.greater_partly_relevant(b, request)
    assert not a.greater_partly_relevant(r(memory=1), request)
    assert not a.greater_partly_relevant(r(cpu=2), r(cpu=0, pods=1))


def test_equal_within_the_tolerance_and_the_difference() -> None:
    assert r(cpu=1).equal(Resources({CPU: 1000.05}))
    assert not r(cpu=1).equal(r(cpu=2))
    more, less = r(cpu=3, gpu=1).difference(r(cpu=1, memory=4, gpu=1))
    assert (more, less) == (r(cpu=2), r(memory=4))


def test_shares() -> None:
    assert (share(1, 4), share(0, 0), share(1, 0)) == (0.25, 0.0, 1.0)
    assert dominant_share(r(cpu=1, gpu=3), r(cpu=4, gpu=4)) == 0.75
    assert dominant_share(r(cpu=1), EMPTY) == 0.0


amounts = st.dictionaries(st.sampled_from([0, 1, 2, 3, 4]), st.integers(0, 5), max_size=4).map(Resources)


@given(amounts, amounts)
def test_adding_and_taking_away_restores_every_amount(a: Resources, b: Resources) -> None:
    assert a + b - b == a
    assert a + b == b + a


@given(amounts, amounts)
def test_the_parts_above_and_below_make_up_the_difference(a: Resources, b: Resources) -> None:
    more, less = a.difference(b)
    assert b + more - less == a
    assert a.exceeding(b) == more


@given(amounts, amounts)
def test_within_means_that_nothing_is_named_as_above(a: Resources, b: Resources) -> None:
    assert a.less_equal(b) == (not a.not_within(b))


def test_an_amount_asked_by_name_where_a_number_belongs_is_an_error_not_nothing() -> None:
    held = Resources.parse({"cpu": "4", "nvidia.com/gpu": 8})
    assert held["nvidia.com/gpu"] == 8
    for name in ("nvidia.com/gpu", "cpu", "example.org/unknown"):
        with pytest.raises(TypeError, match=re.escape(f"write resources['{name}']")):
            held.get(name, 0)  # type: ignore[arg-type]
    assert held.get(dim("example.org/none"), 7) == 7


def test_names_that_nodes_offer_are_bounded_and_the_others_still_count() -> None:
    """Each name is a column for every node: a saved cycle of 200,000 nodes with a name each was never done."""
    state = ClusterState()
    for n in range(MOST_OFFERED + MOST_UNOFFERED + 200):
        state.apply(Seen(node(f"n{n}", cpu=4, resources={f"example.com/r{n}": 1})))
    assert dim_count() <= MOST_OFFERED + MOST_UNOFFERED
    refused = [text for (kind, _), text in state.problems.items() if kind == "Node"]
    assert len(refused) >= 200
    assert all("nodes offer 512 others, the most that are known" in text for text in refused)
    assert state.nodes["n0"].allocatable["example.com/r0"] == 1
    state.apply(Seen(node("plain", cpu=4)))
    assert "plain" in state.nodes
    del state
    gc.collect()
    give_back()
