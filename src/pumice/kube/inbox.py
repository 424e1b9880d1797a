"""Where events wait until the scheduler takes them in: filled by the watches, emptied between cycles."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from pumice.model import native
from pumice.model.api import Pod, PodGroup
from pumice.model.events import ClusterEvent, Gone, Seen


class Inbox:
    """Holds events back until every kind has been listed once; then hands them over in order.

    First lists come out in the order of *kinds* whatever order they arrive in. Any thread may fill it.
    """

    def __init__(self, kinds: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._events: list[ClusterEvent] = []
        self._first: dict[str, Sequence[ClusterEvent] | None] = dict.fromkeys(kinds)
        self._groups: dict[tuple[str, str], PodGroup] = {}
        """PodGroups as last seen: most of their changes are our own statuses coming back."""
        self._woken = threading.Event()
        self.synced = threading.Event()
        """Every kind was listed; the next ``drain`` has the whole cluster."""

    @property
    def missing(self) -> list[str]:
        """Kinds that were not listed yet."""
        with self._lock:
            return [] if self.synced.is_set() else [kind for kind, events in self._first.items() if events is None]

    def first(self, kind: str, events: Sequence[ClusterEvent]) -> None:
        """The first list of a kind."""
        with self._lock:
            for event in events if kind in ("PodGroup", native.POD_GROUP) else ():
                self._is_news(event)
            self._first[kind] = events
            if any(found is None for found in self._first.values()):
                return
            late, self._events = self._events, []
            for found in self._first.values():
                self._events.extend(found or ())
            self._events.extend(late)
            self._first = {}
        self.synced.set()
        self._woken.set()

    def put(self, events: Sequence[ClusterEvent]) -> None:
        """Something happened."""
        with self._lock:
            self._events.extend(events)
            news = [event for event in events if self._is_news(event)]
        if self.synced.is_set() and any(map(calls_for_a_cycle, news)):
            self._woken.set()

    def _is_news(self, event: ClusterEvent) -> bool:
        """Whether more changed than a PodGroup's status, which the next period is early enough for."""
        match event:
            case Seen(object=PodGroup() as group):
                known = self._groups.get((group.kind_name, group.key))
                self._groups[group.kind_name, group.key] = group
                return known is None or _wishes(known) != _wishes(group)
            case Gone(kind="PodGroup" | native.POD_GROUP as kind, key=key):
                self._groups.pop((kind, key), None)
        return True

    def drain(self) -> list[ClusterEvent]:
        """Everything that happened since the last call, in order; nothing before the first lists are complete."""
        with self._lock:
            if not self.synced.is_set():
                return []
            self._woken.clear()
            events, self._events = self._events, []
        return events

    def wait(self, seconds: float) -> bool:
        """Wait until something happened that calls for a cycle; False if nothing did in time."""
        return self._woken.wait(seconds)

    def wake(self) -> None:
        """End a wait."""
        self._woken.set()


def _wishes(group: PodGroup) -> tuple[object, ...]:
    meta = group.metadata
    return group.spec, meta.labels, meta.annotations, meta.uid, meta.deletion_timestamp


def calls_for_a_cycle(event: ClusterEvent) -> bool:
    """Whether an event can change a decision at once. Failed intents are tried again with the next period."""
    match event:
        case Seen(object=Pod() as pod):
            bound = bool(pod.spec.node_name)
            ends = pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed")
            return ends or not bound
        case Seen() | Gone():
            return True
        case _:
            return False
