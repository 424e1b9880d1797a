"""A way to the API server that can be told to misbehave: refuse, hang, cut, delay, repeat."""

from __future__ import annotations

import asyncio
import re
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import aiohttp
from aiohttp import web
from kube_bed import CONTROLLERS, SCHEDULER, Bed

T = TypeVar("T")
BINDING = r"/binding$"


@dataclass
class Fault:
    """What happens to requests that match, from the one after *skip* on, *times* times."""

    does: int | Literal["cut", "hang", "pass"]
    """The code that is answered in the server's place; or the connection is cut, or hangs; or all is well."""
    path: str = BINDING
    method: str = "POST"
    skip: int = 0
    times: int = 1
    after: bool = False
    """Whether the server carries the request out first."""
    then: Callable[[], None] | None = None
    """Is called while the request waits, before it goes on."""
    met: int = 0
    """How many requests matched so far."""

    def matches(self, method: str, path: str) -> bool:
        """Whether a request is concerned; counts those that match."""
        if method != self.method or not re.search(self.path, path):
            return False
        self.met += 1
        return self.skip < self.met <= self.skip + self.times


class Proxy:
    """Listens on loopback with the server's own certificate; everything passes unless it is told otherwise."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faults-proxy")
        self._watches: set[asyncio.Transport] = set()
        self._held: asyncio.Event
        self._client: aiohttp.ClientSession
        self._runner: web.AppRunner
        self.faults: list[Fault] = []
        self.delay = 0.0
        """Seconds by which watches lag."""
        self.repeat = False
        """Whether watches say everything twice, and old things again after newer ones."""
        self.cuts = 0
        """How many watches were cut."""
        self.kubeconfig: Path
        """The way of the scheduler."""
        self.controllers: Path
        """The way of the controllers."""

    def __enter__(self) -> Proxy:
        self._thread.start()
        port = self._run(self._start())
        where = f"https://127.0.0.1:{port}"
        self.kubeconfig = self._bed.kubeconfig(f"proxy-{port}", SCHEDULER, where)
        self.controllers = self._bed.kubeconfig(f"proxy-{port}-controllers", CONTROLLERS, where)
        return self

    def __exit__(self, *_: object) -> None:
        self.thaw()
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    @property
    def watching(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    # -- what a test says -------------------------------------------------------------------------------------------
    def add(self, fault: Fault) -> Fault:
        """From now on this happens."""
        self.faults.append(fault)
        return fault

    def cut(self) -> None:
        """Break every watch that is open."""

        async def cut() -> None:
            for transport in list(self._watches):
                transport.abort()
                self.cuts += 1

        self._run(cut())

    def freeze(self) -> None:
        """Let nothing pass any more, as when a network swallows everything; connections stay open."""
        self._loop.call_soon_threadsafe(self._held.clear)

    def thaw(self) -> None:
        """Let everything pass again, what was held first."""
        self._loop.call_soon_threadsafe(self._held.set)

    # -- inside the thread ------------------------------------------------------------------------------------------
    def _run(self, job: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(job, self._loop).result(30)

    async def _start(self) -> int:
        self._held = asyncio.Event()
        self._held.set()
        trust = ssl.create_default_context(cafile=str(self._bed.folder / "ca.crt"))
        limit = aiohttp.ClientTimeout(total=None, sock_connect=10)
        connector = aiohttp.TCPConnector(ssl=trust, limit=0, force_close=True)
        self._client = aiohttp.ClientSession(connector=connector, timeout=limit, read_bufsize=2**21)
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        certificate = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificate.load_cert_chain(self._bed.folder / "server.crt", self._bed.folder / "server.key")
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=certificate)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return port

    async def _stop(self) -> None:
        for transport in list(self._watches):
            transport.abort()
        await self._runner.cleanup()
        await self._client.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0.3)  # connections under TLS need some turns of the loop to close

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        await self._held.wait()
        try:
            if "watch" in request.query:
                return await self._watch(request)
            for fault in self.faults:
                if fault.matches(request.method, request.path):
                    return await self._fault(request, fault)
            return await self._pass(request)
        except (aiohttp.ClientError, OSError):  # the server is away: the connection breaks, as it would without us
            _transport(request).abort()
            return web.Response(status=502)

    async def _fault(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault.after:
            await self._pass(request)
        if fault.then is not None:
            await asyncio.to_thread(fault.then)
        match fault.does:
            case "pass":
                return await self._pass(request)
            case "cut":
                _transport(request).abort()
            case "hang":
                await asyncio.Event().wait()
            case int(code):
                status = {"kind": "Status", "code": code, "message": "said the proxy", "reason": "Test"}
                return web.json_response(status, status=code)
        return web.Response(status=502)

    async def _pass(self, request: web.Request) -> web.Response:
        async with self._client.request(
            request.method, self._bed.url + request.raw_path, data=await request.read(), headers=_headers(request)
        ) as answer:
            body = await answer.read()
            await self._held.wait()
            return web.Response(status=answer.status, body=body, headers=_back(answer))

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        transport = _transport(request)
        self._watches.add(transport)
        try:
            async with self._client.get(self._bed.url + request.raw_path, headers=_headers(request)) as answer:
                response = web.StreamResponse(status=answer.status, headers=_back(answer))
                await response.prepare(request)
                before = b""
                async for line in self._lagging(answer.content):
                    await self._held.wait()
                    await response.write(line + line + before if self.repeat else line)
                    before = line
                await response.write_eof()
                return response
        finally:
            self._watches.discard(transport)

    async def _lagging(self, lines: aiohttp.StreamReader) -> AsyncIterator[bytes]:
        """Lines as they come, each late by the delay."""
        due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def read() -> None:
            try:
                while line := await lines.readline():
                    due.put_nowait((self._loop.time() + self.delay, line))
            except (aiohttp.ClientError, OSError):
                pass
            due.put_nowait((0.0, b""))

        reader = asyncio.create_task(read())
        try:
            while True:
                when, line = await due.get()
                if not line:
                    return
                await asyncio.sleep(max(when - self._loop.time(), 0.0))
                yield line
        finally:
            reader.cancel()


def _transport(request: web.Request) -> asyncio.Transport:
    transport = request.transport
    assert isinstance(transport, asyncio.Transport)
    return transport


def _headers(request: web.Request) -> dict[str, str]:
    names = ("Authorization", "Content-Type", "Accept", "User-Agent")
    return {name: request.headers[name] for name in names if name in request.headers}


def _back(answer: aiohttp.ClientResponse) -> dict[str, str]:
    names = ("Content-Type", "Retry-After")
    return {name: answer.headers[name] for name in names if name in answer.headers}
