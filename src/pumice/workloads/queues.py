"""States of queues: open, closing while something is left in them, closed; a closed parent closes what is below it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

OPEN, CLOSING, CLOSED = "Open", "Closing", "Closed"
OPEN_ACTION, CLOSE_ACTION = "OpenQueue", "CloseQueue"
CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
"""An annotation: the queue opens by itself when its parent opens."""
COUNTERS = ("pending", "inqueue", "running", "completed", "unknown")


class QueueState(NamedTuple):
    state: str
    by_parent: bool = False
    """Closed because its parent is, not for itself."""
    refused: str = ""
    """Why a command was not obeyed."""


def next_state(now: QueueState, *, left: int, parent: str = "", asked: str = "", name: str = "") -> QueueState:
    """The state that a queue should have.

    *left*: PodGroups in it and queues below it that are not closed. *parent*: the state of the queue above it, nothing
    if there is none. *asked*: an action that somebody commands.
    """
    shut = CLOSING if left else CLOSED
    parent_shut = parent in (CLOSING, CLOSED)
    if asked == OPEN_ACTION:
        if parent_shut:
            return QueueState(
                now.state or OPEN, now.by_parent, f"queue {name!r} cannot be opened: its parent is {parent}"
            )
        return QueueState(OPEN)
    if asked == CLOSE_ACTION:
        if name == "root":
            return QueueState(now.state or OPEN, refused="queue 'root' cannot be closed")
        return QueueState(shut)
    if parent_shut and now.state in ("", OPEN):
        return QueueState(shut, True)
    if not parent_shut and now.by_parent:
        return QueueState(OPEN)
    if now.state == CLOSING:
        return QueueState(shut, now.by_parent)
    return QueueState(now.state or OPEN, now.by_parent)


def counters(phases: Iterable[str]) -> dict[str, int]:
    """How many PodGroups of a queue are in which phase; a new one is pending."""
    found = dict.fromkeys(COUNTERS, 0)
    for phase in phases:
        name = (phase or "Pending").lower()
        if name in found:
            found[name] += 1
    return found
