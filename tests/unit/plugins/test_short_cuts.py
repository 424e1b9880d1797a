"""Short cuts of built-in plugins give what the long way gives, to the last bit."""

from __future__ import annotations

import msgspec
import numpy as np

from pumice.model.api import AnyObject, Guarantee, ResourceList
from pumice.model.events import Seen
from pumice.plugins.nodeorder.arithmetic import evenness_of_three
from pumice.plugins.nodeorder.requests import _evenness
from pumice.plugins.proportion.filling import Filling, pour
from pumice.state.cluster import ClusterState
from pumice.testing import job, node, queue


def test_the_balance_of_three_resources_is_the_same_both_ways() -> None:
    rng = np.random.default_rng(1)
    units = np.array([[1000], [1 << 30], [1000]])
    for n in range(60):
        offered = rng.integers(1, [[200], [2000], [17]], (3, 200)) * units
        if n % 2:
            used = (offered * rng.random((3, 200)) * 1.2).astype(np.int64)
        else:
            used = offered // 4 * rng.integers(0, 5, (3, 200))
        long_way = _evenness(list(offered), list(used))
        assert (long_way == evenness_of_three(used / offered)).all()


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
