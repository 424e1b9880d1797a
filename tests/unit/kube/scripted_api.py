"""An HTTP server that plays an API server by a script: for answers that a real one gives only on a bad day."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from pumice.kube.client import KubeClient
from pumice.kube.credentials import Credentials

CUT = "cut"
"""In a script of answers: take the request, then close the connection. In a watch: end it."""


class ScriptedApi:
    """Serves what its dictionaries hold, and writes down every request."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.answers: dict[tuple[str, str], list[Any]] = defaultdict(list)
        """(method, path) -> (status, body), CUT or a function of the request's body; the last one stays."""
        self.lists: dict[str, list[Any]] = {}
        """path -> lists to give, one after the other; the last one stays."""
        self.watches: dict[str, asyncio.Queue[Any]] = defaultdict(asyncio.Queue)
        """path -> what to send to whoever watches."""
        self.tokens: set[str] | None = None
        self.url = ""

    def sent(self, method: str, part: str = "") -> list[Any]:
        """The bodies of requests of a method whose path contains a text."""
        return [body for m, path, _, body in self.requests if m == method and part in path]

    def list(self, path: str, version: str, *objects: dict[str, Any]) -> None:
        """Let the next list of a path hold these objects."""
        self.lists.setdefault(path, []).append({"metadata": {"resourceVersion": version}, "items": list(objects)})

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.tokens is not None and request.headers.get("Authorization") not in self.tokens:
            return web.json_response({"message": "who are you?"}, status=401)
        text = await request.text()
        body = json.loads(text) if text else None
        self.requests.append((request.method, request.path, dict(request.query), body))
        if "watch" in request.query:
            return await self._watch(request)
        script = self.answers.get((request.method, request.path))
        if script:
            answer = script[0] if len(script) == 1 else script.pop(0)
            if answer == CUT:
                assert request.transport is not None
                request.transport.close()
                return web.Response()
            status, reply = await answer(body) if callable(answer) else answer
            headers = {"Retry-After": "0"} if status == 429 else {}
            return web.json_response(reply, status=status, headers=headers)
        if request.method == "GET" and request.path in self.lists:
            waiting = self.lists[request.path]
            return web.json_response(waiting[0] if len(waiting) == 1 else waiting.pop(0))
        if request.method == "GET":
            return web.json_response({"reason": "NotFound", "message": "not found"}, status=404)
        return web.json_response({"kind": "Status"}, status=201)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        queue = self.watches[request.path]
        while True:
            item = await queue.get()
            if item == CUT:
                return response
            await response.write(item if isinstance(item, bytes) else json.dumps(item).encode() + b"\n")


@asynccontextmanager
async def serving(tmp_path: Path, token: str = "first") -> AsyncIterator[tuple[ScriptedApi, KubeClient]]:
    """A scripted server on loopback, and a client that knows it."""
    api = ScriptedApi()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", api.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    api.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    try:
        async with KubeClient(Credentials(kubeconfig=write_kubeconfig(tmp_path, api.url, token))) as client:
            yield api, client
    finally:
        await runner.cleanup()


def write_kubeconfig(folder: Path, url: str, token: str) -> str:
    """A kubeconfig with a token."""
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": {"token": token}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return str(path)


async def until(what: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(seconds):
        while not what():  # noqa: ASYNC110 (asked at an interval)
            await asyncio.sleep(0.005)
