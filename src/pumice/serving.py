"""Connections of our servers: so many at one time and from one address, and requests that come in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as HttpProtocol
else:  # httptools, where it is installed: three times the calls per second
    from uvicorn.protocols.http.auto import AutoHTTPProtocol as HttpProtocol

MOST_CONNECTIONS: Final = 1024
"""Connections at one time; who comes beyond is not listened to."""
PER_ADDRESS: Final = 4
"""An address has at most this part of them; a proxy is one address, and keeps few open."""
BODY_SECONDS: Final = 30.0
"""Seconds in which the whole body of a request must have come."""
HEADER_SECONDS: Final = 10.0
"""Seconds in which the headers of a request, and the first of its body, must have come."""
HEADER_BYTES: Final = 64 * 1024
"""Bytes of them."""


class BoundedProtocol(HttpProtocol):
    """uvicorn's protocol, with a time and a size for headers, a time for bodies and a number of connections."""

    most_connections: ClassVar[int] = MOST_CONNECTIONS
    per_address: ClassVar[int] = MOST_CONNECTIONS // PER_ADDRESS
    header_seconds: ClassVar[float] = HEADER_SECONDS
    body_seconds: ClassVar[float] = BODY_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._waits: asyncio.TimerHandle | None = None
        self._bytes = 0
        self._started = False
        """Whether a part of the body of the request is there."""
        super().connection_made(transport)
        beside = sum(_address(other) == _address(self) for other in self.connections) if self.client else 0
        if len(self.connections) > self.most_connections or beside > self.per_address:
            transport.close()
        else:
            self._await(self.header_seconds)

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
        if now is before and fresh:  # the rest of the headers is to come
            if self._waits is None:
                self._await(self.header_seconds)
            return
        begins = now is not before
        if begins:
            self._bytes = 0
        if not now.more_body:
            self._forget()
        elif begins:
            self._forget()
            self._await(self.body_seconds if now.body else self.header_seconds)
            self._started = bool(now.body)
        elif not self._started and now.body:
            self._forget()
            self._await(self.body_seconds)
            self._started = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _await(self, seconds: float) -> None:
        self._waits = self.loop.call_later(seconds, self.transport.close)

    def _forget(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None


def _address(connection: Any) -> str:
    return connection.client[0] if getattr(connection, "client", None) else ""


def bounded(max_connections: int = MOST_CONNECTIONS, body_seconds: float | None = None, **given: Any) -> dict[str, Any]:
    """The settings of uvicorn: our protocol, no trust in headers about a caller's address.

    *body_seconds*: the time of bodies in a server that ends them itself with an answer, and has one client.
    """
    http: type[BoundedProtocol] = BoundedProtocol
    if max_connections != MOST_CONNECTIONS or body_seconds is not None:
        own: dict[str, float] = {"most_connections": max_connections}
        if body_seconds is not None:
            own |= {"per_address": max_connections, "body_seconds": body_seconds + HEADER_SECONDS}
        http = type("ServedProtocol", (BoundedProtocol,), own)
    return {"http": http, "ws": "none", "lifespan": "off", "proxy_headers": False, **given}
