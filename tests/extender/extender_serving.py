"""Runs an ASGI application on a loopback socket, and posts to it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from typing import Any

import uvicorn

from pumice.serving import bounded


class Serving:
    """An application behind uvicorn on an ephemeral port."""

    def __init__(self, app: Any, **config: Any) -> None:
        # asyncio turns Nagle's algorithm off only for sockets that say they are TCP
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        settings = uvicorn.Config(app, **bounded(**{"log_level": "critical", **config}))
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def __enter__(self) -> Serving:
        self._thread.start()
        until = time.monotonic() + 10
        while not self._server.started and time.monotonic() < until:
            time.sleep(0.005)
        assert self._server.started
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and decoded body (bytes where it is no JSON)."""
        raw = body if isinstance(body, bytes | type(None)) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, raw, headers or {})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        try:
            return response.status, json.loads(content)
        except ValueError:
            return response.status, content

    def post(self, verb: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Ask a verb."""
        return self.request("POST", f"/{verb}", body, headers)
