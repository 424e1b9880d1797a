"""A class that fits nowhere is remembered in a few bytes, until a row that changed has room for it."""

from __future__ import annotations

import numpy as np
import pytest

from pumice.engine.views import UnschedulableClasses
from pumice.framework.session.session import Session
from pumice.model.events import Gone, Seen
from pumice.model.status import TaskStatus
from pumice.testing import cluster, job, node, session, task_of


def told(ssn: Session) -> UnschedulableClasses:
    """Knows that the tasks of ``big`` fit nowhere."""
    known = UnschedulableClasses()
    known.add("big", task_of(ssn, "big-0").klass, ssn.state.table)
    return known


def stands(known: UnschedulableClasses, ssn: Session) -> bool:
    return known.contains("big", ssn.state.table)


def test_nothing_is_known_of_a_class_that_was_not_looked_at() -> None:
    ssn = session(cluster("2x4cpu"), job("big", cpu=8))
    assert not stands(UnschedulableClasses(), ssn)


def test_it_stands_while_nothing_changes_and_while_what_changes_leaves_too_little_room() -> None:
    ssn = session(cluster("2x4cpu"), job("big", cpu=8), job("small", cpu=1))
    known = told(ssn)
    assert stands(known, ssn)
    ssn.statement().allocate(task_of(ssn, "small-0"), ssn.nodes["node-0"])
    assert stands(known, ssn)
    assert len(known) == 1


def test_it_ends_when_a_row_that_changed_has_room_or_will_have_it() -> None:
    ssn = session(node("n", cpu=8), job("running", cpu=4, on="n"), job("big", cpu=8))
    known = told(ssn)
    ssn.statement().evict(task_of(ssn, "running-0"), "test")
    assert task_of(ssn, "running-0").status is TaskStatus.RELEASING
    assert not stands(known, ssn)
    assert len(known) == 0


@pytest.mark.parametrize(
    ("event", "ends"),
    [
        (Seen(node("new", cpu=1)), True),  # there are other rows than there were
        (Seen(node("node-0", cpu=8)), True),
        (Seen(node("node-0", cpu=2)), False),
        (Seen(node("node-0", cpu=4, labels={"zone": "a"})), False),
        (Gone("Node", "node-1"), False),
    ],
    ids=["comes", "has room", "shrinks", "has another label", "goes"],
)
def test_it_ends_when_a_node_comes_or_changes_and_has_room(event: Seen | Gone, ends: bool) -> None:
    ssn = session(cluster("2x4cpu"), job("big", cpu=8))
    known = told(ssn)
    ssn.state.apply(event)
    assert stands(known, ssn) is not ends


def test_a_row_whose_node_changed_is_open_to_every_class_from_then_on() -> None:
    ssn = session(cluster("4x8cpu"), job("holds", cpu=4, on="node-2"), job("big", cpu=8), job("more", cpu=4))
    state, known = ssn.state, UnschedulableClasses()
    mine = np.zeros(state.table.size, dtype=np.bool_)
    mine[state.nodes["node-2"].row] = True
    for number in range(3):
        known.add(number, task_of(ssn, "big-0").klass, state.table, ~mine if number == 2 else mine)
    known.add("big", task_of(ssn, "big-0").klass, state.table, mine)
    state.set_status(task_of(ssn, "more-0"), TaskStatus.ALLOCATED, ssn.nodes["node-0"])
    state.apply(Seen(node("node-0", cpu=8, labels={"zone": "a"})))
    assert stands(known, ssn)  # there is too little room now, whatever its labels say
    state.set_status(task_of(ssn, "more-0"), TaskStatus.PENDING, None)
    assert not stands(known, ssn)


def test_when_many_nodes_changed_nothing_is_known() -> None:
    ssn = session(cluster("8x4cpu"), job("big", cpu=8))
    known = told(ssn)
    for number in range(3):
        ssn.state.apply(Seen(node(f"node-{number}", cpu=2)))
    assert not stands(known, ssn)


def test_it_stands_however_many_rows_changed_if_none_of_them_has_room() -> None:
    ssn = session(cluster("40x4cpu"), node("tight", cpu=8), job("big", cpu=8), job("small", tasks=41, cpu=1))
    statement = ssn.statement()
    statement.allocate(task_of(ssn, "small-40"), ssn.nodes["tight"])
    known = told(ssn)
    for n, name in enumerate(sorted(ssn.nodes.keys() - {"tight"})):
        statement.allocate(task_of(ssn, f"small-{n}"), ssn.nodes[name])
    assert stands(known, ssn)
    statement.discard()
    assert not stands(known, ssn)


def test_what_is_forgotten_or_cleared_is_known_no_more() -> None:
    ssn = session(cluster("2x4cpu"), job("big", cpu=8))
    known = told(ssn)
    known.discard("big")
    known.discard("never told")
    assert not stands(known, ssn)
    known = told(ssn)
    known.clear()
    assert not stands(known, ssn)


@pytest.mark.parametrize("many", [0, 20], ids=["one class", "twenty others"])
def test_room_on_a_row_that_is_not_open_to_the_class_changes_nothing(many: int) -> None:
    ssn = session(cluster("3x8cpu"), job("holds", tasks=3, cpu=4, on=["node-0", "node-1", "node-2"]), job("big", cpu=8))
    state, known = ssn.state, UnschedulableClasses()
    rows = {name: one.row for name, one in state.nodes.items()}
    mine = np.zeros(state.table.size, dtype=np.bool_)
    mine[rows["node-1"]] = True
    klass = task_of(ssn, "big-0").klass
    for n in range(many):
        known.add(n, klass, state.table)
    known.add("big", klass, state.table, mine)
    statement = ssn.statement()
    for name in ("holds-0", "holds-2"):
        statement.evict(task_of(ssn, name), "test")
        assert stands(known, ssn)
    assert not any(known.contains(n, state.table) for n in range(many))  # to the others all rows are open
    statement.evict(task_of(ssn, "holds-1"), "test")
    assert not stands(known, ssn)
