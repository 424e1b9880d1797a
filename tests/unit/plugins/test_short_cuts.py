"""Short cuts of built-in plugins give what the long way gives, to the last bit."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from pumice.model.api import AnyObject, Guarantee, ResourceList
from pumice.model.events import Seen
from pumice.plugins.nodeorder.requests import evenness
from pumice.plugins.proportion.filling import Filling, pour
from pumice.state.cluster import ClusterState
from pumice.testing import job, node, queue


def in_steps(used: list[float], offered: list[float]) -> int:
    """The balance as kube-scheduler works it out, one node after the other."""
    parts = [min(u / o, 1.0) for u, o in zip(used, offered, strict=True) if o]
    if len(parts) == 2:
        deviation = abs((parts[0] - parts[1]) / 2)
    else:
        mean = sum(parts) / len(parts) if parts else 0.0
        deviation = math.sqrt(sum((part - mean) * (part - mean) for part in parts) / max(len(parts), 1))
    return int((1 - deviation) * 100)


@pytest.mark.parametrize("resources", [2, 3])
def test_the_balance_of_many_nodes_is_that_of_each(resources: int) -> None:
    rng = np.random.default_rng(1)
    units = np.array([[1000], [1 << 30], [1000]])[:resources]
    for n in range(60):
        offered = rng.integers(0 if n % 3 else 1, np.array([[200], [2000], [17]])[:resources], (resources, 200)) * units
        if n % 2:
            used = (offered * rng.random((resources, 200)) * 1.2).astype(np.int64) + (offered == 0) * n
        else:
            used = offered // 4 * rng.integers(0, 5, (resources, 200))
        found = evenness(used, offered.astype(np.float64))
        assert [int(e) for e in found] == [
            in_steps(u, o) for u, o in zip(used.T.tolist(), offered.T.tolist(), strict=True)
        ]


def test_the_only_queue_deserves_what_pouring_gives_it() -> None:
    limits: list[ResourceList] = [{}, {"cpu": "3"}, {"cpu": "100", "nvidia.com/gpu": "1"}]
    guarantees: list[ResourceList] = [{}, {"cpu": "2"}, {"memory": "1Gi"}]
    for capability in limits:
        for guarantee in guarantees:
            state = ClusterState()
            plain = queue("default", capability=capability)
            spec = msgspec.structs.replace(plain.spec, guarantee=Guarantee(resource=guarantee))
            objects: list[AnyObject] = [msgspec.structs.replace(plain, spec=spec), node("n0", cpu=8, gpu=4)]
            objects += [*job("a", cpu=2, gpu=1, on="n0"), *job("b", tasks=3, cpu=2, memory="1Gi")]
            for obj in objects:
                state.apply(Seen(obj))
            state.refresh()
            filling = Filling()
            filling.refresh(state.queues, state.queue_version, state.total)
            alone = filling.deserved(state.queues["default"])
            width = filling._limit.shape[1]
            total, request = np.zeros(width), np.zeros((1, width))
            for d, v in state.total.items():
                total[d] = v
            for d, v in filling.request(state.queues["default"]).items():
                request[0, d] = v
            poured = pour(total, filling._weight, request, filling._limit, filling._guarantee)[0].tolist()
            assert alone == {d: v for d, v in enumerate(poured) if v}
            assert alone
