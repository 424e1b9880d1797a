"""How policies are served, and bodies before they are read: how large, how soon, from whom, packed how."""

from __future__ import annotations

import asyncio
import hmac
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pumice.errors import InvalidInput
from pumice.extender.dialects import DIALECTS
from pumice.extender.protocol import VERBS, TokenFile

if TYPE_CHECKING:
    from starlette.types import Receive

MEBI: Final = 2**20
_PACKED_LARGE: Final = 64 * 1024
"""Bytes of a packed body from which it is unpacked beside the event loop."""
_LATER: Final = (b"retry-after", b"1")


@dataclass(frozen=True, slots=True)
class Options:
    """What an operator may set.

    :raises InvalidInput: an unknown verb or dialect, or a limit that is none.
    """

    paths: Mapping[str, str] = field(default_factory=dict)
    """Verb -> the path under which it is asked, where that is not its own name."""
    dialect: str = ""
    """The only dialect that is understood; empty: every question is answered in the dialect it came in."""
    max_body: int = 256 * MEBI
    """Bytes of a request; a snapshot of a large cluster is large."""
    max_in_flight: int = 512 * MEBI
    """Bytes of all requests that are being received or answered at one time."""
    max_connections: int = 1024
    """Exchanges at one time; who comes beyond is told to come again."""
    body_timeout: float = 30.0
    """Seconds in which a request must have come whole."""
    token_file: Path | None = None
    """Questions must carry the bearer token that stands in this file."""
    compat: str | None = None
    """``volcano``: the served policies run with Volcano's own behaviour."""

    def __post_init__(self) -> None:
        if self.dialect and self.dialect not in DIALECTS:
            raise InvalidInput(f"dialect: must be one of {', '.join(DIALECTS)}, got {self.dialect!r}")
        for verb in self.paths:
            if verb not in VERBS:
                raise InvalidInput(f"verb {verb!r}: not one of {', '.join(VERBS)}")
        for name in ("max_body", "max_in_flight", "max_connections", "body_timeout"):
            if getattr(self, name) <= 0:
                raise InvalidInput(f"{name}: must be above 0, got {getattr(self, name)}")


class RequestRefused(Exception):
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

    def begin(self) -> None:
        """One more exchange.

        :raises RequestRefused: there are too many at this time.
        """
        if self._exchanges >= self._options.max_connections:
            raise RequestRefused(503, f"{self._exchanges} questions are being answered; come again", [_LATER])
        self._exchanges += 1

    def end(self, size: int) -> None:
        """The exchange is over, and so many bytes of its body are let go."""
        self._exchanges -= 1
        self._in_flight -= size

    async def body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """The whole body, unpacked; its bytes count until the exchange is over.

        :raises RequestRefused: it is too large, comes too slowly, breaks off, or is packed in another way.
        """
        most, length = self._options.max_body, headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > most:
            raise RequestRefused(413, f"the question has {int(length)} bytes; at most {most} are read")
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body", False):  # nearly always
            content: bytes = message.get("body", b"")
            self._take(0, content)
        else:
            content = await self._parts(message, receive)
        encoding = headers.get(b"content-encoding", b"identity").lower()
        return content if encoding == b"identity" else await self._unpacked(encoding, content)

    async def _parts(self, message: Mapping[str, Any], receive: Receive) -> bytes:
        """A body that comes in parts."""
        parts, size = list[bytes](), 0
        try:
            async with asyncio.timeout(self._options.body_timeout):
                while message["type"] != "http.disconnect":
                    part = message.get("body", b"")
                    size = self._take(size, part)
                    parts.append(part)
                    if not message.get("more_body", False):
                        return b"".join(parts)
                    message = await receive()
            raise RequestRefused(400, "the connection was closed before the whole question came")
        except TimeoutError:
            seconds = self._options.body_timeout
            self._in_flight -= size
            raise RequestRefused(
                408, f"the question did not come within {seconds} s", [(b"connection", b"close")]
            ) from None
        except BaseException:
            self._in_flight -= size
            raise

    async def _unpacked(self, encoding: bytes, packed: bytes) -> bytes:
        most, content = self._options.max_body, b""
        try:
            if encoding != b"gzip":
                raise RequestRefused(415, f"content encoding {encoding.decode('latin-1')!r}: must be gzip or none")
            if len(packed) > _PACKED_LARGE:
                content = await asyncio.to_thread(_unpacked, packed, most)
            else:
                content = _unpacked(packed, most)
        finally:
            self._in_flight -= len(packed)
        self._take(0, content)
        return content

    def _take(self, size: int, part: bytes) -> int:
        """Count one more part of a body that has *size* bytes so far; its size then.

        :raises RequestRefused: it is too much, alone or together with those of others.
        """
        if size + len(part) > self._options.max_body:
            raise RequestRefused(413, f"the question has more than {self._options.max_body} bytes")
        most = self._options.max_in_flight
        if self._in_flight + len(part) > most:
            raise RequestRefused(503, f"more than {most} bytes of questions at one time; come again", [_LATER])
        self._in_flight += len(part)
        return size + len(part)


def check_token(file: TokenFile, authorization: bytes) -> None:
    """Return if the header carries the token.

    :raises RequestRefused: it does not, or there is none to compare with.
    """
    try:
        right = file.read()
    except OSError as error:
        raise RequestRefused(500, f"the server's token cannot be read: {error.strerror}") from error
    scheme, _, token = authorization.partition(b" ")
    if scheme.lower() != b"bearer" or not right or not hmac.compare_digest(token.strip(), right):
        raise RequestRefused(401, "the bearer token is missing or wrong", [(b"www-authenticate", b"Bearer")])


def _unpacked(body: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(31)
    try:
        content = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise RequestRefused(400, f"the question is not gzip: {error}") from error
    if len(content) > most:
        raise RequestRefused(413, f"the question has more than {most} bytes when unpacked")
    return content
