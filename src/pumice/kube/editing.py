"""Changing an object of somebody else's: read it, decide, write on the version that was read, again if it moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from pumice.errors import PumiceError
from pumice.kube.client import MERGE
from pumice.kube.errors import ApiRefused
from pumice.kube.kinds import RESOURCES, Resource
from pumice.kube.waiting import Backoff
from pumice.kube.writes import ApiWriter

Object: TypeAlias = dict[str, Any]
"""An object as plain data: what we do not know must not get lost."""
Change: TypeAlias = Callable[[Object], Object | None]
"""From the object as it is, the merge patch that makes it as it should be; None if it is."""

_TRIES = 10


class ClaimUnusable(PumiceError):
    """A claim is not, and will not be, as a pod needs it; says why."""

    def __init__(self, text: str, *, invalid: bool = False) -> None:
        super().__init__(text)
        self.invalid = invalid
        """Whether the server found that the object would break a rule (422)."""


def check_claim(kind: str, claim: Object, key: str, uid: str) -> None:
    """Is this the claim that was chosen for, and does it stay?

    :raises Unprepared: it is not, or is being deleted.
    """
    meta = claim["metadata"]
    if uid and meta.get("uid") != uid:
        raise ClaimUnusable(f"{kind} {key}: it is gone, and another one has its name")
    if meta.get("deletionTimestamp"):
        raise ClaimUnusable(f"{kind} {key}: it is being deleted")


class Editor:
    """Edits single objects, some at once. *where* tells where the server keeps a kind."""

    def __init__(
        self, writer: ApiWriter, *, in_flight: int = 32, where: Callable[[str], Resource] = RESOURCES.__getitem__
    ) -> None:
        self._writer, self._where = writer, where
        self._flying = asyncio.Semaphore(in_flight)

    async def edit(self, kind: str, key: str, change: Change, sub: str = "") -> Object:
        """Bring an object, or its subresource *sub*, to where *change* wants it; returns it as it is then.

        :raises Unprepared: it is gone, the server refuses, or *change* raised this.
        """
        backoff = Backoff(0.02, 1.0)
        resource = self._where(kind)
        for _ in range(_TRIES):
            async with self._flying:
                found = await self._read(kind, key, resource)
                patch = change(found)
                if patch is None:
                    return found
                meta = found["metadata"]
                patch["metadata"] = {
                    **patch.get("metadata", {}),
                    "resourceVersion": meta.get("resourceVersion"),
                    "uid": meta.get("uid"),
                }
                answer = await self._writer.send("PATCH", resource.path(key, sub), patch, MERGE)
            if not isinstance(answer, ApiRefused):
                changed: Object = msgspec.json.decode(answer)
                return changed
            if answer.code != 409:
                raise ClaimUnusable(str(answer), invalid=answer.code == 422)
            await asyncio.sleep(backoff.again())
        raise ClaimUnusable(f"{kind} {key}: it changed {_TRIES} times while we wrote it")

    async def create(self, kind: str, key: str, body: Object) -> Object:
        """Create an object, and return it; one that has its name already is returned as it is.

        :raises ClaimUnusable: the server refuses.
        """
        resource = self._where(kind)
        namespace, _, name = key.rpartition("/")
        body["metadata"] |= {"name": name, "namespace": namespace}
        group = resource.prefix.removeprefix("/apis/").removeprefix("/api/")
        body |= {"apiVersion": group, "kind": resource.kind}
        async with self._flying:
            answer = await self._writer.send("POST", resource.path(key).rpartition("/")[0], body)
            if isinstance(answer, ApiRefused) and answer.code == 409:
                return await self._read(kind, key, resource)
        if isinstance(answer, ApiRefused):
            raise ClaimUnusable(str(answer))
        made: Object = msgspec.json.decode(answer)
        return made

    async def _read(self, kind: str, key: str, resource: Resource) -> Object:
        try:
            data = await self._writer.read(resource.path(key))
        except ApiRefused as no:
            raise ClaimUnusable(str(no)) from no
        if data is None:
            raise ClaimUnusable(f"{kind} {key}: it is gone")
        found: Object = msgspec.json.decode(data)
        return found
