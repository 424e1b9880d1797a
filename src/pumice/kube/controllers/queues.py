"""The queue controller: states and counters of queues."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pumice.kube.controllers.store import COMMANDS, QUEUES, Command, FollowedQueue, Store
from pumice.kube.controllers.work import WorkQueue
from pumice.kube.kinds import DECODERS
from pumice.kube.writer import ApiWriter
from pumice.model import keys
from pumice.model.api import AnyObject, PodGroup
from pumice.model.codes import ReasonCode
from pumice.model.intents import Note

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
    """The counts of the PodGroups in it."""
    below: tuple[str, ...] = ()
    """The states of the queues below it."""
    parent: str = ""
    """The state of the queue above it; nothing if there is none."""


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """The steps for a queue, in the order of the fields."""

    says: tuple[tuple[str, ReasonCode, str], ...]
    """Events: type, reason, message."""
    mark: bool
    """Note that it is closed by its parent: before it is, so that nobody takes it for closed for itself."""
    status: dict[str, Any]
    """The changes of its status."""
    unmark: bool
    """Take that note away: after it was opened."""


def plan_of(seen: QueueSeen, asked: str = "") -> QueuePlan:
    """The steps for a queue with the commanded action *asked*."""
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


log = logging.getLogger("pumice.kube.controllers")

GATHER = 0.5
"""Seconds for which the counters of a queue wait for further changes."""


class QueueController:
    """Keeps ``status.state`` and the counters of queues. The scheduler writes the amounts that they hold."""

    def __init__(self, store: Store, writer: ApiWriter, say: Callable[[Note, str], None], namespace: str) -> None:
        """*namespace*: where queues are commanded. A queue is of no namespace, and tenants may command in theirs."""
        self._store, self._writer, self._say, self._namespace = store, writer, say, namespace
        self._obeyed: set[str] = set()
        """UIDs of commands that were carried out and are still to be seen."""
        self.queue = WorkQueue("queue", self.look)
        store.listen(self._changed)

    def _changed(self, obj: AnyObject) -> None:
        match obj:
            case PodGroup():
                self.queue.add(obj.spec.queue or "default", GATHER)
            case Command() if obj.target.kind == "Queue":
                if not self._store.has(obj):
                    self._obeyed.discard(obj.metadata.uid)
                elif obj.metadata.namespace != self._namespace:
                    log.warning(
                        "command %s about queue %s is not obeyed: queues are commanded in namespace %s alone",
                        obj.key,
                        obj.target.name,
                        self._namespace,
                    )
                self.queue.add(obj.target.name)
            case FollowedQueue():
                self.queue.add(obj.metadata.name)
                if obj.spec.parent:
                    self.queue.add(obj.spec.parent)
                for other in self._store.queues():
                    if other.spec.parent == obj.metadata.name:
                        self.queue.add(other.metadata.name)

    async def look(self, name: str) -> None:
        """Look at one queue and write what is news."""
        queue = self._store.queue(name)
        if queue is None:
            for late in self._store.commands_for("Queue", name, self._namespace):
                await self._writer.delete(COMMANDS, late.key, late.metadata.uid)
        if queue is None or queue.metadata.deletion_timestamp is not None:
            return
        command = self._command(queue)
        plan = plan_of(self._seen(queue), command.action if command is not None else "")
        for kind, reason, message in plan.says:
            self._say(Note("Queue", queue.key, kind, reason, message), queue.metadata.uid)
        if plan.mark:
            await self._writer.merge(QUEUES, name, _marked(queue, "true"))
        if plan.status:
            answer = await self._writer.merge_status(QUEUES, name, {"status": plan.status})
            if answer is not None:
                self._store.take(DECODERS[FollowedQueue.kind_name].decode(answer))
        if plan.unmark:
            await self._writer.merge(QUEUES, name, _marked(queue, None))
        if command is not None:
            self._obeyed.add(command.metadata.uid)
            await self._writer.delete(COMMANDS, command.key, command.metadata.uid)

    def _seen(self, queue: FollowedQueue) -> QueueSeen:
        name = queue.metadata.name
        parent = self._store.queue(queue.spec.parent) if queue.spec.parent not in ("", name) else None
        return QueueSeen(
            name,
            queue.status,
            queue.metadata.annotations or {},
            tuple(group.status.phase for group in self._store.groups_in(name)),
            tuple(_state(q) for q in self._store.queues() if q.spec.parent == name and q is not queue),
            _state(parent) if parent is not None else "",
        )

    def _command(self, queue: FollowedQueue) -> Command | None:
        """The first command about a queue that was not carried out yet."""
        for command in self._store.commands_for("Queue", queue.metadata.name, self._namespace):
            if command.target.uid in ("", queue.metadata.uid) and command.metadata.uid not in self._obeyed:
                return command
        return None


def _state(queue: FollowedQueue) -> str:
    return str(queue.status.get("state") or "")


def _marked(queue: FollowedQueue, mark: str | None) -> dict[str, object]:
    return {"metadata": {"uid": queue.metadata.uid, "annotations": {CLOSED_BY_PARENT: mark}}}
