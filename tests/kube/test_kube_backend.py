"""The Kubernetes backend keeps the contract of a backend, on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from kube_bed import Bed, until
from kube_world import GROUPS, World

from contract.backend import Backend, BackendContract
from pumice.kube.backend import KubeBackend
from pumice.kube.credentials import Credentials
from pumice.model.api import Pod, decode

PATHS = {"Pod": "/api/v1/namespaces/default/pods", "PodGroup": f"{GROUPS}/namespaces/default/podgroups"}


class KubeUnderTest(KubeBackend):
    """A backend with a world in the namespace that the contract names."""

    def __init__(self, world: World) -> None:
        super().__init__(Credentials(kubeconfig=str(world.bed.scheduler)))
        self.world = world

    def have(self, *, nodes: int, pods: int) -> list[Pod]:
        for n in range(nodes):
            self.world.node(f"node-{n}", cpu="64")
        self.world.gang("job", pods)
        self.start()
        until(self.inbox.synced.is_set, 30, "everything was listed")
        self.settle()
        return [pod for pod in (decode("Pod", data) for data in self.world.pods().values()) if isinstance(pod, Pod)]

    def settle(self) -> None:
        assert self._loop is not None
        assert self._outbox is not None
        asyncio.run_coroutine_threadsafe(self._outbox.finish(), self._loop).result(20)
        until(self._caught_up, 20, "the watches show what is there")
        self.world.remove_deleted()
        until(self._caught_up, 20, "the watches show what is there")

    def submit(self, intents: object) -> None:
        super().submit(intents)  # type: ignore[arg-type]
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop).result(5)  # it was taken over

    def _caught_up(self) -> bool:
        for kind, path in PATHS.items():
            there = {
                f"default/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
                for item in self.world.bed.call("GET", path)["items"]
            }
            if there != dict(self.reflectors[kind].versions):
                return False
        return True


@pytest.fixture
def backend(bed: Bed) -> Iterator[Backend]:
    world = World(bed, "default", make=False)
    made = KubeUnderTest(world)
    try:
        yield made
    finally:
        made.stop()
        world.clean()


class TestKubeBackend(BackendContract):
    """Every test of the contract."""
