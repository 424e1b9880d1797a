"""Keys to be looked at: each once however often it was named, never twice at the same time, again after a failure."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import time
from collections.abc import Awaitable, Callable

from pumice.errors import PumiceError
from pumice.kube.client import Backoff
from pumice.kube.errors import NotSent

log = logging.getLogger("pumice.kube.controllers")

GATHER = 0.05
"""Seconds for which a key waits for further changes before it is looked at."""


class WorkQueue:
    """Calls *handle* for keys. Belongs to one event loop."""

    def __init__(self, name: str, handle: Callable[[str], Awaitable[None]], *, at_once: int = 8) -> None:
        self.name = name
        self.told: Callable[[bool], None] = lambda _: None
        """Told after each look whether it was done."""
        self._handle, self._at_once = handle, at_once
        self._time: Callable[[], float] = time.monotonic
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._busy: set[str] = set()
        self._failures: dict[str, Backoff] = {}
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, key: str, after: float = GATHER) -> None:
        """Look at a key *after* so many seconds, or earlier if it is due earlier."""
        self._time = asyncio.get_running_loop().time
        at = self._time() + after
        if at < self._due.get(key, float("inf")):
            self._due[key] = at
            if key not in self._busy:
                heapq.heappush(self._heap, (at, key))
            self._changed.set()

    def due(self, key: str) -> bool:
        """Whether a key waits to be looked at."""
        return key in self._due

    def waiting(self) -> int:
        """How many keys are due and nobody looks at them yet. Any thread may ask."""
        now = self._time()
        return sum(1 for at in self._due.copy().values() if at <= now)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                self._changed.clear()
                wait = self._begin()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):  # not wait_for, which in Python 3.11 swallows cancellations
                        await self._changed.wait()
        finally:
            for task in self._tasks:
                task.cancel()

    def _begin(self) -> float | None:
        """Begin what is due and has room; returns the seconds until something else is, None: not known."""
        now = asyncio.get_running_loop().time()
        while self._heap and len(self._busy) < self._at_once:
            at, key = self._heap[0]
            if self._due.get(key) != at or key in self._busy:
                heapq.heappop(self._heap)  # was named again for an earlier time, or is named when its turn is over
            elif at > now:
                return at - now
            else:
                heapq.heappop(self._heap)
                del self._due[key]
                self._busy.add(key)
                task = asyncio.create_task(self._work(key))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        return None

    async def _work(self, key: str) -> None:
        try:
            await self._handle(key)
            self._failures.pop(key, None)
            self.told(True)
        except Exception as exc:  # one key's trouble stops nobody else
            wait = self._failures.setdefault(key, Backoff(0.2, 60.0)).again()
            self.told(False)
            cause = None if isinstance(exc, PumiceError) else exc
            level = logging.DEBUG if isinstance(exc, NotSent) else logging.WARNING  # who sends nothing has said so
            log.log(level, "%s %s: %s; again in %.1f s", self.name, key, exc, wait, exc_info=cause)
            self.add(key, wait)
        finally:
            self._busy.discard(key)
            if key in self._due:
                heapq.heappush(self._heap, (self._due[key], key))
            self._changed.set()
