"""The Kubernetes backend: an event loop in a thread of its own, behind the two ports of every backend."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pumice.clock import Clock, SystemClock
from pumice.errors import PumiceError
from pumice.kube.claims import DeviceClaims, Preparer, VolumeClaims
from pumice.kube.client import KubeClient
from pumice.kube.credentials import Credentials
from pumice.kube.events import NoteWriter
from pumice.kube.kinds import ConfigMap, Resource, resources_of
from pumice.kube.lease import Election, Elector
from pumice.kube.outbox import Outbox, Outcomes
from pumice.kube.reflector import Outage, Reflector
from pumice.kube.statuses import StatusWriter
from pumice.kube.watching import Connection
from pumice.kube.writer import ApiWriter
from pumice.model import native
from pumice.model.api import AnyObject
from pumice.model.events import ClusterEvent, Gone, Seen
from pumice.model.intents import Bind, Intent
from pumice.ports import Binder


class ConfMap:
    """One ConfigMap as last seen. The backend's thread tells it, the scheduler's thread reads it.

    Without a key the map must have exactly one.
    """

    def __init__(self, namespace: str, name: str, key: str = "") -> None:
        self.namespace, self.name, self.key = namespace, name, key
        self.changed: Callable[[], None] = lambda: None
        """Called when another content was seen."""
        self._lock = threading.Lock()
        self._data: Mapping[str, str] | None = None
        self._why = "it was not listed yet"

    @classmethod
    def parse(cls, text: str) -> ConfMap:
        """Return the map that ``NAMESPACE/NAME`` or ``NAMESPACE/NAME/KEY`` names."""
        return cls(*text.split("/"))

    def __str__(self) -> str:
        return f"ConfigMap {self.namespace}/{self.name}"

    @property
    def resource(self) -> Resource:
        """The path of its namespace's ConfigMaps."""
        return Resource("ConfigMap", f"/api/v1/namespaces/{self.namespace}", "configmaps")

    @property
    def query(self) -> dict[str, str]:
        """The limit of a list or watch to this one: rights on the one object are enough then."""
        return {"fieldSelector": f"metadata.name={self.name}"}

    def read_bytes(self) -> bytes:
        """The conf.

        :raises OSError: there is none; says why.
        """
        with self._lock:
            data, why = self._data, self._why
        if data is None:
            raise OSError(errno.ENOENT, why)
        if self.key:
            if self.key not in data:
                raise OSError(errno.ENOENT, f"it has no key {self.key!r}, only {_named(data)}")
            return data[self.key].encode()
        if len(data) != 1:
            raise OSError(errno.ENOENT, f"it must have one key or the key must be named, it has {_named(data)}")
        return next(iter(data.values())).encode()

    # -- told by the reflector --------------------------------------------------------------------------------------
    def first(self, kind: str, events: Sequence[ClusterEvent]) -> None:
        """The first list."""
        with self._lock:
            self._why = "it does not exist"
        self.put(events)
        self.changed()

    def put(self, events: Sequence[ClusterEvent]) -> None:
        """The map came, changed or went."""
        for event in events:
            match event:
                case Seen(object=ConfigMap() as found):
                    with self._lock:
                        self._data = found.data or {}
                case Gone():
                    with self._lock:
                        self._data, self._why = None, "it was deleted"
        if events:
            self.changed()


def _named(data: Mapping[str, str]) -> str:
    return ", ".join(map(repr, sorted(data))) or "none"


log = logging.getLogger("pumice.kube")
T = TypeVar("T")

WRITTEN = ("Pod", "PodGroup", native.POD_GROUP, "PersistentVolume", "PersistentVolumeClaim", "ResourceClaim")
"""Kinds that a leader writes, and that its successor decides by."""


STOOD_STILL = 2.0
"""Seconds without a turn of the event loop after which what is known of the cluster is too old to decide by."""
BEAT = 0.25
"""Seconds between two turns that are noted."""


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """How the backend behaves."""

    in_flight: int = 64
    """Binds under way at once."""
    node_labels: Sequence[tuple[str, str]] = ()
    """Only nodes that carry one of these labels are seen; all if there are none."""
    election: Election | None = None
    """The competing leader; None: we lead."""
    component: str = "pumice"
    """Our name in events."""
    conf_map: ConfMap | None = None
    """A ConfigMap that is followed beside the cluster."""
    dialect: str = "volcano"
    """The dialect of the queues and groups that are watched: ``volcano`` or ``kai``."""
    without: frozenset[str] = field(default_factory=frozenset)
    """Kinds that are not watched."""
    needed: frozenset[str] | None = None
    """Kinds without which nothing can be done; None: those without which nothing can be scheduled."""


