"""Connections of our servers: so many at one time, and headers that come in time and are not too large."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as HttpProtocol
else:  # httptools, where it is installed: three times the calls per second
    from uvicorn.protocols.http.auto import AutoHTTPProtocol as HttpProtocol

MOST_CONNECTIONS: Final = 1024
"""Connections at one time; who comes beyond is not listened to."""
HEADER_SECONDS: Final = 10.0
"""Seconds in which the headers of a request, and the first of its body, must have come."""
HEADER_BYTES: Final = 64 * 1024
"""Bytes of them."""


class BoundedProtocol(HttpProtocol):
    """uvicorn's protocol, with a time and a size for headers and a number of connections."""

    most_connections: ClassVar[int] = MOST_CONNECTIONS
    header_seconds: ClassVar[float] = HEADER_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._waits: asyncio.TimerHandle | None = None
        self._bytes = 0
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            transport.close()
        else:
            self._await()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request: until its body begins they are timed, until its headers are there counted."""
        before = self.cycle
        fresh = before is None or before.response_complete
        if fresh:
            self._bytes += len(data)
            if self._bytes > HEADER_BYTES and b"\r\n\r\n" not in data:
                self.transport.close()
                return
        super().data_received(data)
        now = self.cycle
        if now is before:
            waits = fresh  # for the rest of the headers
        else:
            self._bytes = 0
            waits = now.more_body and not now.body  # for the first of the body
        if not waits:
            self._forget()
        elif self._waits is None:
            self._await()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _await(self) -> None:
        self._waits = self.loop.call_later(self.header_seconds, self.transport.close)

    def _forget(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None


def bounded(max_connections: int = MOST_CONNECTIONS, **given: Any) -> dict[str, Any]:
    """The settings of uvicorn: our protocol, no trust in headers about a caller's address."""
    http: type[BoundedProtocol] = BoundedProtocol
    if max_connections != MOST_CONNECTIONS:
        http = type("ServedProtocol", (BoundedProtocol,), {"most_connections": max_connections})
    return {"http": http, "ws": "none", "lifespan": "off", "proxy_headers": False, **given}
