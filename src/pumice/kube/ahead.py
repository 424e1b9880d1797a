"""A start asks for the long lists first, and loads the rest of the program while the server works on them.

They are read when it is loaded: of two threads that both compute neither is faster than one. Until then what comes
waits in the connection.

It is an offer: whatever is in the way (a program that gives credentials, a proxy, a refusal), the reflectors list for
themselves, and say what is wrong.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import Future
from http.client import HTTPConnection
from typing import Final
from urllib.parse import urlsplit

from pumice.kube.credentials import Access, Credentials, proxy_of
from pumice.kube.kinds import RESOURCES, Resource
from pumice.kube.listing import ListReader, ObjectList

log = logging.getLogger("pumice.kube")

LONG: Final = ("Pod", "Node")
"""The kinds of which a cluster has many, where every conf finds them."""
_SILENCE: Final = 30.0
"""Seconds after which a server that says nothing is not waited for."""
_CHUNK: Final = 2**16
_WAITS: Final = 2**24
"""Bytes of an answer that may wait until they are read."""


class ListsAhead:
    """The lists of `LONG`, each in a thread of its own. The collector rests until all are there."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._left = len(LONG)
        self._lock = threading.Lock()
        self._loaded = threading.Event()
        self.lists: dict[str, Future[ObjectList | None]] = {kind: Future() for kind in LONG}
        """What each list says; None where it is to be asked for again."""

    def start(self) -> None:
        """Ask for them."""
        gc.disable()
        threading.Thread(target=self._begin, name="pumice-ahead", daemon=True).start()

    def read(self) -> None:
        """The program is loaded: read what came."""
        self._loaded.set()

    def _begin(self) -> None:
        try:
            access = asyncio.run(self._credentials.load(programs=False))
        except Exception as exc:
            log.debug("no list is asked for ahead: %s", exc)
            access = None
        for kind, answer in self.lists.items():
            threading.Thread(target=self._list, args=(access, kind, answer), name=f"pumice-{kind}", daemon=True).start()

    def _list(self, access: Access | None, kind: str, answer: Future[ObjectList | None]) -> None:
        answer.set_running_or_notify_cancel()
        found = None
        try:
            found = self._read(access, RESOURCES[kind]) if access is not None else None
        except Exception as exc:  # the reflector meets the same, and knows what to do
            log.debug("the list of %s that was asked for ahead: %s", kind, exc)
        with self._lock:
            self._left -= 1
            if not self._left:
                gc.freeze()  # what was listed stays
                gc.enable()
        answer.set_result(found)

    def _read(self, access: Access, resource: Resource) -> ObjectList | None:
        """A list, read as it comes; None where there is a proxy before the server."""
        if proxy_of(access):
            return None
        body, reader = _body(access, resource.collection), ListReader(resource)
        next(body)
        self._loaded.wait()
        for data in body:
            reader.feed(data)
        return reader.end()


def _body(access: Access, path: str) -> Iterator[bytes]:
    """The body of an answer as it comes; nothing first, when it was asked for."""
    server = urlsplit(access.host)
    encrypted = server.scheme == "https"
    connection = HTTPConnection(server.hostname or "", server.port or (443 if encrypted else 80), timeout=_SILENCE)
    try:
        connection.connect()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _WAITS)  # as far as the system lets us
        if encrypted:
            name = access.server_name or server.hostname
            connection.sock = access.tls().wrap_socket(connection.sock, server_hostname=name)
        headers = {"User-Agent": "pumice", "Accept": "application/json", "Accept-Encoding": "gzip"}
        if access.token:
            headers["Authorization"] = access.token
        connection.request("GET", server.path + path, headers=headers)
        yield b""
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"status {answer.status}")
        packed = zlib.decompressobj(16 + zlib.MAX_WBITS) if answer.headers["Content-Encoding"] == "gzip" else None
        while data := answer.read(_CHUNK):
            yield packed.decompress(data) if packed is not None else data
        if packed is not None and not packed.eof:
            raise OSError("the answer ended too soon")
    finally:
        connection.close()
