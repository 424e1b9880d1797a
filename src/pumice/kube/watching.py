"""A cluster that is watched: an event loop in a thread of its own, which lists, watches and fills an inbox.

This is all that a reader needs. It knows nobody who writes, and its client cannot (`ReadingClient`).
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
from pumice.kube.inbox import Inbox
from pumice.kube.kinds import RESOURCES, Resource, resources_of
from pumice.kube.outage import Outage
from pumice.kube.reflector import Reflector
from pumice.model import native
from pumice.model.api import AnyObject
from pumice.model.events import ClusterEvent

log = logging.getLogger("pumice.kube")
KEPT: Final = ("PodGroup", native.POD_GROUP, "Node", "PersistentVolume", "PersistentVolumeClaim")
"""Kinds whose objects are kept, so that changes of what nobody reads are no news."""


class Connection:
    """A thread with an event loop in it. Whoever derives from it says in ``_main`` what is done there."""

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
        """What ended it, if it ended by itself."""

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
        """What is followed, each with its place on the server."""
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
    """Everything of a cluster that decisions depend on, for somebody who only reads."""

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
