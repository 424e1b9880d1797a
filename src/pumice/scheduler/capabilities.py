"""A queue stays within its capability whatever plugins there are: what holds where none that shares is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.framework import quota
from pumice.framework.plugin import Arguments, Plugin
from pumice.framework.session.questions import PluginEntry
from pumice.framework.session.session import Session
from pumice.model.limit import Bound
from pumice.model.queue import Queue
from pumice.model.reason import PASS, Verdict
from pumice.model.resources import Number
from pumice.model.task import Task

KEEPERS: Final = frozenset(("proportion", "capacity"))
"""The plugins that keep queues within their capabilities themselves, where they are asked what a queue may take."""
ASKED: Final = "enabledAllocatable"


class Capabilities(Plugin):
    """Refuses a task by which its queue, or one above it, would hold more than its capability. Pod slots aside."""

    name = "capability"
    persistent = True
    _version = -1

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        if ssn.state.queue_version != self._version:
            self._version = ssn.state.queue_version
            self._limited = any(queue.capability.amounts for queue in ssn.queues.values())
            self._below: dict[str, list[Queue]] = {}
        if self._limited:
            ssn.add_allocatable_fn(self.name, self._allocatable, max_tasks=self._max_tasks)

    def _allocatable(self, queue: Queue, task: Task) -> Verdict:
        for above, most in self._limits(queue):
            request = [(d, v) for d, v in task.klass.items if d in most]
            held = self._held(above)
            if not quota.fits(most, held, request):
                of = f"queue {above.name}"
                return quota.insufficient(quota.lacking(of, most, held, request, lambda _: (Bound.CAPABILITY, "")))
        return PASS

    def _max_tasks(self, queue: Queue, task: Task) -> int:
        room = quota.UNLIMITED
        for above, most in self._limits(queue):
            request = [(d, v) for d, v in task.klass.items if d in most]
            room = min(room, quota.room(most, self._held(above), request))
        return room

    def _limits(self, queue: Queue) -> Iterator[tuple[Queue, dict[int, Number]]]:
        """The queue and those above it that have a capability, and of what."""
        seen: set[str] = set()
        above: Queue | None = queue
        while above is not None and above.name not in seen:
            seen.add(above.name)
            if above.capability.amounts:
                yield above, quota.capability_of(above)
            above = self._ssn.queues.get(above.parent)

    def _held(self, queue: Queue) -> dict[int, Number]:
        """What a queue and all below it hold, promises of this session included."""
        if queue.name not in self._below:
            queues = self._ssn.queues
            self._below[queue.name] = [q for q in queues.values() if quota.is_below(queues, q.name, queue.name)]
        held: dict[int, Number] = {}
        for below in self._below[queue.name]:
            quota.added(held, below.held.amounts.items())
        return held


def keeper() -> PluginEntry:
    """The entry of a tier that keeps queues within their capabilities."""
    return PluginEntry(Capabilities.name, lambda: Capabilities(Arguments({}, owner=Capabilities.name)), lambda _: True)
