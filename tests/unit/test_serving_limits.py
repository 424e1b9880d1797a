"""What a caller may cost a server of ours: bodies come whole in time, and an address has a part of the connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pumice.kube.serving import serve
from pumice.serving import BoundedProtocol, bounded
from pumice.sockets import listening

POST = b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"


async def _read(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    opened = listening("127.0.0.1:0")
    port = opened.getsockname()[1]
    task = asyncio.create_task(serve(opened, [Route("/read", _read, methods=["POST"])]))
    try:
        yield port
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("first", [b"", b"t", b"t" * 40])
def test_a_body_that_comes_byte_by_byte_is_not_waited_for(first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedProtocol, "body_seconds", 0.3)
    monkeypatch.setattr(BoundedProtocol, "header_seconds", 0.3)

    async def story() -> bytes | BaseException:
        async with serving() as port, asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(POST + first)
            said = asyncio.ensure_future(reader.read())
            while not said.done():
                writer.write(b"t")
                await asyncio.sleep(0.1)
            writer.close()
            return said.exception() or said.result()

    said = asyncio.run(story())
    assert said == b"" or isinstance(said, ConnectionError)


def test_a_second_body_on_a_connection_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedProtocol, "body_seconds", 0.5)

    async def story() -> list[bytes]:
        said = []
        async with serving() as port, asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(3):
                writer.write(POST + b"t" * 50)
                await asyncio.sleep(0.3)
                writer.write(b"t" * 50)
                said.append(await reader.readuntil(b"\r\n\r\n100"))
            writer.close()
        return said

    assert len(asyncio.run(story())) == 3


def test_an_address_has_a_part_of_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedProtocol, "per_address", 3)

    async def story() -> list[bytes]:
        async with serving() as port, asyncio.timeout(5):
            opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
            await asyncio.sleep(0.1)
            said = []
            for reader, writer in opened:
                try:
                    writer.write(POST + b"t" * 100)
                    said.append(await reader.read(15))
                except ConnectionError:
                    said.append(b"")
                writer.close()
            return said

    assert asyncio.run(story()) == [b"HTTP/1.1 200 OK"] * 3 + [b""] * 2


def test_a_server_that_times_bodies_itself_has_the_first_word() -> None:
    http = bounded(100, 30.0)["http"]
    assert http.body_seconds > 30
    assert http.per_address == http.most_connections == 100
