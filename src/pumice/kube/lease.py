"""Leader election on a Lease. The leader knows until when it leads; past that moment nothing is written."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from pumice.clock import Clock, SystemClock
from pumice.kube.client import KubeClient
from pumice.kube.errors import ApiRefused, Unreachable

log = logging.getLogger("pumice.kube.lease")


@dataclass(frozen=True, slots=True)
class Election:
    """Which lease, who we are, and the three times in seconds: lease > renew > retry."""

    name: str
    namespace: str
    identity: str
    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Lease(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


_LEASE = msgspec.json.Decoder(_Lease)


class Elector:
    """Tries to lead, and once it does, goes on leading or says at once that it does not any more.

    Every request is bounded by the time that is left, and a renewal counts from its beginning. So a server that hangs
    cannot cause two leaders at once. Expiry of others is judged by our own steady clock, never by theirs.
    """

    def __init__(
        self,
        client: KubeClient,
        election: Election,
        *,
        clock: Clock | None = None,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._election = client, election
        self._clock = clock or SystemClock()
        self._steady = steady
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{election.namespace}/leases"
        self._until = 0.0
        self._version = ""
        self._object: dict[str, Any] = {}
        """The lease as last seen: what others keep in it stays when it is renewed."""
        self._transitions = 0
        self._acquired = ""
        self._observed: tuple[str, float] = ("", 0.0)
        self._trouble = ""
        """Why the last attempt had no outcome; nothing if it had one."""
        self.holder = ""
        """The leader at the last look."""

    def __str__(self) -> str:
        return f"lease {self._election.namespace}/{self._election.name}"

    @property
    def trouble(self) -> str:
        """Why the last attempt had no answer; nothing if it had one."""
        return f"{self}: {self._trouble}" if self._trouble else ""

    @property
    def left(self) -> float:
        """For how many seconds from now we surely lead; 0 if we do not."""
        return max(self._until - self._steady(), 0.0)

    async def acquire(self) -> None:
        """Return when we lead."""
        while not await self._attempt(self._election.renew):  # noqa: ASYNC110 (asked at an interval)
            await asyncio.sleep(self._election.retry)
        log.info("%s leads (%s)", self._election.identity, self)

    async def hold(self) -> None:
        """Renew for as long as it can be done; return when we do not lead any more."""
        while True:
            await asyncio.sleep(min(self._election.retry, self.left))
            if self.left and await self._attempt(self.left):
                continue
            if self.holder and self.holder != self._election.identity:
                log.error("%s: lost to %s", self, self.holder)
            else:
                why = f": {self._trouble}" if self._trouble else ""
                log.error("%s: not renewed within %g s%s", self, self._election.renew, why)
            return

    async def release(self) -> None:
        """Give the lease back, so that nobody has to wait for it to expire."""
        left, self._until = self.left, 0.0
        if left:
            try:
                await self._put(_now(self._clock), holder="", seconds=1, timeout=min(left, 5.0))
            except (ApiRefused, Unreachable) as exc:
                log.warning("the lease was not given back: %s", exc)

    # -- one attempt ------------------------------------------------------------------------------------------------
    async def _attempt(self, limit: float) -> bool:
        """Try once, for at most *limit* seconds, to take or renew the lease; returns whether we lead."""
        began = self._steady()
        try:
            async with asyncio.timeout(limit):
                won = await self._renew() if self._version and self.left else await self._take()
        except (ApiRefused, Unreachable, TimeoutError) as exc:
            trouble = str(exc) or f"no answer within {limit:.1f} s"
            # as long as it lasts it is told once
            log.log(logging.DEBUG if self._trouble else logging.WARNING, "%s: %s; trying again", self, trouble)
            self._trouble = trouble
            return self.left > 0
        self._trouble = ""
        self._until = began + self._election.renew if won else 0.0
        return self.left > 0

    async def _renew(self) -> bool:
        try:
            await self._put(_now(self._clock))
            return True
        except ApiRefused as no:
            if no.code not in (404, 409):
                raise
        return await self._take()

    async def _take(self) -> bool:
        now = _now(self._clock)
        try:
            found = self._seen(await self._client.request("GET", f"{self._path}/{self._election.name}"))
        except ApiRefused as no:
            if no.code != 404:
                raise
            return await self._create(now)
        spec = found.spec
        self.holder = spec.holder_identity or ""
        ours = self.holder == self._election.identity
        if self._observed[0] != found.metadata.resource_version:
            self._observed = (found.metadata.resource_version, self._steady())
        age = self._steady() - self._observed[1]
        if self.holder and not ours and age < (spec.lease_duration_seconds or self._election.lease):
            return False
        self._version = found.metadata.resource_version
        self._transitions = (spec.lease_transitions or 0) + (0 if ours else 1)
        self._acquired = (spec.acquire_time if ours else None) or now
        try:
            await self._put(now)
        except ApiRefused as no:
            if no.code != 409:
                raise
            self._version = ""
            return False
        return True

    async def _create(self, now: str) -> bool:
        self._version, self._transitions, self._acquired = "", 0, now
        try:
            answer = await self._client.request("POST", self._path, self._body(now))
        except ApiRefused as no:
            if no.code != 409:
                raise
            return False
        self._version = self._seen(answer).metadata.resource_version
        self.holder = self._election.identity
        return True

    async def _put(self, now: str, holder: str | None = None, seconds: int = 0, timeout: float = 30.0) -> None:
        body = self._body(now, holder, seconds)
        answer = await self._client.request("PUT", f"{self._path}/{self._election.name}", body, timeout=timeout)
        self._version = self._seen(answer).metadata.resource_version
        self.holder = self._election.identity if holder is None else holder

    def _seen(self, answer: bytes) -> _Lease:
        self._object = msgspec.json.decode(answer)
        return _LEASE.decode(answer)

    def _body(self, now: str, holder: str | None = None, seconds: int = 0) -> dict[str, Any]:
        known = self._object if self._version else {}
        meta = {**known.get("metadata", {}), "name": self._election.name, "namespace": self._election.namespace}
        if self._version:
            meta["resourceVersion"] = self._version
        return {
            **known,
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": meta,
            "spec": {
                **(known.get("spec") or {}),
                "holderIdentity": self._election.identity if holder is None else holder,
                "leaseDurationSeconds": seconds or max(int(self._election.lease), 1),
                "leaseTransitions": self._transitions,
                "acquireTime": self._acquired,
                "renewTime": now,
            },
        }


def _now(clock: Clock) -> str:
    return datetime.fromtimestamp(clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
