"""States of queues."""

from __future__ import annotations

import pytest

from pumice.workloads.queues import QueueState, counters, next_state

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
