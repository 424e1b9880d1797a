"""What all clients of the process share: an event loop in a thread of its own, TLS."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar, cast

from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_writer import StreamWriter
from aiohttp.payload import Payload

from pumice.extender.asking.caller import CallFailed
from pumice.extender.asking.settings import Transport

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


def tls(transport: Transport) -> ssl.SSLContext | bool:
    """How a service is to be trusted.

    :raises CallFailed: a certificate file cannot be used.
    """
    if not transport.url.startswith("https:"):
        return True
    try:
        context = ssl.create_default_context(cafile=transport.ca_file or None)
        if transport.cert_file:
            context.load_cert_chain(transport.cert_file, transport.key_file)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(file for file in (transport.ca_file, transport.cert_file, transport.key_file) if file)
        raise CallFailed("connect", "tls", f"certificate files {files}: {error}") from error
    return context


class Pieces(Payload):
    """A body in pieces that go out together: joining a large one costs as much as sending it."""

    _value: Sequence[bytes]

    def __init__(self, body: Sequence[bytes]) -> None:
        super().__init__(body, content_type="application/json")
        self._size = sum(map(len, body))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        first, *rest = self._value
        await writer.write(first)  # after the headers
        if (transport := cast("StreamWriter", writer).transport) is not None:  # else who reads the answer says so
            transport.writelines(rest)
        await writer.drain()
