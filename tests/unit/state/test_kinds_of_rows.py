"""Kinds of rows: numbered as they come, or before there are any."""

from __future__ import annotations

from pumice import Session
from pumice.state.kinds import RowKinds
from pumice.testing import job, node, session, task_of


def world() -> tuple[Session, RowKinds]:
    ssn = session(
        *(node(f"n{n}", cpu=8, gpu=2) for n in range(20)),
        *(job(f"j{n}", cpu=1 + n, memory="1Gi", gpu=n % 2) for n in range(3)),
    )
    kinds = RowKinds(ssn.state.table)
    kinds.most_empty = 8
    assert kinds.current()
    return ssn, kinds


def test_a_row_is_of_the_kind_that_was_expected_of_it() -> None:
    ssn, kinds = world()
    tasks = [task_of(ssn, f"j{n}-0") for n in range(3)]
    added = kinds.amounts.added_by([task.klass for task in tasks])
    expected = kinds.expect([0, 0, 0], added)
    then = kinds.expect(expected[:1], added[1:2])
    assert kinds.expect([0, 0, 0], added) == expected
    assert len({0, *expected, *then}) == len(kinds) == 5
    position = kinds.amounts.changed.position
    for task, name in zip(tasks, ("n3", "n7", "n9"), strict=True):
        ssn.statement().allocate(task, ssn.nodes[name])
    assert kinds.current()
    assert [kinds.of_rows.item(ssn.nodes[name].row) for name in ("n3", "n7", "n9")] == expected
    assert kinds.amounts.changed.position == position
    assert [kinds.count(kind) for kind in (0, *expected, *then)] == [17, 1, 1, 1, 0]


def test_kinds_without_a_row_are_forgotten_when_there_are_too_many() -> None:
    ssn, kinds = world()
    added = kinds.amounts.added_by([task_of(ssn, "j0-0").klass])
    last = 0
    for _ in range(8):
        [last] = kinds.expect([last], added)
    kinds.make_room()
    assert (kinds.forgotten, len(kinds)) == (1, 9)  # once when all was new
    kinds.make_room(1)
    assert kinds.forgotten == 2
    [again] = kinds.expect([0], added)
    assert 0 < again < len(kinds) == 9
