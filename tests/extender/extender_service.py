"""A service on a loopback socket that answers as a test tells it, and remembers what it was asked."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(slots=True)
class Reply:
    """What goes back: a status and a body, or something that no service should do."""

    body: bytes = b"{}"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    delay: float = 0.0
    cut: bool = False
    """Close the connection in the middle of the body."""
    reset: bool = False
    """Close the connection without an answer."""


@dataclass(slots=True)
class Asked:
    """One question that arrived."""

    verb: str
    body: Any
    headers: dict[str, str]


Answering = Callable[[str, Any], Any]


@dataclass
class Service:
    """An HTTP service. *answer(path, body)* gives JSON-like data or a Reply."""

    answer: Answering
    tls: ssl.SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)

    def __enter__(self) -> Service:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                if self.headers.get("Transfer-Encoding") == "chunked":
                    raw = _chunks(self.rfile)
                if self.headers.get("Content-Encoding") == "gzip":
                    raw = gzip.decompress(raw)
                body = json.loads(raw)
                verb = self.path.rpartition("/")[2]
                outer.asked.append(Asked(verb, body, dict(self.headers)))
                reply = outer.answer(verb, body)
                if not isinstance(reply, Reply):
                    reply = Reply(json.dumps(reply).encode())
                time.sleep(reply.delay)
                if reply.reset:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    self.close_connection = True
                    return
                try:
                    self.send_response(reply.status)
                    self.send_header("Content-Length", str(len(reply.body)))
                    for name, value in reply.headers:
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(reply.body[: len(reply.body) // 2] if reply.cut else reply.body)
                except OSError:
                    self.close_connection = True
                if reply.cut:
                    self.close_connection = True

            def log_message(self, *args: object) -> None:
                """Silent."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that goes away, or speaks no TLS, is part of the tests."""

        self._server = Server(("127.0.0.1", 0), Handler)
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Where it listens."""
        host = "localhost" if self.tls is not None else "127.0.0.1"
        return f"{'https' if self.tls is not None else 'http'}://{host}:{self._server.server_address[1]}"

    @property
    def calls(self) -> dict[str, int]:
        """How often each verb was asked."""
        return dict(Counter(asked.verb for asked in self.asked))

    def of(self, verb: str) -> list[Any]:
        """The bodies of one verb, in order."""
        return [asked.body for asked in self.asked if asked.verb == verb]


def _chunks(stream: Any) -> bytes:
    out = b""
    while size := int(stream.readline(), 16):
        out += stream.read(size)
        stream.readline()
    stream.readline()
    return out


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
