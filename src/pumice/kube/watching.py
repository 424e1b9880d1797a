"""A cluster that is watched: an event loop in a thread of its own, which lists, watches and fills an inbox.

This is all that a reader needs. It has no writer, and its client cannot write (`ReadingClient`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pumice.kube.client import KubeClient, ReadingClient
from pumice.kube.credentials import Credentials
from pumice.kube.kinds import RESOURCES, Resource, resources_of
from pumice.kube.reflector import Outage, Reflector
from pumice.model import native
from pumice.model.api import AnyObject, Pod, PodGroup
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


log = logging.getLogger("pumice.kube")
KEPT: Final = ("PodGroup", native.POD_GROUP, "Node", "PersistentVolume", "PersistentVolumeClaim")
"""Kinds whose objects are kept, so that changes of unread fields are no news."""


class Connection:
    """A thread with an event loop in it. A subclass implements ``_main``."""

    def __init__(self, kinds: Iterable[str], resources: Mapping[str, Resource] = RESOURCES) -> None:
        """*resources*: where the server keeps each kind."""
        self._kinds, self._resources = list(kinds), resources
        self.inbox = Inbox(self._kinds)
        self._thread = threading.Thread(target=self._run, name="pumice-kube", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._started = threading.Event()
        self.reflectors: dict[str, Reflector] = {}
        self.failure: BaseException | None = None
        """The exception that ended it, if it ended by itself."""

    def start(self) -> None:
        """Begin to watch.

        :raises PumiceError: there are no credentials.
        """
        self._thread.start()
        self._started.wait()
        if self.failure is not None:
            raise self.failure

    @property
    def resources(self) -> list[Resource]:
        """The followed kinds, each with its path on the server."""
        return [self._resources[kind] for kind in self._kinds]

    @property
    def alive(self) -> bool:
        """Whether it works."""
        return self._thread.is_alive() and self.failure is None

    def drain(self) -> list[ClusterEvent]:
        """Everything that happened since the last call, in order."""
        return self.inbox.drain()

    def _end(self, seconds: float) -> None:
        """Let the thread come to its end, and wait for it."""
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as exc:  # kept for whoever owns it
            self.failure = exc
            if self._started.is_set():
                log.error("the connection ended", exc_info=exc)
        finally:
            self._started.set()
            self.inbox.wake()

    async def _main(self) -> None:
        raise NotImplementedError

    def _reflect(
        self,
        client: KubeClient,
        outage: Outage,
        *,
        chosen: Callable[[AnyObject], bool] | None = None,
        needed: frozenset[str] | None = None,
        patient: bool = True,
    ) -> None:
        """Follow every kind; of nodes only the *chosen* ones. *needed*: kinds that must be there;
        *patient*: optional kinds that may not be read are awaited for a while."""
        for kind in self._kinds:
            resource = self._resources[kind]
            if needed is not None:
                resource = replace(resource, needed=kind in needed)
            accept = chosen if kind == "Node" else None
            self.reflectors[kind] = Reflector(
                client,
                resource,
                self.inbox,
                accept=accept,
                keep=kind in KEPT,
                outage=outage,
                patient=patient,
            )


class Watching(Connection):
    """All objects of a cluster that decisions depend on, for a reader."""

    def __init__(self, credentials: Credentials, *, without: Sequence[str] = (), dialect: str = "volcano") -> None:
        resources = resources_of(dialect)
        super().__init__((kind for kind in resources if kind not in without), resources)
        self._credentials = credentials

    def stop(self) -> None:
        """End."""
        self._end(15.0)

    async def _main(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with ReadingClient(self._credentials, connections=len(self._kinds) + 4) as client:
            self._reflect(client, Outage(), needed=frozenset(("Pod", "Node")), patient=False)
            self._started.set()
            tasks = [asyncio.create_task(reflector.run()) for reflector in self.reflectors.values()]
            end = asyncio.create_task(self._stopping.wait())
            try:
                await asyncio.wait([*tasks, end], return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task.done():
                        task.result()
            finally:
                end.cancel()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, end, return_exceptions=True)
