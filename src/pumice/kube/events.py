"""Kubernetes events: one object for what is said again and again, with a count."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pumice.clock import Clock
from pumice.kube.client import STRATEGIC
from pumice.kube.kinds import CONFIG_MAPS, RESOURCES, Resource
from pumice.kube.writer import ApiWriter
from pumice.model.intents import Note

log = logging.getLogger("pumice.kube")

REPEAT = 60.0
"""Seconds that pass at least between two writes of one event."""
KEEP = 1024
"""So many events are remembered, to be counted up when they are said again; the oldest are forgotten."""
_ABOUT: dict[str, Resource] = {**RESOURCES, CONFIG_MAPS.kind: CONFIG_MAPS}
"""Kinds that events can be about."""
WAITING = 2000
"""Events beyond so many waiting ones are dropped: they are for reading, and nobody reads that many."""
SHARE = 4
"""A namespace has at most this part of what is remembered and of what waits, so that the others are heard too."""


@dataclass(slots=True)
class _Said:
    name: str
    count: int = 0
    first: str = ""
    wrote: float = float("-inf")


def _namespace(note: Note) -> str:
    return note.key.rpartition("/")[0]


class NoteWriter:
    """Writes notes as events, slowly, one after the other. Belongs to one event loop."""

    def __init__(self, writer: ApiWriter, clock: Clock, component: str, also: Sequence[Resource] = ()) -> None:
        """Speaks as *component* about the kinds of the scheduler, and *also* about these."""
        self._writer, self._clock, self._component = writer, clock, component
        self._about = {**_ABOUT, **{resource.kind: resource for resource in also}}
        self._said: OrderedDict[Note, _Said] = OrderedDict()
        self._remembered: dict[str, OrderedDict[Note, None]] = {}
        """Namespace -> what is remembered of it, the oldest first."""
        self._queue: asyncio.Queue[tuple[Note, str]] = asyncio.Queue(WAITING)
        self._waiting: Counter[str] = Counter()
        """Namespace -> its events that wait."""

    def put(self, note: Note, uid: str = "") -> None:
        """Something is to be said about an object."""
        if note.kind not in self._about:
            log.warning("%s %s: %s: %s", note.kind, note.key, note.reason, note.message)
            return
        said = self._said.get(note)
        if said is None:
            said = self._said[note] = _Said(f"{note.key.rpartition('/')[2]}.{uuid.uuid4().hex[:16]}")
            mine = self._remembered.setdefault(_namespace(note), OrderedDict())
            mine[note] = None
            if len(mine) > KEEP // SHARE:
                self._forget(next(iter(mine)))
            elif len(self._said) > KEEP:
                self._forget(next(iter(self._said)))
        said.count += 1
        if time.monotonic() - said.wrote < REPEAT or self._queue.full():
            return
        if self._waiting[_namespace(note)] < WAITING // SHARE:
            said.wrote = time.monotonic()
            self._queue.put_nowait((note, uid))
            self._waiting[_namespace(note)] += 1

    def _forget(self, note: Note) -> None:
        namespace = _namespace(note)
        del self._said[note], self._remembered[namespace][note]
        if not self._remembered[namespace]:
            del self._remembered[namespace]

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            note, uid = await self._queue.get()
            self._waiting -= Counter((_namespace(note),))
            said = self._said.get(note)
            if said is not None:
                try:
                    await self._write(note, uid, said)
                except Exception:
                    log.exception("event about %s %s", note.kind, note.key)

    async def _write(self, note: Note, uid: str, said: _Said) -> None:
        namespace = note.key.rpartition("/")[0] or "default"
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        path = f"/api/v1/namespaces/{namespace}/events"
        if said.first:
            body: dict[str, Any] = {"count": said.count, "lastTimestamp": now}
            if await self._writer.patch(f"{path}/{said.name}", body, STRATEGIC):
                return
        said.first = said.first or now
        refused = await self._writer.create(path, self._body(note, uid, said, namespace, now))
        if refused is not None:
            log.debug("%s", refused)

    def _body(self, note: Note, uid: str, said: _Said, namespace: str, now: str) -> dict[str, Any]:
        resource = self._about[note.kind]
        about = {
            "kind": note.kind.partition(".")[0],
            "apiVersion": resource.prefix.removeprefix("/apis/").removeprefix("/api/"),
            "name": note.key.rpartition("/")[2],
        }
        if "/" in note.key:
            about["namespace"] = namespace
        if uid:
            about["uid"] = uid
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": said.name, "namespace": namespace},
            "involvedObject": about,
            "type": note.type,
            "reason": note.reason,
            "message": note.message[:1024],
            "count": said.count,
            "firstTimestamp": said.first,
            "lastTimestamp": now,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._component,
        }
