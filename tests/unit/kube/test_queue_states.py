"""States of queues."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pumice.kube.controllers.queues import (
    CLOSED_BY_PARENT,
    QueuePlan,
    QueueSeen,
    QueueState,
    counters,
    next_state,
    plan_of,
)

OPEN, CLOSING, CLOSED = "Open", "Closing", "Closed"


@pytest.mark.parametrize(
    ("state", "by_parent", "left", "parent", "asked", "expected"),
    [
        ("", False, 0, "", "", (OPEN, False)),
        (OPEN, False, 3, "", "", (OPEN, False)),
        (OPEN, False, 3, "", "CloseQueue", (CLOSING, False)),
        (OPEN, False, 0, "", "CloseQueue", (CLOSED, False)),
        (CLOSING, False, 1, "", "", (CLOSING, False)),
        (CLOSING, False, 0, "", "", (CLOSED, False)),
        (CLOSED, False, 1, "", "", (CLOSED, False)),
        (CLOSED, False, 0, OPEN, "OpenQueue", (OPEN, False)),
        (CLOSING, False, 2, "", "OpenQueue", (OPEN, False)),
        (OPEN, False, 2, CLOSING, "", (CLOSING, True)),
        (OPEN, False, 0, CLOSED, "", (CLOSED, True)),
        ("", False, 0, CLOSED, "", (CLOSED, True)),
        (CLOSING, True, 0, CLOSED, "", (CLOSED, True)),
        (CLOSED, True, 0, CLOSED, "", (CLOSED, True)),
        (CLOSED, True, 0, OPEN, "", (OPEN, False)),
        (OPEN, True, 0, OPEN, "", (OPEN, False)),
        (CLOSED, False, 0, OPEN, "", (CLOSED, False)),
        (CLOSED, True, 0, "", "", (OPEN, False)),
        (CLOSED, True, 0, CLOSED, "OpenQueue", (CLOSED, True)),
        (CLOSED, True, 0, CLOSED, "CloseQueue", (CLOSED, False)),
        ("Unknown", False, 0, "", "", ("Unknown", False)),
    ],
)
def test_a_queue_opens_and_closes_by_command_and_with_its_parent(
    state: str, by_parent: bool, left: int, parent: str, asked: str, expected: tuple[str, bool]
) -> None:
    found = next_state(QueueState(state, by_parent), left=left, parent=parent, asked=asked, name="q")
    assert found[:2] == expected
    again = next_state(QueueState(*expected), left=left, parent=parent, name="q")
    assert again[:2] == expected, "a second look changes nothing"


def test_a_command_that_cannot_be_obeyed_says_why() -> None:
    refused = next_state(QueueState(CLOSED, True), left=0, parent=CLOSED, asked="OpenQueue", name="child").refused
    assert refused == "queue 'child' cannot be opened: its parent is Closed"
    assert next_state(QueueState(OPEN), left=0, asked="CloseQueue", name="root") == QueueState(
        OPEN, False, "queue 'root' cannot be closed"
    )


def test_groups_are_counted_by_phase() -> None:
    found = counters(["", "Pending", "Inqueue", "Running", "Running", "Completed", "Unknown", "Strange"])
    assert found == {"pending": 2, "inqueue": 1, "running": 2, "completed": 1, "unknown": 1}


STATES = ("", "Open", "Closing", "Closed")


def seen(**fields: Any) -> QueueSeen:
    return QueueSeen(**{"name": "q", "status": {}, "annotations": {}, **fields})


@pytest.mark.parametrize("asked", ["", "OpenQueue", "CloseQueue", "Dance"])
def test_a_plan_leads_to_where_nothing_is_left_to_do(asked: str) -> None:
    """What a plan wants is done once: looked at again, with the command carried out, the queue stays as it is."""
    for state, by_parent, parent, below, phases in itertools.product(
        STATES, (False, True), STATES, ((), ("Open",), ("Closed",), ("",)), ((), ("Running",))
    ):
        marks = {CLOSED_BY_PARENT: "true"} if by_parent else {}
        around = {"parent": parent, "below": below, "phases": phases}
        before = seen(status={"state": state} if state else {}, annotations=marks, **around)
        plan = plan_of(before, asked)
        assert not (plan.mark and plan.unmark)
        status = {**before.status, **plan.status}
        assert status["state"] in STATES[1:], before
        if status["state"] == "Closed" and state != "Closed":
            assert not phases, before
            assert all(other == "Closed" for other in below), before
        after = {CLOSED_BY_PARENT: "true"} if (by_parent or plan.mark) and not plan.unmark else {}
        again = plan_of(seen(status=status, annotations=after, **around))
        assert again == QueuePlan((), False, {}, False), before


def test_only_news_is_written_and_counters_go_with_the_state() -> None:
    full = {"state": "Open", "pending": 0, "inqueue": 0, "running": 2, "completed": 0, "unknown": 0}
    assert plan_of(seen(status=full, phases=("Running", "Running"))).status == {}
    assert plan_of(seen(status=full, phases=("Running", ""))).status == {"running": 1, "pending": 1, "state": "Open"}
    assert plan_of(seen()).status == {"state": "Open"}


@pytest.mark.parametrize(
    ("fields", "asked", "says"),
    [
        ({}, "", [("Normal", "StateChanged", "new -> Open")]),
        ({"status": {"state": "Open"}}, "", []),
        ({"status": {"state": "Open"}}, "CloseQueue", [("Normal", "StateChanged", "Open -> Closed")]),
        (
            {"status": {"state": "Open"}, "name": "root"},
            "CloseQueue",
            [("Warning", "CloseQueue", "queue 'root' cannot be closed")],
        ),
        (
            {"status": {"state": "Closed"}, "parent": "Closed"},
            "OpenQueue",
            [("Warning", "OpenQueue", "queue 'q' cannot be opened: its parent is Closed")],
        ),
        ({"status": {"state": "Open"}}, "Dance", [("Warning", "Unsupported", "no action 'Dance' for queues")]),
    ],
)
def test_what_is_said_of_a_queue(fields: dict[str, Any], asked: str, says: list[tuple[str, str, str]]) -> None:
    assert list(plan_of(seen(**fields), asked).says) == says


def test_a_child_is_marked_before_it_is_closed_by_its_parent_and_unmarked_after_it_was_opened() -> None:
    closing = plan_of(seen(status={"state": "Open"}, parent="Closing", phases=("Running",)))
    assert (closing.mark, closing.status["state"], closing.unmark) == (True, "Closing", False)
    marked = {CLOSED_BY_PARENT: "true"}
    opening = plan_of(seen(status={"state": "Closed"}, annotations=marked, parent="Open"))
    assert (opening.mark, opening.status["state"], opening.unmark) == (False, "Open", True)
