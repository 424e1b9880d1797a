"""Writes of the controllers: nothing once we do not lead, deletions only of what is meant, by uid."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Coroutine, Iterable
from typing import Any

import msgspec

from pumice.kube.client import MERGE
from pumice.kube.errors import ApiRefused
from pumice.kube.kinds import Resource
from pumice.kube.writes import ApiWriter

AT_ONCE = 16
"""Requests under way at once."""


async def all_of(requests: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Send them all, then raise the first failure."""
    for outcome in await asyncio.gather(*requests, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


class Hand:
    """Single requests. What the server refuses is raised, unless it is what was wanted anyway."""

    def __init__(self, writer: ApiWriter) -> None:
        self._writer = writer
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def read(self, resource: Resource, key: str) -> dict[str, Any] | None:
        """An object as it is now; None if there is none, or we may not see it."""
        try:
            answer = await self._writer.read(resource.path(key))
        except ApiRefused as no:
            if no.code == 403:
                return None
            raise
        found: dict[str, Any] | None = msgspec.json.decode(answer) if answer is not None else None
        return found

    async def create(self, resource: Resource, namespace: str, body: dict[str, Any]) -> bytes | None:
        """Create an object; None if one of its name is there already."""
        return await self._sent("POST", resource.path(f"{namespace}/").rstrip("/"), body, but=(409,))

    async def replace_status(self, resource: Resource, key: str, body: dict[str, Any]) -> bytes | None:
        """Write a status; None if the object changed in between, or is gone: then it will be looked at again."""
        return await self._sent("PUT", resource.path(key, "status"), body, but=(404, 409))

    async def patch_status(self, resource: Resource, key: str, body: dict[str, Any]) -> bytes | None:
        """Change a status by a merge patch; None if the object is gone."""
        async with self._gate:
            return _wanted(await self._writer.send_status(resource, key, body), but=(404, 409))

    async def patch(self, resource: Resource, key: str, body: dict[str, Any]) -> bytes | None:
        """Change an object by a merge patch; None if it is gone or another one than meant."""
        try:
            return await self._sent("PATCH", resource.path(key), body, MERGE, but=(404, 409))
        except ApiRefused as no:
            if no.code == 422 and "metadata.uid" in str(no):  # a uid in a patch is a value that cannot change
                return None
            raise

    async def delete(self, resource: Resource, key: str, uid: str) -> None:
        """Delete an object of this uid; what it owns is collected by the cluster."""
        body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        body["propagationPolicy"] = "Background"
        await self._sent("DELETE", resource.path(key), body, but=(404, 409))

    async def _sent(
        self, method: str, path: str, body: dict[str, Any], content: str = "application/json", *, but: Container[int]
    ) -> bytes | None:
        async with self._gate:
            return _wanted(await self._writer.send(method, path, body, content), but)


def _wanted(answer: bytes | ApiRefused, but: Container[int]) -> bytes | None:
    """The answer; None where it was refused with one of these codes.

    :raises Refused: with any other.
    """
    if not isinstance(answer, ApiRefused):
        return answer
    if answer.code in but:
        return None
    raise answer
