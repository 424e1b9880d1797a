"""Traffic in a file, one JSON object per exchange and line: recorded, answered from, and compared with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pumice.errors import InvalidInput, decoder_words, read_bytes, without_passwords
from pumice.extender.asking.calls import Recording, canonical
from pumice.extender.asking.client import LOOP

_DROPPED: Final = frozenset(
    {"host", "content-length", "connection", "accept-encoding", "transfer-encoding", "content-encoding"}
)
"""Headers that are not passed on."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One exchange. Bodies that are no JSON stand under ``requestText`` and ``responseText``."""

    path: str
    request: Any = None
    request_text: str | None = msgspec.field(default=None, name="requestText")
    status: int = 200
    response: Any = None
    response_text: str | None = msgspec.field(default=None, name="responseText")
    seconds: float = 0.0

    @property
    def request_body(self) -> bytes:
        """The question as it was posted."""
        return _body(self.request, self.request_text)

    @property
    def response_body(self) -> bytes:
        """The answer as it was given."""
        return _body(self.response, self.response_text)

    @property
    def answer(self) -> str:
        """Status and answer, such that equal ones are the same."""
        return f"{self.status} {canonical(self.response_body).decode('utf-8', 'replace')}"


_DECODER: Final = msgspec.json.Decoder(Recorded)


def recorded(path: str, request: bytes, status: int, response: bytes, seconds: float) -> Recorded:
    """One exchange from its bytes."""
    asked, said = _parts(request), _parts(response)
    return Recorded(
        path=path,
        request=asked[0],
        request_text=asked[1],
        status=status,
        response=said[0],
        response_text=said[1],
        seconds=round(seconds, 6),
    )


def read(path: Path) -> list[Recorded]:
    """The exchanges of a cassette.

    :raises InvalidInput: it cannot be read; names the line.
    """
    lines = read_bytes(path, "cassette").splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(_DECODER.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise InvalidInput(f"cassette {str(path)!r}, line {number}: {decoder_words(error)}") from error
    if not found:
        raise InvalidInput(f"cassette {str(path)!r}: holds no exchange")
    return found


def write_line(exchange: Recorded) -> bytes:
    """One exchange as a line of a cassette."""
    return msgspec.json.encode(exchange) + b"\n"


# -- recording and answering ----------------------------------------------------------------------------------------
def recorder(url: str, cassette: Path) -> Starlette:
    """An application that passes every POST on to *url* and adds each exchange to *cassette*."""
    sessions: list[aiohttp.ClientSession] = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            sessions.append(session)
            yield
            sessions.clear()

    async def forward(request: Request) -> Response:
        path, body = request.path_params["path"], await request.body()
        headers = {name: value for name, value in request.headers.items() if name not in _DROPPED}
        started = time.perf_counter()
        try:
            status, content = await _posted(sessions[0], f"{url.rstrip('/')}/{path}", body, headers)
        except aiohttp.ClientError as error:
            return JSONResponse({"errorMessage": without_passwords(f"{url} cannot be reached: {error}")}, 502)
        exchange = recorded(path, body, status, content, time.perf_counter() - started)
        await asyncio.to_thread(_append, cassette, exchange)
        return Response(content, status, media_type="application/json")

    return Starlette(routes=[Route("/{path:path}", forward, methods=["POST"])], lifespan=lifespan)


def recording(exchanges: Iterable[Recorded]) -> Recording[Recorded]:
    """Return the exchanges by path and question."""
    known: Recording[Recorded] = Recording(loose=False)
    for exchange in exchanges:
        known.add(exchange.path, exchange.request_body, exchange)
    return known


def player(exchanges: Iterable[Recorded]) -> Starlette:
    """An application that answers from recorded exchanges; 404 for a question that was never asked."""
    known = recording(exchanges)

    async def answer(request: Request) -> Response:
        path = request.path_params["path"]
        found = known.answer(path, await request.body())
        if found is None:
            return JSONResponse({"errorMessage": f"{path}: this question is not in the cassette"}, 404)
        return Response(found.response_body, found.status, media_type="application/json")

    return Starlette(routes=[Route("/{path:path}", answer, methods=["POST"])])


# -- comparing ------------------------------------------------------------------------------------------------------
class Difference(NamedTuple):
    """A question that is answered otherwise than it was; *number* is its place in the cassette, from 1."""

    number: int
    path: str
    then: str
    now: str


def differences(exchanges: Sequence[Recorded], url: str) -> list[Difference]:
    """Ask every question of a cassette again, in order; what is answered otherwise."""
    return LOOP.run(_ask_all(exchanges, url.rstrip("/")))


async def _ask_all(exchanges: Sequence[Recorded], url: str) -> list[Difference]:
    found = []
    async with aiohttp.ClientSession() as session:
        for number, then in enumerate(exchanges, 1):
            headers = {"Content-Type": "application/json"}
            try:
                status, content = await _posted(session, f"{url}/{then.path}", then.request_body, headers)
                now = recorded(then.path, b"{}", status, content, 0.0).answer
            except aiohttp.ClientError as error:
                now = f"no answer: {error}"
            if now != then.answer:
                found.append(Difference(number, then.path, then.answer, now))
    return found


async def _posted(session: aiohttp.ClientSession, url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    async with session.post(url, data=body, headers=headers, allow_redirects=False) as response:
        return response.status, await response.read()


def _append(cassette: Path, exchange: Recorded) -> None:
    with cassette.open("ab") as file:
        file.write(write_line(exchange))


def _parts(body: bytes) -> tuple[Any, str | None]:
    try:
        return msgspec.json.decode(body), None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, body.decode("utf-8", "replace")


def _body(value: Any, text: str | None) -> bytes:
    return text.encode() if text is not None else msgspec.json.encode(value)
