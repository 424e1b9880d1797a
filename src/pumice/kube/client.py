"""A thin client: JSON in, bytes out, one connection pool, credentials renewed when the server refuses them."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from pumice.kube.credentials import Access, Credentials, proxy_of
from pumice.kube.errors import ApiRefused, NoCredentials, Unreachable


class Backoff:
    """Waits that double up to a limit, with some chance in them so that clients do not march in step."""

    def __init__(self, first: float = 0.1, most: float = 10.0) -> None:
        self._first, self._most = first, most
        self._next = first

    def again(self, asked: float = 0.0) -> float:
        """The next wait in seconds; at least what the server asked for."""
        wait = self._next * random.uniform(0.5, 1.0)
        self._next = min(self._next * 2, self._most)
        return max(wait, asked)

    def reset(self) -> None:
        """It worked: start small again."""
        self._next = self._first


log = logging.getLogger("pumice.kube")

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
GOODBYE = 0.25
"""Seconds in which encrypted connections say goodbye after their session was closed."""
_BUFFER = 2**21
_UNHEARD = (aiohttp.ClientError, asyncio.TimeoutError, OSError)


class KubeClient:
    """Talks to one API server. Belongs to one event loop; open it there with ``async with``."""

    def __init__(self, credentials: Credentials, *, connections: int = 128, user_agent: str = "pumice") -> None:
        self._credentials = credentials
        self._connections = connections
        self._headers = {"User-Agent": user_agent, "Accept": "application/json"}
        self._access: Access | None = None
        self._way: dict[str, Any] = {}
        self._session: aiohttp.ClientSession | None = None
        self._retired: list[aiohttp.ClientSession] = []
        self._renewing = asyncio.Lock()

    async def __aenter__(self) -> KubeClient:
        await self._renew(None)
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in (*self._retired, *((self._session,) if self._session else ())):
            await session.close()
        self._session = None
        if self._access is not None and self._access.host.startswith("https:"):
            await asyncio.sleep(GOODBYE)

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content: str = "application/json",
        timeout: float = 30.0,
    ) -> bytes:
        """The body of the answer.

        :raises Refused: the server answered with an error.
        :raises Unreachable: no answer came in time.
        """
        what = f"{method} {path}"
        data = msgspec.json.encode(body) if body is not None else None
        limit = aiohttp.ClientTimeout(total=timeout)
        try:
            for attempt in (1, 2):
                access, session = self._current()
                async with session.request(
                    method,
                    access.host + path,
                    params=query,
                    data=data,
                    headers=_headers(access, content if data is not None else ""),
                    timeout=limit,
                    **self._way,
                ) as answer:
                    answered = await answer.read()
                    if answer.status == 401 and attempt == 1:
                        await self._renew(access)
                        continue
                    if answer.status >= 400:
                        raise ApiRefused(answer.status, what, answered, answer.headers.get("Retry-After", ""))
                    return answered
        except _UNHEARD as exc:
            raise Unreachable(f"{what}: {type(exc).__name__} {exc}".rstrip()) from exc
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], silence: float
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """The body of a long answer, to be read as it comes; it ends when nothing comes for *silence* seconds.

        :raises Refused: the server answered with an error.
        :raises Unreachable: the connection cannot be made, or broke, or fell silent.
        """
        what = f"GET {path}"
        limit = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=silence)
        try:
            access, session = self._current()
            async with session.get(
                access.host + path, params=query, headers=_headers(access, ""), timeout=limit, **self._way
            ) as answer:
                if answer.status == 401:
                    await self._renew(access)
                if answer.status >= 400:
                    raise ApiRefused(answer.status, what, await answer.read(), answer.headers.get("Retry-After", ""))
                yield answer.content
        except _UNHEARD as exc:
            raise Unreachable(f"{what}: {type(exc).__name__} {exc}".rstrip()) from exc

    def _current(self) -> tuple[Access, aiohttp.ClientSession]:
        if self._access is None or self._session is None:
            raise RuntimeError("the client is not open")
        return self._access, self._session

    async def _renew(self, refused: Access | None) -> None:
        """Read the credentials again, unless somebody did since *refused* was read."""
        async with self._renewing:
            if refused is not None and self._access is not refused:
                return
            try:
                access = await self._credentials.load()
            except NoCredentials as exc:
                if refused is None:
                    raise
                log.warning("the API server refused our credentials, and there are no others: %s", exc)
                return
            if self._session is None or self._access is None or not access.same_connection(self._access):
                if self._session is not None:
                    self._retired.append(self._session)  # requests may be in flight on it
                connector = aiohttp.TCPConnector(limit=self._connections, ssl=access.tls(), keepalive_timeout=60)
                # not trust_env: then it would look for a .netrc, in another thread, at every request
                self._session = aiohttp.ClientSession(
                    connector=connector,
                    headers=self._headers,
                    read_bufsize=_BUFFER,
                    cookie_jar=aiohttp.DummyCookieJar(),
                )
            self._way = way_of(access)
            self._access = access
        if refused is not None:
            log.info("the API server refused our credentials; read them again")


class ReadingClient(KubeClient):
    """A client that cannot change anything: it knows no verb but GET."""

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content: str = "application/json",
        timeout: float = 30.0,
    ) -> bytes:
        """The body of the answer to a GET.

        :raises PermissionError: it is another verb.
        """
        if method != "GET":
            raise PermissionError(f"{method} {path}: this client only reads")
        return await super().request(method, path, body, query=query, content=content, timeout=timeout)


def _headers(access: Access, content: str) -> dict[str, str]:
    headers = {"Content-Type": content} if content else {}
    if access.token:
        headers["Authorization"] = access.token
    return headers


def way_of(access: Access) -> dict[str, Any]:
    """How connections are made: past a proxy that the kubeconfig or the environment names, under another name."""
    way: dict[str, Any] = {}
    proxy = proxy_of(access)
    if proxy:
        way["proxy"] = proxy
    if access.server_name:
        way["server_hostname"] = access.server_name
    return way
