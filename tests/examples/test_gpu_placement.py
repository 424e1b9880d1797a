"""gpu-placement: fit, node score and device order for GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pumice import Unfit
from pumice.testing import Scenario, cluster, job, session, task_of


def test_a_gpu_task_needs_a_node_with_a_free_gpu(plugin: Callable[..., Any]) -> None:
    ssn = session(cluster("2x2gpu, 1x8cpu"), job("full", tasks=2, gpu=1, on="node-0"), job("gpu", gpu=1), job("cpu"))
    ssn.open_plugin(plugin("gpu-placement"))
    for name in ("node-0", "node-2"):
        with pytest.raises(Unfit, match="requires a GPU and the node has none free"):
            ssn.predicate(task_of(ssn, "gpu-0"), ssn.nodes[name])
        ssn.predicate(task_of(ssn, "cpu-0"), ssn.nodes[name])
    ssn.predicate(task_of(ssn, "gpu-0"), ssn.nodes["node-1"])


def test_nodes_score_by_how_much_of_their_gpus_is_taken(plugin: Callable[..., Any]) -> None:
    ssn = session(cluster("2x8gpu"), job("running", tasks=2, gpu=1, on="node-1"), job("gpu", gpu=1), job("cpu"))
    ssn.open_plugin(plugin("gpu-placement", {"weight": "2"}))
    nodes = list(ssn.nodes.values())
    assert ssn.batch_node_order(task_of(ssn, "gpu-0"), nodes) == {"node-0": 0.0, "node-1": 50.0}
    assert ssn.batch_node_order(task_of(ssn, "cpu-0"), nodes) == {"node-0": 0.0, "node-1": 0.0}


def test_a_device_that_is_shared_already_is_better_than_an_untouched_one(plugin: Callable[..., Any]) -> None:
    ssn = session(cluster("1x2gpu"), job("sharing", gpu=1, on="node-0"), job("gpu", gpu=1))
    ssn.open_plugin(plugin("gpu-placement"))
    assert task_of(ssn, "sharing-0").devices == (0,)
    scores = [ssn.gpu_order(task_of(ssn, "gpu-0"), ssn.nodes["node-0"], gpu) for gpu in ("0", "1")]
    assert scores == [1.0, 0.0]


def test_gpu_jobs_are_packed_node_by_node(scenario: Scenario) -> None:
    scenario.cluster("3x4gpu").job("running", gpu=1, on="node-2").job("train", tasks=5, gpu=1)
    scenario.run(plugins=["gang", "gpu-placement"])
    nodes = sorted(scenario.last.binds.values())
    assert nodes == ["node-0", "node-0", "node-2", "node-2", "node-2"]
