"""Where statuses are written: to a subresource, or to the object itself where the kind has none."""

from __future__ import annotations

import logging
import time

import msgspec

from pumice.kube.client import KubeClient
from pumice.kube.errors import ApiRefused, Unreachable
from pumice.kube.kinds import Resource

log = logging.getLogger("pumice.kube")

SURE = 60.0
"""Seconds after which it is looked again whether a kind still has no status subresource: its CRD may be replaced."""
STATUS = "status"


class _Named(msgspec.Struct):
    name: str = ""


class _Served(msgspec.Struct):
    """The answer to what a server serves of an API group."""

    resources: list[_Named] | None = None


_SERVED = msgspec.json.Decoder(_Served)


class StatusPlaces:
    """Knows of each kind where its status is written.

    Volcano's CRD of PodGroups has no status subresource, ours has one. A server answers 404 to a write into one that is
    not there, as it does where the object is gone; what it serves tells the two apart.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._whole: dict[str, float] = {}
        """Collections whose objects are written whole, and when that was last seen."""

    async def sub(self, resource: Resource) -> str:
        """The subresource to write a status of this kind to; nothing for the object itself."""
        seen = self._whole.get(resource.collection)
        if seen is not None and time.monotonic() - seen > SURE:
            await self.look(resource)
        return "" if resource.collection in self._whole else STATUS

    async def look(self, resource: Resource) -> str | None:
        """Ask the server where it keeps the statuses of a kind; None if it does not say, or does not serve the kind."""
        try:
            answer = _SERVED.decode(await self._client.request("GET", resource.prefix, timeout=15.0))
        except (ApiRefused, Unreachable, msgspec.MsgspecError) as exc:
            log.debug("what is served at %s: %s", resource.prefix, exc)
            return None
        served = {one.name for one in answer.resources or ()}
        if f"{resource.plural}/{STATUS}" in served:
            self._whole.pop(resource.collection, None)
            return STATUS
        if resource.plural not in served:
            return None
        if resource.collection not in self._whole:
            log.info(
                "%s has no status subresource here: statuses are written to the objects themselves", resource.plural
            )
        self._whole[resource.collection] = time.monotonic()
        return ""
