"""The HTTP protocol under the server: connections and headers within limits, whatever the application does."""

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
"""Seconds in which the headers of a question must have come."""
HEADER_BYTES: Final = 64 * 1024
"""Bytes of them."""


class BoundedProtocol(HttpProtocol):
    """uvicorn's protocol, with a time and a size for headers and a number of connections."""

    most_connections: ClassVar[int] = MOST_CONNECTIONS
    header_seconds: ClassVar[float] = HEADER_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody connects."""
        self._waits: asyncio.TimerHandle | None = None
        self._bytes = 0
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            transport.close()
        else:
            self._await_headers()

    def data_received(self, data: bytes) -> None:
        """Bytes of a question: while its headers come they are counted and timed."""
        before = self.cycle
        if self._waits is None and (before is None or before.response_complete):
            self._await_headers()
        if self._waits is not None:
            self._bytes += len(data)
            if self._bytes > HEADER_BYTES and b"\r\n\r\n" not in data:
                self.transport.close()
                return
        super().data_received(data)
        if self.cycle is not before:  # the headers are there
            self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._forget()
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        self._bytes = 0
        self._waits = self.loop.call_later(self.header_seconds, self.transport.close)

    def _forget(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None


def settings(**given: Any) -> dict[str, Any]:
    """What uvicorn is told: our protocol, no trust in headers that say where a caller is."""
    return {"http": BoundedProtocol, "ws": "none", "lifespan": "off", "proxy_headers": False, **given}
