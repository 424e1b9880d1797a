"""Short cuts of built-in plugins give what the long way gives, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from pumice import NodeRows
from pumice.engine import side_by_side
from pumice.engine.allocatable_floats import AllocatableFloats
from pumice.engine.side_by_side import ClassAmounts
from pumice.framework.arguments import Arguments
from pumice.model.api import AnyObject, Guarantee, ResourceList
from pumice.model.events import Seen
from pumice.plugins.binpack import Binpack
from pumice.plugins.nodeorder.across import ScoresAcross
from pumice.plugins.nodeorder.arithmetic import evenness_of_three
from pumice.plugins.nodeorder.requests import RequestScores, _evenness
from pumice.plugins.proportion.filling import Filling, pour
from pumice.state.cluster import ClusterState
from pumice.testing import job, node, queue, session, task_of


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


@pytest.mark.parametrize("gpus", [(0, 0, 0), (1, 1, 1), (1, 2, 3)])
@pytest.mark.parametrize("memory", [("2Gi", "2Gi", "2Gi"), ("1Gi", "2Gi", "3Gi")])
@pytest.mark.parametrize("cpu", [(1, 1, 1), (1, 2, 3)])
@pytest.mark.parametrize("pays", [0, 2048])
def test_scores_of_many_classes_are_those_of_each(
    cpu: tuple[float, ...], memory: tuple[str, ...], gpus: tuple[int, ...], pays: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "_MANY", pays)
    made = session(
        *(node(f"n{n}", cpu=3 + n, memory=f"{7 + 2 * n}Gi", gpu=8) for n in range(9)),
        *(job(f"j{n}", tasks=2, cpu=1.3, memory=f"{n % 4 + 1}Gi", gpu=n % 3, on=[f"n{n}", "n8"]) for n in range(8)),
        *(job(f"w{n}", cpu=c, memory=m, gpu=g) for n, (c, m, g) in enumerate(zip(cpu, memory, gpus, strict=True))),
    )
    tasks = [task_of(made, f"w{n}-0") for n in range(3)]
    rows, classes = NodeRows(made.state.table), ClassAmounts.of([task.klass for task in tasks])
    offers = AllocatableFloats(made.state.table)
    ways: list[tuple[Callable[..., Any], Callable[..., Any]]] = []
    for weights in ((1, 0, 1), (2, 3, 0), (0, 1, 2), (0, 0, 1), (0, 0, 0)):
        ways.append((RequestScores(offers, *weights).score, ScoresAcross(*weights).scores))
    for given in ({}, {"binpack.cpu": 3, "binpack.resources": "nvidia.com/gpu"}, {"binpack.memory": 0}):
        plugin = Binpack(Arguments(given))
        plugin.on_session_reopen(made)
        ways.append((plugin._score, plugin._across))
    for alone, together in ways:
        for some in (rows, NodeRows(made.state.table, np.array([1, 4, 8]))):
            assert np.array_equal(together(classes, some), [alone(task, some) for task in tasks])


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