class KubeBackend(Connection):
    """`EventSource` and `IntentSink` over an API server. ``start`` it, and ``stop`` it at the end."""

    def __init__(
        self,
        credentials: Credentials,
        settings: BackendSettings | None = None,
        *,
        clock: Clock | None = None,
        binders: Mapping[str, Binder] | None = None,
        beside: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
    ) -> None:
        self.settings = settings or BackendSettings()
        self._credentials, self._clock = credentials, clock or SystemClock()
        self._binders = binders
        self._beside = beside
        resources = resources_of(self.settings.dialect)
        super().__init__((kind for kind in resources if kind not in self.settings.without), resources)
        self._outbox: Outbox | None = None
        self._writer: ApiWriter | None = None
        self._elector: Elector | None = None
        self._grace = 0.0
        self._current = self.settings.election is None
        """Whether everything that a leader writes was listed since we lead, and since the process last stood still."""
        self._beat = time.monotonic()
        """When the event loop last ran."""
        self.outcomes: Outcomes | None = None
        """The observer of binds and evictions; to be set before the start."""
        self.lost = threading.Event()
        """We led and do not lead any more."""

    # -- the two ports ----------------------------------------------------------------------------------------------
    def drain(self) -> list[ClusterEvent]:
        """Everything that happened since the last call, in order."""
        return self.inbox.drain()

    def submit(self, intents: Sequence[Intent]) -> None:
        """Take over a batch of intents; outcomes come back as events."""
        if self._loop is not None and self._outbox is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._outbox.put, list(intents))

    def withdraw(self, whys: Mapping[str, str]) -> None:
        """Binds and evictions, by the pods' UIDs, are not to happen any more, for these reasons; if it is not too late.

        Each that is not sent comes back as failed.
        """
        if self._loop is not None and self._outbox is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._outbox.withdraw, dict(whys))

    # -- life -------------------------------------------------------------------------------------------------------
    def stop(self, grace: float = 10.0) -> None:
        """Carry out what was submitted, for at most *grace* seconds, give the lease back, and end."""
        self._grace = grace
        self._end(grace + 15.0)

    @property
    def leading(self) -> bool:
        """Whether we may decide and write, and know all that was written before."""
        return self._left() > 0 and self._current and time.monotonic() - self._beat <= STOOD_STILL

    @property
    def catching_up(self) -> bool:
        """Whether we have the lease, but do not know yet all that was written before."""
        return self._left() > 0 and not self.leading

    @property
    def leader(self) -> str:
        """The leader at the last look; empty if unknown."""
        return self._elector.holder if self._elector is not None else ""

    @property
    def missing(self) -> dict[str, str]:
        """Kind -> why it is not followed; nothing if it is."""
        return {kind: reflector.missing for kind, reflector in self.reflectors.items()}

    @property
    def lease_trouble(self) -> str:
        """Why the lease cannot be taken or renewed; nothing if it can, or another replica has it."""
        return self._elector.trouble if self._elector is not None else ""

    def create(self, kind: str, body: dict[str, Any]) -> None:
        """Create an object, some time soon; one that is there already is left as it is."""
        if self._loop is None or self._writer is None:
            raise RuntimeError("the backend was not started")
        writer = self._writer

        async def run() -> None:
            refused = await writer.create(self._resources[kind].collection, body)
            if refused is not None and refused.code != 409:
                log.warning("%s %s was not created: %s", kind, body["metadata"]["name"], refused)

        asyncio.run_coroutine_threadsafe(run(), self._loop)

    def ask(self, question: Callable[[ApiWriter], Coroutine[Any, Any, T]], seconds: float = 60.0) -> T:
        """Let the backend's own thread talk to the server, and wait for the outcome. Not to be called from there.

        :raises TimeoutError: there was none in time.
        """
        if self._loop is None or self._writer is None:
            raise RuntimeError("the backend was not started")
        return asyncio.run_coroutine_threadsafe(question(self._writer), self._loop).result(seconds)

    def node_of(self, intent: Bind) -> str:
        """The node that the pod of a bind has now; nothing if it has none, is gone, or is another of its name."""
        return self.ask(lambda writer: writer.node_of(intent))

    # -- inside the thread ------------------------------------------------------------------------------------------
    def _left(self) -> float:
        """For how many seconds from now we have the lease."""
        if self.settings.election is None:
            return float("inf")
        return self._elector.left if self._elector is not None else 0.0

    def _may_write(self) -> float:
        """For how many seconds from now we may write; 0 unless we lead and know all that others wrote."""
        return self._left() if self.leading else 0.0

    async def _main(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        connections = self.settings.in_flight + len(self._kinds) + 32
        async with KubeClient(self._credentials, connections=connections) as client:
            self._writer = ApiWriter(client, self._may_write)
            outage = Outage()
            chosen = self._chosen if self.settings.node_labels else None
            self._reflect(client, outage, chosen=chosen, needed=self.settings.needed)
            conf = self.settings.conf_map
            if conf is not None:
                conf.changed = self.inbox.wake
                self.reflectors["ConfigMap"] = Reflector(client, conf.resource, conf, query=conf.query, outage=outage)
            groups = {k: self.reflectors[k] for k in ("PodGroup", native.POD_GROUP) if k in self.reflectors}
            versions = self.reflectors["Pod"].versions if "Pod" in self.reflectors else {}
            statuses = StatusWriter(
                self._writer,
                {kind: reflector.objects for kind, reflector in groups.items()},
                self._clock,
                versions,
                where=lambda kind: groups[kind].resource if kind in groups else self._resources[kind],
            )
            notes = NoteWriter(self._writer, self._clock, self.settings.component, list(self._resources.values()))
            self._outbox = Outbox(
                self._writer,
                statuses,
                notes,
                self.inbox.put,
                in_flight=self.settings.in_flight,
                binders=self._binders,
                nodes=self.reflectors["Node"].versions if "Node" in self.reflectors else None,
                namespaces=self.reflectors["Namespace"].versions if "Namespace" in self.reflectors else (),
                outcomes=self.outcomes,
                preparer=self._preparer(self._writer, notes),
            )
            if self.settings.election is not None:
                self._elector = Elector(client, self.settings.election, clock=self._clock)
            self._started.set()
            await self._work(self._stopping)

    def _preparer(self, writer: ApiWriter, notes: NoteWriter) -> Preparer:
        """The preparation of claims, with the data of the watches."""

        def objects(kind: str) -> Mapping[str, AnyObject]:
            return self.reflectors[kind].objects if kind in self.reflectors else {}

        writer.where = lambda kind: self.reflectors[kind].resource
        pods = self.reflectors["Pod"].versions if "Pod" in self.reflectors else None
        claims, volumes = objects("PersistentVolumeClaim"), objects("PersistentVolume")
        devices = DeviceClaims(writer, notes, self._clock)
        return Preparer(writer, VolumeClaims(writer, claims, volumes, objects("Node"), pods), devices)

    async def _work(self, stopping: asyncio.Event) -> None:
        assert self._outbox is not None
        jobs = [r.run() for r in self.reflectors.values()]
        jobs += [self._outbox.run(), self._keep_time(), *(make() for make in self._beside)]
        if self._elector is not None:
            jobs.append(self._lead(self._elector))
        tasks = [asyncio.create_task(job) for job in jobs]
        end = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait([*tasks, end], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            if stopping.is_set() and self.leading and self._grace > 0:
                try:
                    async with asyncio.timeout(self._grace):
                        await self._outbox.finish(claims=False)
                except TimeoutError:
                    log.warning("not everything was written within %g s", self._grace)
        finally:
            if self._elector is not None:
                await self._elector.release()
            for task in tasks:
                task.cancel()
            end.cancel()
            await asyncio.gather(*tasks, end, return_exceptions=True)

    async def _lead(self, elector: Elector) -> None:
        await elector.acquire()
        looking = asyncio.create_task(self._look_again())
        try:
            await elector.hold()
        finally:
            looking.cancel()
        self.lost.set()
        self.inbox.wake()
        await asyncio.Event().wait()

    async def _look_again(self) -> None:
        """List what others may have written meanwhile: the watches may not have shown it yet."""
        self._current = False
        await asyncio.gather(*(self.reflectors[kind].renew() for kind in WRITTEN if kind in self.reflectors))
        self._current = True
        self.inbox.wake()

    async def _keep_time(self) -> None:
        """Notice that the process stood still (stopped, swapped out, suspended), and look again before deciding.

        Until then nothing is written: binds that waited were decided on a cluster that is not as it was.
        """
        while True:
            away = time.monotonic() - self._beat
            if away > STOOD_STILL and self.inbox.synced.is_set():
                log.warning("the process stood still for %.1f s; listing again before the next decision", away)
                await self._look_again()
            self._beat = time.monotonic()
            await asyncio.sleep(BEAT)

    def _chosen(self, obj: AnyObject) -> bool:
        labels = obj.metadata.labels or {}
        return any(labels.get(key) == value for key, value in self.settings.node_labels)


NEEDED = frozenset(("Node", "Pod"))
"""Kinds without which nothing can be said; PodGroups and Queues are read where the cluster has them."""


class NotBound(PumiceError):
    """The API server did not bind the pod."""


class FollowedCluster:
    """The name by which an extender server knows its cluster. ``start`` it, and ``stop`` it at the end; any thread may
    ask."""

    name = "api-server"

    def __init__(self, credentials: Credentials) -> None:
        self._backend = KubeBackend(credentials, BackendSettings(needed=NEEDED))

    def start(self) -> None:
        """Begin to read.

        :raises PumiceError: there are no credentials.
        """
        self._backend.start()

    def stop(self) -> None:
        """Stop reading."""
        self._backend.stop(grace=0.0)

    def trouble(self) -> str:
        """Why the cluster cannot be spoken of, or nothing."""
        if not self._backend.alive:
            return "the connection to the cluster has ended"
        missing = self._backend.inbox.missing
        return f"waiting for the first list of {', '.join(missing)}" if missing else ""

    def drain(self) -> list[ClusterEvent]:
        """Everything that happened since the last call, in order."""
        return self._backend.drain()

    def bind(self, intent: Bind) -> None:
        """Bind, or raise. A pod that has the node already is bound.

        :raises NotBound: the server said no.
        """
        why = self._backend.ask(lambda writer: writer.bind(intent))
        if why is not None:
            raise NotBound(f"pod {intent.pod}: {why}")
