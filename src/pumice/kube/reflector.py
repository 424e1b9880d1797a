"""One kind, followed: a list, then a watch from there, and again whenever the watch is lost for good."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from pumice.errors import decoder_words
from pumice.kube.client import Backoff, KubeClient
from pumice.kube.errors import ApiRefused, Unreachable
from pumice.kube.kinds import BOOKMARK, DECODERS, LISTS, RAW_LIST, WATCH_LINE, Resource
from pumice.model.api import AnyObject
from pumice.model.events import ClusterEvent, Gone, Seen

log = logging.getLogger("pumice.kube")

BLIP = 1.0
"""Seconds of an outage of which the end is not worth a line."""


class Outage:
    """The users of the API server that wait for it. Shared by all that read from it; belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self._since = 0.0

    def concerns(self, trouble: Exception) -> bool:
        """Whether it is the server that is in trouble, and not what was asked of it."""
        return isinstance(trouble, Unreachable) or (isinstance(trouble, ApiRefused) and trouble.retryable)

    def began(self, who: str, trouble: Exception) -> None:
        """A request got no answer, or no useful one; the first is reported."""
        if self._waiting:
            log.debug("%s waits too: %s", who, trouble)
        else:
            self._since = time.monotonic()
            log.warning("the API server does not answer: %s; waiting for it", trouble)
        self._waiting.add(who)

    def ended(self, who: str) -> None:
        """A request got an answer; when no request waits any more, that is reported."""
        if who not in self._waiting:
            return
        self._waiting.discard(who)
        lasted = time.monotonic() - self._since
        if not self._waiting and lasted >= BLIP:
            log.info("the API server answers again, after %.1f s", lasted)


_ARENA_MAX: Final = -8
_MMAP_THRESHOLD: Final = -3
_TRIM_THRESHOLD: Final = -1
LARGE: Final = 1024 * 1024
"""Pieces of more bytes than this come from the system one by one, and go back: lists, but not what a cycle adds up."""
_SPARE: Final = 4 * LARGE
"""So much may be free at the end of the heap."""


@cache
def _glibc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None)
        return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
    except OSError:
        return None


def use_one_heap() -> bool:
    """One heap for all threads, and large pieces beside it, from now on; False where that cannot be had."""
    library = _glibc()
    settings = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, LARGE), (_TRIM_THRESHOLD, _SPARE))
    return library is not None and all(library.mallopt(*setting) for setting in settings)


def give_back() -> bool:
    """Give whole free pages of the heap back to the system; True if there were any. Takes some milliseconds."""
    library = _glibc()
    return library is not None and bool(library.malloc_trim(0))


class ObjectList(NamedTuple):
    """The result of a list: its version, and its objects without those that cannot be read."""

    version: str
    objects: list[AnyObject]


def read_list(resource: Resource, body: bytes) -> ObjectList:
    """A whole list. An object of which a field is wrong is left out, and told of.

    :raises msgspec.MsgspecError: it is no list.
    """
    try:
        found = LISTS[resource.form or resource.kind].decode(body)
        return ObjectList(found.metadata.resource_version, found.items or [])
    except msgspec.ValidationError:
        raw = RAW_LIST.decode(body)
        read = (read_object(resource, item) for item in raw.items or ())
        return ObjectList(raw.metadata.resource_version, [obj for obj in read if obj is not None])


def read_object(resource: Resource, raw: msgspec.Raw) -> AnyObject | None:
    """One object; None, and a word of it, where a field is wrong."""
    try:
        obj: AnyObject = DECODERS[resource.form or resource.kind].decode(raw)
    except msgspec.ValidationError as exc:
        meta = BOOKMARK.decode(raw).metadata
        log.warning("%s %s/%s is left out: %s", resource.kind, meta.namespace, meta.name, decoder_words(exc))
        return None
    return obj


