"""The queue controller: states and counters of queues."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pumice.kube.controllers.hand import Hand
from pumice.kube.controllers.objects import COMMANDS, QUEUES, Command, FollowedQueue
from pumice.kube.controllers.store import Store
from pumice.kube.controllers.work import WorkQueue
from pumice.kube.kinds import DECODERS, AnyObject
from pumice.model.api import PodGroup
from pumice.model.intents import Note
from pumice.workloads.queues import CLOSED_BY_PARENT, QueueSeen, plan_of

log = logging.getLogger("pumice.kube.controllers")

GATHER = 0.5
"""Seconds for which the counters of a queue wait for further changes."""


class QueueController:
    """Keeps ``status.state`` and the counters of queues. What they hold is written by the scheduler."""

    def __init__(self, store: Store, hand: Hand, say: Callable[[Note, str], None], namespace: str) -> None:
        """*namespace*: where queues are commanded. A queue is of no namespace, and tenants may command in theirs."""
        self._store, self._hand, self._say, self._namespace = store, hand, say, namespace
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
                await self._hand.delete(COMMANDS, late.key, late.metadata.uid)
        if queue is None or queue.metadata.deletion_timestamp is not None:
            return
        command = self._command(queue)
        plan = plan_of(self._seen(queue), command.action if command is not None else "")
        for kind, reason, message in plan.says:
            self._say(Note("Queue", queue.key, kind, reason, message), queue.metadata.uid)
        if plan.mark:
            await self._hand.patch(QUEUES, name, _marked(queue, "true"))
        if plan.status:
            answer = await self._hand.patch_status(QUEUES, name, {"status": plan.status})
            if answer is not None:
                self._store.take(DECODERS[FollowedQueue.kind_name].decode(answer))
        if plan.unmark:
            await self._hand.patch(QUEUES, name, _marked(queue, None))
        if command is not None:
            self._obeyed.add(command.metadata.uid)
            await self._hand.delete(COMMANDS, command.key, command.metadata.uid)

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
