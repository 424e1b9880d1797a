"""The running controllers: wait until we lead, list everything, then look at whatever changes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from pumice.clock import Clock, SystemClock
from pumice.config.settings import CONTROLLERS
from pumice.kube.client import KubeClient
from pumice.kube.controllers.jobs import JobReconciler
from pumice.kube.controllers.pod_groups import LoosePodController
from pumice.kube.controllers.queues import QueueController
from pumice.kube.controllers.store import FOLLOWED, JOBS, OwnedPod, Store
from pumice.kube.controllers.work import WorkQueue
from pumice.kube.credentials import Credentials
from pumice.kube.events import NoteWriter
from pumice.kube.lease import Election, Elector
from pumice.kube.reflector import Outage, Reflector
from pumice.kube.writer import AT_ONCE, ApiWriter
from pumice.model.api import AnyObject

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each that nobody asked for


class ControllerMetrics:
    """Counts what each controller looked at. Told by the event loop; any thread may read."""

    def __init__(self, names: Iterable[str], clock: Clock) -> None:
        self._registry, self._clock = CollectorRegistry(), clock
        self._leading = Gauge("pumice_controllers_leading", "1 if this replica leads.", registry=self._registry)
        self._depth = self._gauge("queue_depth", "Objects whose turn has come and that nobody looks at yet.")
        self._success = self._gauge("last_success_timestamp_seconds", "When a look was done last; 0: never.")
        self._looks = Counter(
            "pumice_controller_reconciles",
            "Looks at an object, by what became of them; one that failed is made again.",
            ("controller", "result"),
            registry=self._registry,
        )
        for name in names:  # a series that begins when the first look fails hides that failure from rates
            self._depth.labels(name).set(0)
            self._success.labels(name).set(0)
            for result in ("done", "failed"):
                self._looks.labels(name, result)
        build = Gauge("pumice_build_info", "1; the version as a label.", ("version",), registry=self._registry)
        build.labels(version("pumice")).set(1)
        ProcessCollector(registry=self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"pumice_controller_{name}", text, ("controller",), registry=self._registry)

    def leading(self, leads: bool) -> None:
        """Whether this replica leads."""
        self._leading.set(float(leads))

    def follow(self, queue: WorkQueue) -> None:
        """Count what becomes of the keys of a queue."""
        self._depth.labels(queue.name).set_function(queue.waiting)
        queue.told = partial(self._looked, queue.name)

    def _looked(self, name: str, done: bool) -> None:
        self._looks.labels(name, "done" if done else "failed").inc()
        if done:
            self._success.labels(name).set(self._clock.now())

    def text(self) -> bytes:
        """Everything, for a scrape."""
        found: bytes = generate_latest(self._registry)
        return found


log = logging.getLogger("pumice.kube.controllers")

PATIENCE = 5.0
"""Seconds for which the end of what was cancelled is waited for."""


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """How the controllers behave."""

    schedulers: Sequence[str] = ("pumice",)
    """Pods of these get PodGroups; jobs that name no scheduler get the first."""
    enabled: frozenset[str] = frozenset(CONTROLLERS)
    namespace: str = "pumice-system"
    """Our own: commands about queues count only there."""
    election: Election | None = None
    """The competing leader; None: we lead."""


class Controllers:
    """All controllers in one event loop. ``run`` it; any thread may ``stop`` it."""

    def __init__(
        self,
        credentials: Credentials,
        settings: ControllerSettings,
        *,
        clock: Clock | None = None,
        beside: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
    ) -> None:
        self._credentials, self._settings = credentials, settings
        self._clock = clock or SystemClock()
        self._beside = beside
        self.metrics = ControllerMetrics(sorted(settings.enabled), self._clock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._store: Store | None = None
        self._leads = False
        self._ended = ""
        self.ending: float | None = None
        """When it was decided to end, on the steady clock; None: it was not."""

    def stop(self) -> None:
        """End soon."""
        self.ending = self.ending or time.monotonic()
        if self._loop is None:
            self._stopping.set()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopping.set)

    def trouble(self) -> str:
        """Why we should be started anew; nothing if all is well."""
        return self._ended

    def unready(self) -> str:
        """Why we cannot work yet; a replica that waits for its turn is ready."""
        if self._leads and self._store is not None and self._store.missing:
            return f"waiting for the first list of {', '.join(self._store.missing)}"
        return "" if self._loop is not None else "not started"

    async def run(self) -> int:
        """Work until stopped; returns the exit code: 0 if somebody asked us to stop, else 1.

        :raises PumiceError: there are no credentials.
        """
        self._loop = asyncio.get_running_loop()
        async with KubeClient(self._credentials, connections=AT_ONCE + len(FOLLOWED) + 16) as client:
            election = self._settings.election
            elector = Elector(client, election, clock=self._clock) if election is not None else None
            tasks = [asyncio.create_task(job) for job in (self._lead(client, elector), *(b() for b in self._beside))]
            end = asyncio.create_task(self._stopping.wait())
            try:
                await asyncio.wait([*tasks, end], return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task.done():
                        task.result()
                if not self._stopping.is_set():
                    log.error("%s; ending", self._ended)
                    return 1
                return 0
            finally:
                self.ending = self.ending or time.monotonic()
                await _cancelled(*tasks, end)
                if elector is not None:
                    await elector.release()

    async def _lead(self, client: KubeClient, elector: Elector | None) -> None:
        """Work while we lead. Everything is listed only then, so it is as new as what the leader before us wrote."""
        if elector is None:
            await self._work(client, lambda: float("inf"))
            return
        await elector.acquire()
        working = asyncio.create_task(self._work(client, lambda: elector.left))
        holding = asyncio.create_task(elector.hold())
        try:
            await asyncio.wait([working, holding], return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
            self._ended = "another replica leads now, or we could not renew our lease"
            self.ending = self.ending or time.monotonic()
        finally:
            self.metrics.leading(False)
            await _cancelled(working, holding)

    async def _work(self, client: KubeClient, left: Callable[[], float]) -> None:
        self._leads = True
        self.metrics.leading(True)
        followed = [r for r in FOLLOWED if r is not JOBS or "job" in self._settings.enabled]
        store = self._store = Store(followed)
        writer = ApiWriter(client, left, patient=False, at_once=AT_ONCE)
        notes = NoteWriter(ApiWriter(client, left), self._clock, "pumice-controllers", also=[JOBS])
        enabled, names = self._settings.enabled, self._settings.schedulers
        queues: list[WorkQueue] = []
        loose: LoosePodController | None = None
        if "queue" in enabled:
            queues.append(QueueController(store, writer, notes.put, self._settings.namespace).queue)
        if "podgroup" in enabled:
            loose = LoosePodController(store, writer, notes.put, schedulers=frozenset(names))
            queues.append(loose.queue)
        if "job" in enabled:
            queues.append(JobReconciler(store, writer, notes.put, self._clock, scheduler=names[0]).queue)

        def accept(obj: AnyObject) -> bool:
            return isinstance(obj, OwnedPod) and (obj.job is not None or (loose is not None and loose.follows(obj)))

        outage = Outage()
        async with asyncio.TaskGroup() as group:
            group.create_task(notes.run())
            for resource in followed:
                chosen = accept if resource.kind == OwnedPod.kind_name else None
                group.create_task(Reflector(client, resource, store, accept=chosen, outage=outage).run())
            await store.synced.wait()
            log.info("everything was listed; controllers work: %s", ", ".join(sorted(enabled)))
            for queue in queues:
                self.metrics.follow(queue)
                group.create_task(queue.run())


async def _cancelled(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait for their end, but not for ever: who does not lead must not stay for one that hangs."""
    for task in tasks:
        task.cancel()
    _, left = await asyncio.wait(tasks, timeout=PATIENCE)
    for task in left:
        log.error("%s does not end; going on without it", task.get_name())