SILENCE = 150.0
"""A watch that brings nothing for so long, not even a bookmark (one comes about every minute), is dead."""
PAUSE = 0.5
"""Seconds that pass at least between two lists, or two watches, however soon they end."""
ABSENT = 60.0
"""How often it is looked whether a kind that the cluster does not have came."""
DOUBT = 30.0
"""Seconds for which a kind is not given up that existed before, or that may not be read: a starting server refuses for
a moment requests that it permits. As long as that lasts the first list is awaited."""
_BIG = 500
"""Lists with more objects than this, of about a kilobyte each, are taken in with the collector at rest."""


class _Expired(Exception):
    """The server does not remember the version that we watch from."""


class EventTargets(Protocol):
    """The observer of events."""

    def first(self, kind: str, events: Sequence[ClusterEvent]) -> None:
        """The first list of a kind."""
        ...

    def put(self, events: Sequence[ClusterEvent]) -> None:
        """Something happened."""
        ...


class Reflector:
    """Keeps an inbox up to date on one kind. Tells nothing twice and forgets nothing across lost connections."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        inbox: EventTargets,
        *,
        query: Mapping[str, str] | None = None,
        accept: Callable[[AnyObject], bool] | None = None,
        keep: bool = False,
        outage: Outage | None = None,
        patient: bool = True,
    ) -> None:
        """*patient*: the first list of a kind that may not be read is awaited for a while."""
        self._patient = patient
        self._outage = outage or Outage()
        self._client, self._resource, self._inbox, self._accept = client, resource, inbox, accept
        self._query = dict(query or {})
        self._newest = resource.prefix
        self._known: dict[str, str] = {}
        self._listed = False
        self._complained = ""
        self._refused = 0.0
        self._backoff = Backoff(0.2, 10.0)
        self._keep = keep
        self._wanted = asyncio.Event()
        """A caller wants everything listed anew."""
        self._waiting: list[asyncio.Future[None]] = []
        self._is_absent = False
        self.missing = "not listed yet"
        """Why the kind is not followed; nothing if it is."""
        self.objects: dict[str, AnyObject] = {}
        """The objects as last seen, if they are kept. Changes of what nobody here reads, such as heartbeats of nodes,
        are then not told."""
        self.lists = 0
        """How often everything had to be listed; beyond the first time because a watch was lost."""

    @property
    def versions(self) -> Mapping[str, str]:
        """The version of each object as last seen."""
        return self._known

    @property
    def resource(self) -> Resource:
        """The path of the kind on the server."""
        return self._resource

    async def renew(self) -> None:
        """Return when everything was listed by a request that began after this call; at once for an absent kind.

        An event of a watch may be late by any time; a list shows the state at its request.
        """
        if self._is_absent:
            return
        listed = asyncio.get_running_loop().create_future()
        self._waiting.append(listed)
        self._wanted.set()
        await listed

    async def run(self) -> None:
        """Follow the kind until cancelled."""
        while True:
            began = time.monotonic()
            try:
                version = await self._list()
                self._mended()
                await self._follow_until_wanted(version)
            except _Expired:
                await _pause(began)
            except ApiRefused as no:
                if no.code == 404 and self._other_version():
                    continue
                if self._resource.needed or no.code not in (403, 404) or self._doubtful(no):
                    await self._wait(no)
                    continue
                self._absent(no)
                await asyncio.sleep(ABSENT if no.code == 404 else self._backoff.again())
            except (Unreachable, msgspec.MsgspecError) as trouble:
                await self._wait(trouble)

    def _other_version(self) -> bool:
        """Look for the kind in its next older version; False at the end, with the newest to be looked for again."""
        self._resource = self._resource.older()
        return self._resource.prefix != self._newest

    # -- list -------------------------------------------------------------------------------------------------------
    async def _list(self) -> str:
        """Bring everything up to date; returns the version to watch from."""
        waiting = len(self._waiting)
        self._wanted.clear()
        body = await self._client.request("GET", self._resource.collection, query=self._query, timeout=120.0)
        version = self._take_list(body, waiting)
        if self.lists > 1 and len(body) > _BIG * 100:
            del body
            give_back()
        return version

    def _take_list(self, body: bytes, waiting: int) -> str:
        with _collector_at_rest(len(body) > _BIG * 1000, stays=not self._listed):
            present: set[str] = set()
            version, objects = self._changed_in(body, present) if self._known else read_list(self._resource, body)
            self._take_all(objects, present, waiting)
        return version

    def _take_all(self, objects: Iterable[AnyObject], present: set[str], waiting: int) -> None:
        """These objects are there, and those that are known to be *present*; no others."""
        self._is_absent, self.missing = False, ""
        self.lists += not (waiting and self._listed)
        events: list[ClusterEvent] = []
        for obj in objects:
            present.add(obj.key)
            self._take(obj, events)
        for key in [key for key in self._known if key not in present]:
            self._drop(key, events)
        self._deliver(events)
        self._tell(waiting)

    def _tell(self, count: int) -> None:
        """The first so many of those who wait need not wait any more."""
        for listed in self._waiting[:count]:
            if not listed.done():
                listed.set_result(None)
        del self._waiting[:count]

    def _changed_in(self, body: bytes, present: set[str]) -> tuple[str, Iterator[AnyObject]]:
        """The differences, one by one: a second copy of the cluster, however short, is memory that stays."""
        raw = RAW_LIST.decode(body)

        def changed() -> Iterator[AnyObject]:
            for item in raw.items or ():
                meta = BOOKMARK.decode(item).metadata
                key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
                if meta.resource_version and self._known.get(key) == meta.resource_version:
                    present.add(key)
                elif (obj := read_object(self._resource, item)) is not None:
                    yield obj
                else:  # what it was until now still stands, as on a watch: its room is not free
                    present.add(key)

        return raw.metadata.resource_version, changed()

    def _deliver(self, events: Sequence[ClusterEvent]) -> None:
        if not self._listed:
            self._listed = True
            self._inbox.first(self._resource.kind, events)
        elif events:
            self._inbox.put(events)

    # -- watch ------------------------------------------------------------------------------------------------------
    async def _follow_until_wanted(self, version: str) -> None:
        """Watch until a new list is needed, or wanted."""
        following = asyncio.ensure_future(self._follow(version))
        wanted = asyncio.ensure_future(self._wanted.wait())
        try:
            await asyncio.wait((following, wanted), return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
        finally:
            for task in (following, wanted):
                task.cancel()
            await asyncio.gather(following, wanted, return_exceptions=True)

    async def _follow(self, version: str) -> None:
        """Watch until the server has forgotten the version; lost connections are taken up where they broke."""
        while True:
            began = time.monotonic()
            query = {
                **self._query,
                "watch": "1",
                "resourceVersion": version,
                "allowWatchBookmarks": "true",
                "timeoutSeconds": str(random.randint(300, 600)),
            }
            try:
                async with self._client.stream(self._resource.collection, query=query, silence=SILENCE) as body:
                    self._outage.ended(self._resource.kind)
                    rest = b""
                    async for chunk in body.iter_any():
                        *lines, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
                        if lines:
                            version = self._lines(lines, version)
                            self._mended()
                await _pause(began)
            except Unreachable as lost:
                await self._wait(lost)
            except ApiRefused as no:
                if no.code == 410:
                    raise _Expired from no
                if not no.retryable and no.code != 401:
                    raise
                await self._wait(no)

    def _lines(self, lines: Sequence[bytes], version: str) -> str:
        """Take in some lines of a watch; returns the version reached."""
        events: list[ClusterEvent] = []
        try:
            for line in lines:
                if not line:
                    continue
                event = WATCH_LINE.decode(line)
                if event.type == "ERROR":
                    raise _Expired
                meta = BOOKMARK.decode(event.object).metadata
                if _repeated(meta.resource_version, version):
                    continue
                if event.type == "DELETED":
                    self._drop(f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name, events)
                elif event.type != "BOOKMARK":
                    obj = read_object(self._resource, event.object)
                    if obj is not None:
                        self._take(obj, events)
                version = meta.resource_version or version
        finally:
            if events:
                self._inbox.put(events)
        return version

    # -- objects ----------------------------------------------------------------------------------------------------
    def _take(self, obj: AnyObject, events: list[ClusterEvent]) -> None:
        key, version = obj.key, obj.metadata.resource_version
        if self._accept is not None and not self._accept(obj):
            self._drop(key, events)
        elif self._known.get(key) != version:
            self._known[key] = version
            if self._keep:
                before = self.objects.get(key)
                if before is not None and _same(before, obj):
                    meta = replace(before.metadata, resource_version=version)  # the parts stay shared with the state
                    self.objects[key] = replace(before, metadata=meta)
                    return
                self.objects[key] = obj
            events.append(Seen(obj))

    def _drop(self, key: str, events: list[ClusterEvent]) -> None:
        if self._known.pop(key, None) is not None:
            self.objects.pop(key, None)
            events.append(Gone(self._resource.kind, key))

    # -- trouble ----------------------------------------------------------------------------------------------------
    def _doubtful(self, no: ApiRefused) -> bool:
        """Report whether an optional kind may be there soon: it was there, or it exists and may not be read yet."""
        now = time.monotonic()
        self._refused = self._refused or now
        may_come = self.lists > 0 or (no.code == 403 and self._patient)
        return may_come and now - self._refused < DOUBT

    def _absent(self, no: ApiRefused) -> None:
        forbidden = no.code == 403
        self.missing = "forbidden" if forbidden else "absent"
        if self._complained != str(no):
            self._complained = str(no)
            if forbidden:
                log.warning("%s may not be read; going on without it, and trying again: %s", self._resource.kind, no)
            else:
                log.info("%s does not exist here; going on without", self._resource.kind)
        events: list[ClusterEvent] = []
        for key in list(self._known):
            self._drop(key, events)
        self._deliver(events)
        self._is_absent = True
        self._tell(len(self._waiting))

    async def _wait(self, trouble: Exception) -> None:
        if isinstance(trouble, ApiRefused):
            self.missing = {403: "forbidden", 404: "absent"}.get(trouble.code, "refused")
        if self._outage.concerns(trouble):
            self._outage.began(self._resource.kind, trouble)
        else:
            what = f"{type(trouble).__name__} {getattr(trouble, 'code', '')}"
            if self._complained != what:
                self._complained = what
                log.warning("%s: %s; trying again", self._resource.kind, trouble)
        try:
            async with asyncio.timeout(self._backoff.again(getattr(trouble, "retry_after", 0.0))):
                await self._wanted.wait()
        except TimeoutError:
            pass

    def _mended(self) -> None:
        self._outage.ended(self._resource.kind)
        self._complained, self._refused = "", 0.0
        self._backoff.reset()


@contextmanager
def _collector_at_rest(wanted: bool, *, stays: bool) -> Iterator[None]:
    """The collector does not pass over what is made within; nor later, where it *stays* for long.

    Only a first list freezes the heap: freezing keeps all objects for good, and after an outage many of them are broken
    connections.
    """
    if not wanted or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if stays:
            gc.freeze()
        gc.enable()


def _repeated(version: str, reached: str) -> bool:
    """Whether an event is older than what was reached, and so was told before: versions on one watch only rise."""
    return version.isdecimal() and reached.isdecimal() and int(version) < int(reached)


def _same(before: AnyObject, now: AnyObject) -> bool:
    """Whether nothing changed but the version."""
    old, new = before.metadata, now.metadata
    return all(getattr(old, f) == getattr(new, f) for f in old.__struct_fields__ if f != "resource_version") and all(
        getattr(before, f) == getattr(now, f) for f in before.__struct_fields__ if f != "metadata"
    )


async def _pause(since: float) -> None:
    """Wait until the pause since a moment is over: something between us and the server may end everything at once."""
    await asyncio.sleep(max(since + PAUSE - time.monotonic(), 0.0))
