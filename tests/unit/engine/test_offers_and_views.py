"""What is kept between questions: what nodes offer, and views of classes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from pumice import NodeRows
from pumice.engine import views
from pumice.engine.allocatable_floats import AllocatableFloats
from pumice.engine.kept_lines import Held, HeldByOne, KeptLines
from pumice.engine.views import ClassView, ViewCache
from pumice.model.events import Gone, Seen
from pumice.model.resources import CPU, MEMORY, dim
from pumice.plugins import binpack
from pumice.plugins.nodeorder import across
from pumice.testing import job, node, session


def test_offers_are_lines_of_what_nodes_have_and_follow_nodes_that_change() -> None:
    state = session(node("a", cpu=4, memory="1Gi"), node("b", cpu=8, memory="2Gi")).state
    offers = AllocatableFloats(state.table)
    lines, plain = offers.of((CPU, MEMORY), NodeRows(state.table))
    assert plain
    assert lines.tolist() == [[4000.0, 8000.0], [2.0**30, 2.0**31]]
    assert offers.of((CPU,), NodeRows(state.table, np.array([1])))[0].tolist() == [[8000.0]]
    state.apply(Seen(node("a", cpu=6, memory="1Gi")))
    assert offers.of((CPU,), NodeRows(state.table))[0].tolist() == [[6000.0, 8000.0]]


def test_lines_are_not_to_be_used_where_a_node_offers_none_or_too_much_for_exact_division() -> None:
    for other in (node("b", cpu=0), node("b", cpu=4, memory=2**47)):
        state = session(node("a", cpu=4, memory="1Gi"), other).state
        assert not AllocatableFloats(state.table).of((CPU, MEMORY), NodeRows(state.table))[1]
    state = session(node("a", cpu=4)).state
    unheard = dim("never/offered")
    assert not AllocatableFloats(state.table).of((unheard,), NodeRows(state.table))[1]


def test_rows_of_nodes_that_are_gone_do_not_matter() -> None:
    state = session(node("a", cpu=4), node("b", cpu=0)).state
    state.apply(Gone("Node", "b"))
    assert AllocatableFloats(state.table).of((CPU,), NodeRows(state.table))[1]


def test_one_is_kept_for_a_table_and_another_is_made_for_another_table() -> None:
    store: dict[str, Any] = {}
    table = session(node("a")).state.table
    kept = AllocatableFloats.kept(store, table)
    assert AllocatableFloats.kept(store, table) is kept
    assert AllocatableFloats.kept(store, session(node("a")).state.table) is not kept


def test_views_go_when_other_callbacks_are_asked_and_stay_otherwise() -> None:
    cache = ViewCache()
    cache.use(("gang",))
    cache.views["class"], cache.reads["labels"] = ClassView(), None
    cache.use(("gang",))
    assert list(cache.views) == ["class"]
    cache.use(("gang", "drf"))
    assert not cache.views
    assert not cache.reads


def test_the_least_used_views_go_first_and_some_always_stay() -> None:
    cache = ViewCache(max_bytes=40 * (52 + views._PINNED))
    for number in range(60):
        cache.views[number] = ClassView()
    cache.trim(1)
    assert list(cache.views) == list(range(20, 60))
    cache.trim(1_000_000)
    assert list(cache.views) == list(range(28, 60))


def test_kinds_of_rows_are_kept_as_long_as_their_table() -> None:
    cache = ViewCache()
    table = session(node("a")).state.table
    assert cache.kinds_of(table) is cache.kinds_of(table)
    assert cache.kinds_of(session(node("a")).state.table).table is not table


def test_lines_that_follow_rows_are_those_that_are_made_of_all_rows() -> None:
    gpu = dim("nvidia.com/gpu")
    made = session(
        *(node(f"n{n}", cpu=3 + n, memory=f"{7 + n}Gi", gpu=8) for n in range(5)),
        *(job(f"j{n}", tasks=2, cpu=1, memory=f"{n + 1}Gi", gpu=n, on=[f"n{n}", "n4"]) for n in range(4)),
    )
    table = made.state.table
    ways: list[tuple[Any, Any, tuple[int, ...]]] = [
        (across.lines, across.numbers, (CPU, MEMORY)),
        (across.lines, across.numbers, (CPU, MEMORY, gpu)),
        (binpack._lines, binpack._numbers, (CPU, gpu)),
    ]
    for make_lines, make_numbers, dims in ways:
        make, make_one = partial(make_lines, dims), partial(make_numbers, dims)
        lines = make(Held(table))
        for row in range(table.size):
            assert np.array_equal(lines[:, [row]], make(Held(table, np.array([row]))))
            assert lines[:, row].tolist() == make_one(HeldByOne(table, row))
        kept = KeptLines(make, make_one)
        for touched in range(3):
            made.state.apply(Seen(node(f"n{touched}", cpu=9, memory="3Gi", gpu=8)))
            followed = kept.of(NodeRows(table))
            assert followed is not None
            assert np.array_equal(followed, np.array(make(Held(table))))
    made.state.apply(Seen(node("n1", cpu=0)))
    assert across.lines((CPU, MEMORY), Held(table)) is None
    assert across.lines((CPU, MEMORY), Held(table, np.array([table.by_name["n1"].row]))) is None
    assert across.numbers((CPU, MEMORY), HeldByOne(table, table.by_name["n1"].row)) is None


def test_rows_that_hold_equal_amounts_are_of_one_kind_and_others_are_not() -> None:
    made = session(
        *(node(f"n{n}", cpu=4 + n % 2, labels={"n": str(n)}) for n in range(9)),
        job("a", tasks=4, cpu=1, on=["n0", "n1", "n2", "n2"]),
    )
    made.state.apply(Gone("Node", "n8"))
    made.state.apply(Seen(node("empty", cpu=0, memory=0, pods=0)))
    made.state.apply(Gone("Node", "n7"))
    table = made.state.table
    first, kinds = table.alike()
    amounts = [table.amounts_of(row) for row in range(table.size)]
    assert len(first) == len(set(amounts)) == len(set(kinds.tolist()))
    assert [amounts[first[kind]] for kind in kinds] == amounts


def test_rows_that_differ_are_told_apart_where_their_numbers_happen_to_be_equal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = session(*(node(f"n{n}", cpu=4 + n) for n in range(3))).state.table
    real, calls = np.cumprod, []

    def at_first_alike(factors: Any, **kw: Any) -> Any:
        calls.append(1)
        return np.zeros_like(factors) if len(calls) == 1 else real(factors, **kw)

    monkeypatch.setattr(np, "cumprod", at_first_alike)
    assert sorted(table.alike()[1].tolist()) == [0, 1, 2]
    assert len(calls) == 2
