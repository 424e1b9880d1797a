"""The bound on what evictions could free agrees with counting by hand, whatever moves in between."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from pumice.engine.victims import EvictableRoom
from pumice.framework.session.session import Session
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.testing.builders import job, node, queue
from pumice.testing.world import session, task_of


def world() -> Session:
    return session(
        queue("default"),
        *(node(f"n{n}", cpu=6) for n in range(3)),
        job("red", tasks=4, cpu=1, on=["n0", "n0", "n1", "n2"]),
        job("blue", tasks=3, cpu=2, on=["n0", "n1", "n1"]),
        job("new", tasks=2, cpu=5),
    )


def group_of(task: Task) -> str | None:
    return task.job.name if task.status is TaskStatus.RUNNING else None


def room_of(ssn: Session) -> EvictableRoom[str]:
    victims = ((task, group) for task in ssn.state.tasks.values() if (group := group_of(task)) is not None)
    return EvictableRoom(ssn.state.table, victims, group_of)


def by_hand(ssn: Session, task: Task, groups: frozenset[str]) -> list[bool]:
    out = []
    for item in ssn.nodes.values():
        freed = sum(int(t.requests.milli_cpu) for t in item.tasks.values() if group_of(t) in groups)
        out.append(item.future_idle.milli_cpu + freed >= task.requests.milli_cpu)
    return out


@settings(max_examples=examples(60), deadline=None)
@given(moves=st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=8))
def test_the_bound_agrees_with_counting_by_hand(moves: Sequence[tuple[bool, int]]) -> None:
    ssn = world()
    room = room_of(ssn)
    wanted = task_of(ssn, "new-0")
    statement = ssn.statement()
    for evict, number in moves:
        running = [t for t in ssn.state.tasks.values() if t.status is TaskStatus.RUNNING]
        if evict and running:
            statement.evict(running[number % len(running)], "test")
        else:
            statement.rollback(number % (len(statement) + 1))
        for groups in (frozenset[str](), frozenset({"red"}), frozenset({"red", "blue"})):
            assert room.could_fit(wanted.klass, groups).tolist() == by_hand(ssn, wanted, groups)
            assert room.beyond(wanted.klass, groups) is not any(by_hand(ssn, wanted, groups))  # it asks for CPU alone


def test_a_group_that_holds_nothing_frees_nothing() -> None:
    ssn = world()
    room = room_of(ssn)
    wanted = task_of(ssn, "new-0")
    none = room.could_fit(wanted.klass, frozenset())
    assert room.could_fit(wanted.klass, frozenset({"green"})).tolist() == none.tolist()
    assert sorted(room.groups()) == ["blue", "red"]


def test_what_is_beyond_every_node_is_found_in_one_resource_and_the_rest_by_looking_at_nodes() -> None:
    ssn = session(
        queue("default"),
        *(node("much", cpu=8, memory="1Gi"), node("wide", cpu=1, memory="8Gi"), node("full", cpu=64)),
        *(job("holds", cpu=64, on="full"), job("big", cpu=9), job("both", cpu=4, memory="4Gi"), job("fits", cpu=8)),
    )
    room = EvictableRoom[str](ssn.state.table, (), group_of)
    found = {name: room.beyond(task_of(ssn, f"{name}-0").klass, frozenset()) for name in ("big", "both", "fits")}
    assert found == {"big": True, "both": False, "fits": False}
    assert not room.could_fit(task_of(ssn, "both-0").klass, frozenset()).any()
    ssn.statement().evict(task_of(ssn, "holds-0"), "test")
    assert not room.beyond(task_of(ssn, "big-0").klass, frozenset())
