"""States of queues: open, closing while something is left in them, closed; a closed parent closes what is below it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pumice.model import keys
from pumice.model.codes import ReasonCode

OPEN, CLOSING, CLOSED = "Open", "Closing", "Closed"
OPEN_ACTION, CLOSE_ACTION = "OpenQueue", "CloseQueue"
CLOSED_BY_PARENT = keys.CLOSED_BY_PARENT
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
    refused = ""
    if asked == OPEN_ACTION and parent_shut:
        refused = f"queue {name!r} cannot be opened: its parent is {parent}"
    elif asked == CLOSE_ACTION and name == "root":
        refused = "queue 'root' cannot be closed"
    if refused:
        return next_state(now, left=left, parent=parent, name=name)._replace(refused=refused)
    if asked == OPEN_ACTION:
        return QueueState(OPEN)
    if asked == CLOSE_ACTION:
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


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """A queue with what is in it, above it and below it."""

    name: str
    status: Mapping[str, Any]
    annotations: Mapping[str, str]
    phases: tuple[str, ...] = ()
    """Of the PodGroups in it."""
    below: tuple[str, ...] = ()
    """The states of the queues below it."""
    parent: str = ""
    """The state of the queue above it; nothing if there is none."""


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """What is to be done for a queue, in the order of the fields."""

    says: tuple[tuple[str, ReasonCode, str], ...]
    """Events: type, reason, message."""
    mark: bool
    """Note that it is closed by its parent: before it is, so that nobody takes it for closed for itself."""
    status: dict[str, Any]
    """What of its status is news."""
    unmark: bool
    """Take that note away: after it was opened."""


def plan_of(seen: QueueSeen, asked: str = "") -> QueuePlan:
    """What is to be done for a queue, of which somebody commands the action *asked*."""
    now = QueueState(str(seen.status.get("state") or ""), seen.annotations.get(CLOSED_BY_PARENT) == "true")
    left = len(seen.phases) + sum(state != CLOSED for state in seen.below)
    state = next_state(now, left=left, parent=seen.parent, asked=asked, name=seen.name)
    news: dict[str, Any] = {
        key: value for key, value in counters(seen.phases).items() if (seen.status.get(key) or 0) != value
    }
    says: list[tuple[str, ReasonCode, str]] = []
    if state.state != now.state:
        says.append(("Normal", ReasonCode.STATE_CHANGED, f"{now.state or 'new'} -> {state.state}"))
    if state.refused:
        says.append(("Warning", ReasonCode(asked), state.refused))
    if asked and asked not in (OPEN_ACTION, CLOSE_ACTION):
        says.append(("Warning", ReasonCode.UNSUPPORTED, f"no action {asked!r} for queues"))
    if news or state.state != now.state:
        news["state"] = state.state
    return QueuePlan(
        tuple(says),
        mark=state.by_parent and not now.by_parent,
        status=news,
        unmark=now.by_parent and not state.by_parent,
    )
