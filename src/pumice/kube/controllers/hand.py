"""Writes of the controllers: nothing once we do not lead, deletions only of what is meant, by uid."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

import msgspec

from pumice.errors import PumiceError
from pumice.kube.client import MERGE, KubeClient
from pumice.kube.errors import Refused
from pumice.kube.kinds import Resource
from pumice.kube.writes import LIMIT, NOT_LEADING, TimeLeft

AT_ONCE = 16
"""Requests under way at once."""


class NotLeading(PumiceError):
    """Another replica leads now."""


async def all_of(requests: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Send them all, then raise the first failure."""
    for outcome in await asyncio.gather(*requests, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


class Hand:
    """Single requests. What the server refuses is raised, unless it is what was wanted anyway."""

    def __init__(self, client: KubeClient, left: TimeLeft) -> None:
        self._client, self._left = client, left
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def read(self, resource: Resource, key: str) -> dict[str, Any] | None:
        """An object as it is now; None if there is none, or we may not see it."""
        try:
            found: dict[str, Any] = msgspec.json.decode(await self._client.request("GET", resource.path(key)))
        except Refused as no:
            if no.code in (403, 404):
                return None
            raise
        return found

    async def create(self, resource: Resource, namespace: str, body: dict[str, Any]) -> bytes | None:
        """Create an object; None if one of its name is there already."""
        try:
            return await self._send("POST", resource.path(f"{namespace}/").rstrip("/"), body)
        except Refused as no:
            if no.code == 409:
                return None
            raise

    async def replace_status(self, resource: Resource, key: str, body: dict[str, Any]) -> bytes | None:
        """Write a status; None if the object changed in between, or is gone: then it will be looked at again."""
        try:
            return await self._send("PUT", resource.path(key, "status"), body)
        except Refused as no:
            if no.code in (404, 409):
                return None
            raise

    async def patch(self, resource: Resource, key: str, body: dict[str, Any], sub: str = "") -> bytes | None:
        """Change an object by a merge patch; None if it is gone or another one than meant."""
        try:
            return await self._send("PATCH", resource.path(key, sub), body, MERGE)
        except Refused as no:
            another = no.code == 422 and "metadata.uid" in str(no)  # a uid in a patch is a value that cannot change
            if another or no.code in (404, 409):
                return None
            raise

    async def delete(self, resource: Resource, key: str, uid: str) -> None:
        """Delete an object of this uid; what it owns is collected by the cluster."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        body["propagationPolicy"] = "Background"
        try:
            await self._send("DELETE", resource.path(key), body)
        except Refused as no:
            if no.code not in (404, 409):
                raise

    async def _send(self, method: str, path: str, body: dict[str, Any], content: str = "application/json") -> bytes:
        async with self._gate:
            left = self._left()
            if left <= 0:
                raise NotLeading(f"{method} {path}: {NOT_LEADING}")
            return await self._client.request(method, path, body, content=content, timeout=min(LIMIT, left))
