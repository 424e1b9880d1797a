"""Single writes to the API server, each tried until its outcome is known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from pumice.kube.client import STRATEGIC, KubeClient
from pumice.kube.errors import Refused, Unreachable
from pumice.kube.kinds import DECODERS, RESOURCES
from pumice.kube.waiting import Backoff
from pumice.model.api import Pod
from pumice.model.intents import Bind, Evict, Nominate

log = logging.getLogger("pumice.kube")

LIMIT = 15.0
"""Seconds that one request may take."""
TRIES = 5
"""How often a request is sent that the server answers with an error of its own."""
NOT_LEADING = "we do not lead any more"

TimeLeft = Callable[[], float]
"""For how many seconds from now we may write; 0: not at all."""


class Writer:
    """Carries single intents out. Nothing is sent once *left* says 0."""

    def __init__(self, client: KubeClient, left: TimeLeft) -> None:
        self._client, self._left = client, left
        self._pods = RESOURCES["Pod"]

    async def bind(self, intent: Bind) -> str:
        """Bind; returns why it did not happen, or nothing.

        The UID goes along, so a pod of the same name is never bound by mistake. Where an answer was lost the bind is
        sent again: the server refuses the second one, and the pod itself says what became of the first.
        """
        _, _, name = intent.pod.rpartition("/")
        meta: dict[str, Any] = {"name": name, "namespace": intent.pod.partition("/")[0], "uid": intent.uid}
        if intent.annotations:
            meta["annotations"] = intent.annotations
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": meta,
            "target": {"apiVersion": "v1", "kind": "Node", "name": intent.node},
        }
        path = self._pods.path(intent.pod, "binding")
        no = await self._until_answered("POST", path, body)
        if no is None:
            return ""
        if (no.code == 409 or no.code >= 500) and await self.node_of(intent) == intent.node:
            return ""
        return str(no)

    async def node_of(self, intent: Bind) -> str:
        """The node that the pod of a bind has now; nothing if it has none, is gone, or is another of its name."""
        pod = await self.read_pod(intent.pod)
        return pod.spec.node_name if pod is not None and pod.metadata.uid == intent.uid else ""

    async def evict(self, intent: Evict) -> str:
        """Evict through the Eviction API, which honours disruption budgets; returns why it did not happen, or nothing.

        A pod that is gone, or another one of its name, counts as evicted.
        """
        namespace, _, name = intent.pod.rpartition("/")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": intent.uid}},
        }
        path = self._pods.path(intent.pod, "eviction")
        no: Refused | None = None
        for _ in range(TRIES):
            no = await self._until_answered("POST", path, body)
            if no is None or no.code == 404:
                return ""
            if no.code != 409:
                break
            pod = await self.read_pod(intent.pod)
            if pod is None or pod.metadata.uid != intent.uid:
                return ""
            await asyncio.sleep(0.1)
        return str(no)

    async def nominate(self, intent: Nominate) -> None:
        """Write the node whose room is being freed into the pod's status."""
        body = {"metadata": {"uid": intent.uid}, "status": {"nominatedNodeName": intent.node}}
        await self.patch(self._pods.path(intent.pod, "status"), body, STRATEGIC)

    async def patch(self, path: str, body: dict[str, Any], content: str) -> bool:
        """Change an object; returns whether that happened. One that is gone, or newer than the patch, needs none."""
        no = await self._until_answered("PATCH", path, body, content)
        if no is None:
            return True
        if no.code not in (404, 409):
            log.warning("%s", no)
        return False

    async def create(self, path: str, body: dict[str, Any]) -> Refused | None:
        """Create an object; returns what the server had against it."""
        return await self._until_answered("POST", path, body)

    async def change(self, path: str, body: dict[str, Any], content: str) -> bytes | Refused:
        """Change an object; returns it as it is then, or what the server had against it."""
        return await self._answer("PATCH", path, body, content)

    async def read_pod(self, key: str) -> Pod | None:
        """The pod as it is now; None if there is none."""
        answer = await self.read(self._pods.path(key))
        try:
            return DECODERS["Pod"].decode(answer) if answer is not None else None
        except msgspec.ValidationError:
            return None

    async def read(self, path: str) -> bytes | None:
        """An object as it is now; None if there is none.

        :raises Refused: it is not to be read.
        """
        backoff = Backoff(0.05, 2.0)
        while True:
            try:
                return await self._client.request("GET", path, timeout=LIMIT)
            except Refused as no:
                if no.code == 404:
                    return None
                if not no.retryable:
                    raise
                await asyncio.sleep(backoff.again(no.retry_after))
            except Unreachable:
                await asyncio.sleep(backoff.again())

    async def _until_answered(
        self, method: str, path: str, body: dict[str, Any], content: str = "application/json"
    ) -> Refused | None:
        """Send until the server says yes (None) or no; overload and lost answers are waited out."""
        answer = await self._answer(method, path, body, content)
        return answer if isinstance(answer, Refused) else None

    async def _answer(self, method: str, path: str, body: dict[str, Any], content: str) -> bytes | Refused:
        backoff = Backoff(0.05, 2.0)
        tries = 0
        while True:
            left = self._left()
            if left <= 0:
                return Refused(403, f"{method} {path}", NOT_LEADING.encode())
            wait = 0.0
            try:
                return await self._client.request(method, path, body, content=content, timeout=min(LIMIT, left))
            except Refused as no:
                tries += no.code >= 500
                if not no.retryable or no.by_budget or tries >= TRIES:
                    return no
                wait = no.retry_after
            except Unreachable as lost:
                log.debug("%s; trying again", lost)
            await asyncio.sleep(backoff.again(wait))
