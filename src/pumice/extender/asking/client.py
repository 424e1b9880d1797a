"""The client of one service: calls with a deadline over pooled connections, behind a circuit breaker."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
import uuid
import weakref
import zlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import aiohttp
import msgspec
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_writer import StreamWriter
from aiohttp.payload import Payload

from pumice.extender.answers import Answer
from pumice.extender.asking.calls import Body, Caller, CallFailed, Observation, whole
from pumice.extender.asking.settings import Transport
from pumice.extender.dialects import Dialect
from pumice.extender.gojson import MAX_BODY, WireError
from pumice.extender.protocol import BIND, ON_SESSION_CLOSE, ON_SESSION_OPEN, SESSION_HEADER, TokenFile, Verb

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
        """The result of *work*; the calling thread waits for it at most *within* seconds.

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


A = TypeVar("A", bound=Answer)

_DOWN: Final = frozenset({"refused", "reset", "timeout", "tls", "status"})
"""Kinds of failure that count for the breaker; a garbled answer shows that somebody is there."""
_UNREAD: Final = frozenset({ON_SESSION_OPEN.name, ON_SESSION_CLOSE.name})
_MESSAGE_LENGTH: Final = 500
_MOST_HELD: Final = 3 * MAX_BODY
"""Bytes of answers that are being received at one time, all calls together."""
_GZIP_FROM: Final = 1024
_GRACE: Final = 0.1
"""Seconds that calls are given to end by themselves when the time for all of them is over."""


class Breaker:
    """Closed: every call goes out. Open: none does. Half open: one does, and its outcome decides."""

    def __init__(self, failures: int, reset: float | None, clock: Callable[[], float]) -> None:
        """*failures* in a row open it (0: never), for *reset* seconds of *clock*."""
        self._most, self._reset, self._clock = failures, reset or 0.0, clock
        self._failed = 0
        self._opened_at: float | None = None
        self._probing = False

    @property
    def state(self) -> str:
        """``closed``, ``open`` or ``half-open``."""
        if self._opened_at is None:
            return "closed"
        return "open" if self._clock() - self._opened_at < self._reset else "half-open"

    def admits(self) -> bool:
        """Report whether a call may go out now. A yes while half open is for this one call."""
        state = self.state
        if state == "closed":
            return True
        if state == "open" or self._probing:
            return False
        self._probing = True
        return True

    def succeeded(self) -> None:
        """A call was answered."""
        self._failed, self._opened_at, self._probing = 0, None, False

    def failed(self) -> None:
        """A call was not answered."""
        self._failed += 1
        if self._most and (self._probing or (self._failed >= self._most and self._opened_at is None)):
            self._opened_at = self._clock()
        self._probing = False


