"""Leader election: one leads, never two, also when the server hangs, refuses or is gone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import virtual_time
from scripted_api import CUT, ScriptedApi, serving, until

from pumice.kube.client import KubeClient
from pumice.kube.lease import Election, Elector

LEASES = "/apis/coordination.k8s.io/v1/namespaces/sys/leases"
LEASE = f"{LEASES}/pumice"


class LeaseStore:
    """One Lease with versions, as an API server keeps it."""

    def __init__(self, api: ScriptedApi) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.frozen = asyncio.Event()
        self.frozen.set()
        api.answers["GET", LEASE] = [self.get]
        api.answers["POST", LEASES] = [self.post]
        api.answers["PUT", LEASE] = [self.put]

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    async def get(self, _: Any) -> tuple[int, Any]:
        await self.frozen.wait()
        return (404, {"reason": "NotFound"}) if self.lease is None else (200, self.lease)

    async def post(self, body: Any) -> tuple[int, Any]:
        await self.frozen.wait()
        return (409, {}) if self.lease is not None else (201, self._store(body))

    async def put(self, body: Any) -> tuple[int, Any]:
        await self.frozen.wait()
        if self.lease is None or body["metadata"]["resourceVersion"] != str(self.version):
            return 409, {"reason": "Conflict"}
        return 200, self._store(body)

    def _store(self, body: Any) -> Any:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body
        return body


def elector(client: KubeClient, identity: str) -> Elector:
    election = Election("pumice", "sys", identity, lease=1.0, renew=0.6, retry=0.1)
    return Elector(client, election, steady=asyncio.get_running_loop().time)


def test_the_first_leads_and_the_second_waits_until_the_lease_is_given_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            store = LeaseStore(api)
            first, second = elector(client, "first"), elector(client, "second")
            await first.acquire()
            holding = asyncio.create_task(first.hold())
            waiting = asyncio.create_task(second.acquire())
            await asyncio.sleep(1.3)
            assert first.left > 0
            assert second.left == 0
            assert (second.holder, store.spec["leaseTransitions"]) == ("first", 0)
            holding.cancel()
            await first.release()
            assert first.left == 0
            assert store.spec["holderIdentity"] == ""
            await asyncio.wait_for(waiting, 0.5)
            assert (store.spec["holderIdentity"], store.spec["leaseTransitions"]) == ("second", 1)

    virtual_time.run(story())


def test_a_leader_that_died_is_followed_when_its_lease_is_over_and_not_before(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            LeaseStore(api)
            dead, heir = elector(client, "dead"), elector(client, "heir")
            await dead.acquire()
            began = asyncio.get_running_loop().time()
            await asyncio.wait_for(heir.acquire(), 5)
            assert asyncio.get_running_loop().time() - began >= 1.0
            assert dead.left == 0

    virtual_time.run(story())


def lease_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelname in ("WARNING", "ERROR") and "lease" in r.name]


def test_a_server_that_hangs_ends_the_lead_before_the_lease_is_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            store = LeaseStore(api)
            leader = elector(client, "leader")
            await leader.acquire()
            store.frozen.clear()
            began = asyncio.get_running_loop().time()
            await leader.hold()
            assert asyncio.get_running_loop().time() - began < 1.0
            assert leader.left == 0
            store.frozen.set()

    virtual_time.run(story())
    trouble, end = lease_lines(caplog)
    assert trouble.startswith("lease sys/pumice: no answer within 0.")
    assert end.startswith("lease sys/pumice: not renewed within 0.6 s: no answer within 0.")


def test_a_server_that_drops_connections_for_a_moment_does_not_end_the_lead(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            store = LeaseStore(api)
            leader = elector(client, "leader")
            await leader.acquire()
            api.answers["PUT", LEASE] = [CUT, CUT, store.put]
            holding = asyncio.create_task(leader.hold())
            await asyncio.sleep(1.2)
            assert leader.left > 0
            assert not holding.done()
            holding.cancel()

    virtual_time.run(story())


def test_a_lease_that_another_took_ends_the_lead(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            store = LeaseStore(api)
            leader = elector(client, "leader")
            await leader.acquire()
            store._store({**store.lease, "spec": {**store.spec, "holderIdentity": "usurper"}})  # type: ignore[dict-item]
            await asyncio.wait_for(leader.hold(), 2)
            assert (leader.left, leader.holder) == (0, "usurper")

    virtual_time.run(story())
    assert lease_lines(caplog) == ["lease sys/pumice: lost to usurper"]


def test_a_server_that_is_gone_is_told_once_and_never_as_a_loss_to_ourselves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            LeaseStore(api)
            leader = elector(client, "leader")
            await leader.acquire()
            api.answers["PUT", LEASE] = [CUT]
            await asyncio.wait_for(leader.hold(), 5)

    virtual_time.run(story())
    trouble, end = lease_lines(caplog)
    assert trouble.startswith("lease sys/pumice: PUT /apis/coordination.k8s.io")
    assert end.startswith("lease sys/pumice: not renewed within 0.6 s: PUT /apis")


def test_two_that_compete_never_lead_together(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            store = LeaseStore(api)
            rivals = [elector(client, name) for name in ("a", "b", "c")]
            both = 0
            led: set[int] = set()

            async def compete(rival: Elector) -> None:
                while True:
                    await rival.acquire()
                    await rival.hold()

            tasks = [asyncio.create_task(compete(r)) for r in rivals]
            for step in range(200):
                (store.frozen.clear if step % 100 == 40 else store.frozen.set if step % 100 == 99 else int)()
                leaders = [i for i, r in enumerate(rivals) if r.left > 0]
                led.update(leaders)
                both += len(leaders) > 1
                await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert both == 0
            assert led

    virtual_time.run(story())


def test_a_renewal_keeps_what_others_wrote_into_the_lease(tmp_path: Path) -> None:
    theirs = {
        "labels": {"team": "a"},
        "annotations": {"note": "mine"},
        "ownerReferences": [{"kind": "Deployment", "name": "d", "uid": "u", "apiVersion": "apps/v1"}],
        "finalizers": ["f"],
    }

    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            store = LeaseStore(api)
            meta = {"name": "pumice", "namespace": "sys", "uid": "1", **theirs}
            store._store({"metadata": meta, "spec": {"preferredHolder": "x", "strategy": "y"}})
            one = elector(client, "one")
            await one.acquire()
            task = asyncio.create_task(one.hold())
            first = store.version
            await until(lambda: store.version > first + 1)
            assert store.lease is not None
            assert {key: store.lease["metadata"].get(key) for key in theirs} == theirs
            assert (store.spec["holderIdentity"], store.spec["strategy"]) == ("one", "y")
            task.cancel()
            await one.release()
            assert {key: store.lease["metadata"].get(key) for key in theirs} == theirs

    asyncio.run(story())


def test_times_are_written_in_utc_with_microseconds(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            store = LeaseStore(api)
            await elector(client, "x").acquire()
            await until(lambda: store.lease is not None)
            assert len(store.spec["renewTime"]) == len("2026-01-01T00:00:00.000000Z")
            assert store.spec["renewTime"].endswith("Z")

    virtual_time.run(story())
