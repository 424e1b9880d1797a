"""What is kept between questions: what nodes offer, and views of classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pumice import NodeRows
from pumice.engine import views
from pumice.engine.allocatable_floats import AllocatableFloats
from pumice.engine.views import ClassView, ViewCache
from pumice.model.events import Gone, Seen
from pumice.model.resources import CPU, MEMORY, dim
from pumice.testing import node, session


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