class Client(Caller):
    """Calls one service; binds may be asked for from other threads. Keeps its connections until closed or dropped."""

    def __init__(
        self, transport: Transport, paths: Mapping[str, str], dialect: Dialect, *, guarded: bool = True
    ) -> None:
        """*paths*: verb -> what is appended to the URL. *dialect* reads the answers. *guarded*: with a breaker."""
        self._transport = transport
        self._dialect = dialect
        self._urls = {verb: f"{transport.url}/{path}" for verb, path in paths.items()}
        self._session: aiohttp.ClientSession | None = None
        self._token = TokenFile(Path(transport.token_file))
        self._finalizer: weakref.finalize[..., Client] | None = None
        self._name = uuid.uuid4().hex
        self.breaker = Breaker(transport.breaker_failures if guarded else 0, transport.breaker_reset, time.monotonic)
        self._observed: list[Observation] = []
        self._held = 0

    # -- asking ---------------------------------------------------------------------------------------------------
    def call_many(self, verb: Verb[A], bodies: Sequence[Body], deadline: float | None = None) -> list[A | CallFailed]:
        if not bodies:
            return []
        started = time.perf_counter()
        try:
            return LOOP.run(self._all(verb, bodies, deadline), None if deadline is None else deadline + _GRACE)
        except TimeoutError:
            failure = CallFailed(
                verb.name, "timeout", f"{self._urls[verb.name]} did not answer within {deadline:.3f} s"
            )
            self._observed += [Observation(verb.name, deadline or 0.0, "timeout")] * len(bodies)
            return [failure] * len(bodies)
        finally:
            if verb is not BIND:  # those are carried out beside sessions
                self.spent += time.perf_counter() - started

    @property
    def circuit(self) -> str:
        return self.breaker.state

    def observed(self) -> list[Observation]:
        seen, self._observed = self._observed, []
        return seen

    def close(self) -> None:
        """Close the connections. The client can be used again; it then makes new ones."""
        if self._finalizer is not None:
            self._finalizer.detach()
        session, self._session, self._finalizer = self._session, None, None
        if session is not None:
            LOOP.run(session.close())

    # -- on the loop ----------------------------------------------------------------------------------------------
    async def _all(self, verb: Verb[A], bodies: Sequence[Body], deadline: float | None) -> list[A | CallFailed]:
        """Workers share the bodies, so that no more calls are in flight than allowed."""
        if deadline is None or (self._transport.timeout is not None and self._transport.timeout < deadline):
            deadline = self._transport.timeout
        try:
            session, headers = self._open(), self._headers(verb)
        except CallFailed as failure:
            return [failure] * len(bodies)
        found: list[A | CallFailed | None] = [None] * len(bodies)
        waiting = iter(enumerate(bodies))

        async def work() -> None:
            for at, body in waiting:
                found[at] = await self._one(session, headers, verb, body, deadline)

        await asyncio.gather(*(work() for _ in range(min(self._transport.concurrency, len(bodies)))))
        return [answer for answer in found if answer is not None]

    async def _one(
        self,
        session: aiohttp.ClientSession,
        headers: dict[str, str],
        verb: Verb[A],
        body: Body,
        deadline: float | None,
    ) -> A | CallFailed:
        """One exchange, sent a second time if its connection was lost before an answer began."""
        if not self.breaker.admits():
            self._observed.append(Observation(verb.name, 0.0, "breaker"))
            return CallFailed(verb.name, "breaker", f"not asked: {self._transport.url} failed too often (circuit open)")
        started = time.perf_counter()
        try:
            async with asyncio.timeout(deadline):
                try:
                    answer = await self._exchange(session, headers, verb, body)
                except aiohttp.ServerDisconnectedError:
                    if verb.once:
                        raise
                    answer = await self._exchange(session, headers, verb, body)
        except Exception as error:
            failure = self._failure(verb, error, deadline)
            if failure.kind in _DOWN:
                self.breaker.failed()
            else:
                self.breaker.succeeded()
            self._observed.append(Observation(verb.name, time.perf_counter() - started, failure.kind))
            return failure
        self.breaker.succeeded()
        self._observed.append(Observation(verb.name, time.perf_counter() - started, "ok"))
        return answer

    async def _exchange(self, session: aiohttp.ClientSession, headers: dict[str, str], verb: Verb[A], body: Body) -> A:
        if self._transport.compression and len(packed := whole(body)) >= _GZIP_FROM:
            headers = {**headers, "Content-Encoding": "gzip"}
            body = zlib.compress(packed, 1, wbits=31)
        url, data = self._urls[verb.name], body if isinstance(body, bytes) else Pieces(body)
        async with session.post(url, data=data, headers=headers, allow_redirects=False) as response:
            if response.status != 200:
                said = await self._limited(response, 64 * 1024)
                raise CallFailed(verb.name, "status", f"{url} answered {response.status}{_message(said[0])}")
            if verb.name in _UNREAD:
                return verb.answer()
            content, complete = await self._limited(response, MAX_BODY)
            if not complete:
                raise CallFailed(verb.name, "large", f"{url} answered with more than {MAX_BODY} bytes")
            return self._dialect.read_answer(verb, content)

    async def _limited(self, response: aiohttp.ClientResponse, most: int) -> tuple[bytes, bool]:
        """Up to *most* bytes of the body, and whether that was all of it; all calls share a limit too."""
        parts, size = [], 0
        try:
            async for chunk in response.content.iter_any():
                parts.append(chunk)
                size += len(chunk)
                self._held += len(chunk)
                if size > most or self._held > _MOST_HELD:
                    response.close()
                    return b"".join(parts)[:most], False
            return parts[0] if len(parts) == 1 else b"".join(parts), True
        finally:
            self._held -= size

    def _failure(self, verb: Verb[A], error: Exception, deadline: float | None) -> CallFailed:
        """The name of a failed exchange."""
        url = self._urls[verb.name]
        match error:
            case CallFailed():
                return error
            case WireError():
                return CallFailed(verb.name, "answer", error.detail)
            case TimeoutError():
                return CallFailed(verb.name, "timeout", f"{url} did not answer within {deadline} s")
            case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError() | ssl.SSLError():
                return CallFailed(verb.name, "tls", f"{url}: {error}")
            case aiohttp.ClientConnectorError():
                return CallFailed(verb.name, "refused", f"{url} cannot be reached: {error.os_error}")
            case aiohttp.ClientPayloadError():
                return CallFailed(verb.name, "reset", f"{url} broke off its answer: {error}")
            case _:
                return CallFailed(verb.name, "reset", f"{url}: {type(error).__name__}: {error}")

    # -- connections ----------------------------------------------------------------------------------------------
    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._transport.concurrency, ssl=tls(self._transport), ttl_dns_cache=30, keepalive_timeout=60
            )
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(total=None), cookie_jar=aiohttp.DummyCookieJar()
            )
            self._finalizer = weakref.finalize(self, lambda session: LOOP.start(session.close()), self._session)
        return self._session

    def _headers(self, verb: Verb[A]) -> dict[str, str]:
        headers = {"Content-Type": "application/json", SESSION_HEADER: self._name}
        if file := self._transport.token_file:
            try:
                headers["Authorization"] = f"Bearer {self._token.read().decode('latin-1')}"
            except OSError as error:
                raise CallFailed(verb.name, "request", f"token file {file!r}: {error.strerror}") from error
        return headers


def _message(body: bytes) -> str:
    """The message of an error response: its errorMessage, or its first characters."""
    text = body.decode("utf-8", "replace").strip()
    try:
        said = msgspec.json.decode(body)
        if isinstance(said, dict) and isinstance(message := said.get("errorMessage"), str) and message:
            text = message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    return f": {text[:_MESSAGE_LENGTH]}" if text else ""
