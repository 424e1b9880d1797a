"""What comes in over HTTP before it is read: how much, how long, from whom, packed how."""

from __future__ import annotations

import asyncio
import hmac
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pumice.extender.answering.options import Options

if TYPE_CHECKING:
    from starlette.types import Receive

_PACKED_LARGE: Final = 64 * 1024
"""Bytes of a packed body from which it is unpacked beside the event loop."""


class Refused(Exception):
    """A question that is not even read."""

    def __init__(self, status: int, text: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(text)
        self.status, self.headers = status, headers


class Intake:
    """Receives bodies within limits: of one body, of all together, of exchanges at a time, and of seconds."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._exchanges = 0
        self._in_flight = 0

    def __enter__(self) -> None:
        """One more exchange.

        :raises Refused: there are too many at this time.
        """
        if self._exchanges >= self._options.max_connections:
            raise Refused(503, f"{self._exchanges} questions are being answered; come again", [(b"retry-after", b"1")])
        self._exchanges += 1

    def __exit__(self, *_: object) -> None:
        self._exchanges -= 1

    async def body(self, headers: Mapping[bytes, bytes], receive: Receive) -> Body:
        """The whole body, unpacked; its bytes count until it is let go.

        :raises Refused: it is too large, comes too slowly, breaks off, or is packed in another way.
        """
        most, length = self._options.max_body, headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > most:
            raise Refused(413, f"the question has {int(length)} bytes; at most {most} are read")
        encoding = headers.get(b"content-encoding", b"identity").lower()
        if encoding not in (b"gzip", b"identity"):
            raise Refused(415, f"content encoding {encoding.decode('latin-1')!r}: must be gzip or none")
        body = Body(self)
        try:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):  # nearly always
                body.add(message.get("body", b""), most)
            else:
                async with asyncio.timeout(self._options.body_timeout):
                    await self._rest(message, receive, body)
            if encoding == b"gzip":
                await body.unpack(most)
        except TimeoutError:
            body.release()
            seconds = self._options.body_timeout
            raise Refused(408, f"the question did not come within {seconds} s", [(b"connection", b"close")]) from None
        except BaseException:
            body.release()
            raise
        return body

    async def _rest(self, message: Mapping[str, object], receive: Receive, body: Body) -> None:
        while True:
            if message["type"] == "http.disconnect":
                raise Refused(400, "the connection was closed before the whole question came")
            part = message.get("body", b"")
            body.add(part if isinstance(part, bytes) else b"", self._options.max_body)
            if not message.get("more_body", False):
                return
            message = await receive()

    def take(self, size: int) -> None:
        """Count so many bytes more.

        :raises Refused: together with those of others they are too many.
        """
        most = self._options.max_in_flight
        if self._in_flight + size > most:
            raise Refused(503, f"more than {most} bytes of questions at one time; come again", [(b"retry-after", b"1")])
        self._in_flight += size

    def give_back(self, size: int) -> None:
        """So many bytes are done with."""
        self._in_flight -= size


class Body:
    """The bytes of one question, counted as long as it is held."""

    def __init__(self, intake: Intake) -> None:
        self._intake, self._parts, self._size = intake, list[bytes](), 0

    def add(self, part: bytes, most: int) -> None:
        """Take one more part.

        :raises Refused: that is too much.
        """
        if self._size + len(part) > most:
            raise Refused(413, f"the question has more than {most} bytes")
        self._intake.take(len(part))
        self._size += len(part)
        self._parts.append(part)

    @property
    def content(self) -> bytes:
        """All of it."""
        if len(self._parts) != 1:
            self._parts = [b"".join(self._parts)]
        return self._parts[0]

    async def unpack(self, most: int) -> None:
        """Put what is packed in its place.

        :raises Refused: it is no gzip, or too large when unpacked.
        """
        packed = self.content
        content = (
            await asyncio.to_thread(_unpacked, packed, most) if len(packed) > _PACKED_LARGE else _unpacked(packed, most)
        )
        self.release()
        self.add(content, most)

    def release(self) -> None:
        """Let go of it."""
        self._intake.give_back(self._size)
        self._parts, self._size = [], 0


class Token:
    """The bearer token that questions must carry; its file is read again when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[int, bytes] = (0, b"")

    def check(self, authorization: bytes) -> None:
        """Return if the header carries the token.

        :raises Refused: it does not, or there is none to compare with.
        """
        try:
            changed = self._path.stat().st_mtime_ns
            if changed != self._read[0]:
                self._read = (changed, self._path.read_bytes().strip())
        except OSError as error:
            raise Refused(500, f"the server's token cannot be read: {error.strerror}") from error
        scheme, _, token = authorization.partition(b" ")
        if scheme.lower() != b"bearer" or not self._read[1] or not hmac.compare_digest(token.strip(), self._read[1]):
            raise Refused(401, "the bearer token is missing or wrong", [(b"www-authenticate", b"Bearer")])


def _unpacked(body: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(31)
    try:
        content = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise Refused(400, f"the question is not gzip: {error}") from error
    if len(content) > most:
        raise Refused(413, f"the question has more than {most} bytes when unpacked")
    return content
