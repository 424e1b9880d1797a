"""One event loop for all clients of the process, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop that runs until the process ends. Started when first used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = _new_loop()
                threading.Thread(target=self._loop.run_forever, name="pumice-extender", daemon=True).start()
            return self._loop

    def run(self, work: Coroutine[Any, Any, T], within: float | None = None) -> T:
        """What *work* gives; the calling thread waits for it, but not longer than *within* seconds.

        :raises TimeoutError: it is not done by then, however busy the loop is; it is given up.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return future.result(within)
        except TimeoutError:
            future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Begin *work* and do not wait for it."""
        asyncio.run_coroutine_threadsafe(work, self._running())


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed: it sends large questions without copying them."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


LOOP = LoopThread()
