"""ASGI applications around a cassette: one passes questions on and writes them down, one answers from the file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pumice.extender.tools.cassette import Player, Recorded, recorded, write_line

_DROPPED = frozenset(
    {"host", "content-length", "connection", "accept-encoding", "transfer-encoding", "content-encoding"}
)


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
            where = f"{url.rstrip('/')}/{path}"
            async with sessions[0].post(where, data=body, headers=headers, allow_redirects=False) as response:
                content = await response.read()
                status = response.status
        except aiohttp.ClientError as error:
            return JSONResponse({"errorMessage": f"{url} cannot be reached: {error}"}, 502)
        exchange = recorded(path, body, status, content, time.perf_counter() - started)
        await asyncio.to_thread(_append, cassette, exchange)
        return Response(content, status, media_type="application/json")

    return Starlette(routes=[Route("/{path:path}", forward, methods=["POST"])], lifespan=lifespan)


def player(exchanges: Sequence[Recorded], *, loose: bool = False) -> Starlette:
    """An application that answers from recorded exchanges; 404 for a question that was never asked."""
    known = Player(exchanges, loose=loose)

    async def answer(request: Request) -> Response:
        path = request.path_params["path"]
        found = known.answer(path, await request.body())
        if found is None:
            return JSONResponse({"errorMessage": f"{path}: this question is not in the cassette"}, 404)
        return Response(found.response_body, found.status, media_type="application/json")

    return Starlette(routes=[Route("/{path:path}", answer, methods=["POST"])])


def _append(cassette: Path, exchange: Recorded) -> None:
    with cassette.open("ab") as file:
        file.write(write_line(exchange))
