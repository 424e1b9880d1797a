"""The bound on what evictions could free agrees with counting by hand, whatever moves in between."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from pumice.framework.evicting.freed_capacity import EvictableCapacity, FreedCapacity, PlacementBound, shortage
from pumice.framework.points.table import PREEMPTABLE
from pumice.framework.session.session import Session
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.testing.builders import job, node, queue
from pumice.testing.world import session, task_of

S = TaskStatus


def world() -> Session:
    return session(
        *(queue("default"), queue("blue"), queue("aside")),
        *(node(f"n{n}", cpu=6) for n in range(3)),
        job("red", tasks=4, cpu=1, on=["n0", "n0", "n1", "n2"]),
        job("blue", tasks=3, cpu=2, on=["n0", "n1", "n1"], queue="blue"),
        job("new", tasks=2, cpu=5),
    )


def by_hand(ssn: Session, task: Task, gone: Sequence[Task]) -> list[int]:
    """How many such tasks each node has room for, once some are gone."""
    out = []
    for item in ssn.nodes.values():
        freed = sum(int(t.requests.milli_cpu) for t in item.tasks.values() if t in gone)
        out.append(max(int(item.future_idle.milli_cpu + freed) // int(task.requests.milli_cpu), 0))
    return out


def running(ssn: Session, *queues: str) -> list[Task]:
    return [t for t in ssn.state.tasks.values() if t.status is S.RUNNING and t.job.queue in queues]


@settings(max_examples=examples(60), deadline=None)
@given(moves=st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=8))
def test_the_bound_agrees_with_counting_by_hand(moves: Sequence[tuple[bool, int]]) -> None:
    ssn = world()
    capacity = EvictableCapacity(ssn, PREEMPTABLE)
    wanted = task_of(ssn, "new-0")
    statement = ssn.statement()
    for evict, number in moves:
        alive = [t for t in ssn.state.tasks.values() if t.status is S.RUNNING]
        if evict and alive:
            statement.evict(alive[number % len(alive)], "test")
        else:
            statement.rollback(number % (len(statement) + 1))
        for queues in ((), ("default",), ("default", "blue")):
            places = by_hand(ssn, wanted, running(ssn, *queues))
            freed = FreedCapacity(ssn.state.table, victims=running(ssn, *queues))
            assert freed.places(wanted.klass, 9).tolist() == places
            assert freed.fits(wanted.klass).tolist() == [n > 0 for n in places]
            rows = np.array([2, 0])
            part = FreedCapacity(ssn.state.table, rows, running(ssn, *queues))
            assert part.places(wanted.klass, 9).tolist() == [places[2], places[0]]
        own = by_hand(ssn, wanted, running(ssn, "blue"))
        assert capacity.freed_for(wanted, "blue".__eq__).places(wanted.klass, 9).tolist() == own


def test_tasks_that_may_not_be_evicted_free_nothing() -> None:
    kept = {"volcano.sh/preemptable": "false"}
    ssn = session(
        queue("default"), node("n0", cpu=4), job("kept", cpu=4, on="n0", task_annotations=kept), job("new", cpu=4)
    )
    wanted = task_of(ssn, "new-0")
    assert not EvictableCapacity(ssn, PREEMPTABLE).freed_for(wanted, "default".__eq__).fits(wanted.klass).any()


@pytest.mark.parametrize(("needed", "met"), [(0, True), (1, True), (2, True), (3, False), (None, False)])
def test_as_many_places_are_asked_for_as_are_needed(needed: int | None, met: bool) -> None:
    """A node of 4 CPU is full; were its task gone, two of the three tasks of 2 CPU would fit."""
    ssn = session(queue("default"), node("n0", cpu=4), job("old", cpu=4, on="n0"), job("new", tasks=3, cpu=2))
    bound = PlacementBound(ssn, [task_of(ssn, f"new-{n}") for n in range(3)], needed)
    assert not bound.met(FreedCapacity(ssn.state.table))
    assert bound.met(FreedCapacity(ssn.state.table, victims=[task_of(ssn, "old-0")])) is met


def test_a_task_for_which_room_is_held_rules_nothing_out() -> None:
    ssn = session(queue("default"), node("n0", cpu=2), job("old", cpu=2, on="n0"), job("new", cpu=2))
    task, node0 = task_of(ssn, "new-0"), ssn.nodes["n0"]
    assert not PlacementBound(ssn, [task]).met(FreedCapacity(ssn.state.table))
    ssn.state.hold(task, node0)
    assert PlacementBound(ssn, [task]).met(FreedCapacity(ssn.state.table))


def test_the_shortage_of_a_node_counts_who_goes_and_who_stays() -> None:
    ssn = session(queue("default"), node("n0", cpu=4), job("old", tasks=2, cpu=2, on="n0"), job("new", cpu=3))
    table, klass, old = ssn.state.table, task_of(ssn, "new-0").klass, [task_of(ssn, f"old-{n}") for n in range(2)]
    assert [v for _, v in shortage(table, klass, 0)] == [3000]
    assert [v for _, v in shortage(table, klass, 0, without=old[:1])] == [1000]
    assert shortage(table, klass, 0, without=old) == []
    ssn.statement().evict(old[0], "test")
    ssn.statement().evict(old[1], "test")
    assert [v for _, v in shortage(table, klass, 0, less=old[0])] == [1000]


def test_a_task_without_requests_has_no_place_where_more_is_held_than_there_is() -> None:
    """A filter rejects such a node for every task, so the bound does."""
    ssn = session(queue("default"), node("n0", cpu=1), job("old", cpu=2, on="n0"), job("new", cpu=0))
    klass, freed = task_of(ssn, "new-0").klass, FreedCapacity(ssn.state.table)
    assert not freed.fits(klass).any()
    assert freed.places(klass, 1).tolist() == [0]
