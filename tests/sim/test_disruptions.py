"""A PodDisruptionBudget holds in a simulation from beginning to end, whatever its status said at first."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest

from pumice.model.api import BudgetSpec, decode
from pumice.sim.disruptions import desired_healthy
from sim.worlds import job, nodes, simulation, specs

CONF: dict[str, Any] = {
    "actions": "enqueue, allocate, preempt",
    "tiers": [{"plugins": [{"name": "priority"}, {"name": "gang"}]}, {"plugins": [{"name": "predicates"}]}],
}
STATUSES: list[dict[str, int]] = [{}, {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2}]


def evictions(spec: dict[str, Any], status: dict[str, int]) -> list[float]:
    """When pods of three that run are evicted for three jobs of higher priority, which come one by one."""
    meta = {"name": "b", "namespace": "default"}
    budget = decode("PodDisruptionBudget", {"metadata": meta, "spec": spec, "status": status})
    log = StringIO()
    low, *high = specs(
        [job("low", 0, 200, 3, least=1), *(job(f"high{n}", 10 + 10 * n, 500, priority=1000) for n in range(3))]
    )
    low = replace(low, kinds=tuple(replace(kind, labels={"app": "web"}) for kind in low.kinds))
    simulation([*nodes(1, cpu=3), budget], conf=CONF, log=log, horizon_s=150).run([low, *high])
    return [float(line.split()[0]) for line in log.getvalue().splitlines() if " evict " in line]


@pytest.mark.parametrize("status", STATUSES, ids=["no status", "a status"])
@pytest.mark.parametrize(
    ("spec", "times"),
    [
        ({"minAvailable": 2}, [10]),
        ({"minAvailable": 3}, []),
        ({"minAvailable": 0}, [10, 20, 30]),
        ({"minAvailable": "66%"}, [10]),
        ({"minAvailable": "67%"}, []),
        ({"maxUnavailable": 1}, [10]),
        ({"maxUnavailable": "50%"}, [10, 20]),
        ({"maxUnavailable": "many"}, []),
    ],
)
def test_as_many_go_as_a_budget_allows_however_often_it_is_asked(
    spec: dict[str, Any], times: list[float], status: dict[str, int]
) -> None:
    assert evictions({**spec, "selector": {"matchLabels": {"app": "web"}}}, status) == times


def test_a_budget_is_for_the_pods_that_it_selects() -> None:
    assert evictions({"minAvailable": 3, "selector": {"matchLabels": {"app": "other"}}}, {}) == [10, 20, 30]


@pytest.mark.parametrize(
    ("spec", "pods", "desired"),
    [
        (BudgetSpec(), 5, 0),
        (BudgetSpec(min_available=7), 5, 7),
        (BudgetSpec(min_available="50%"), 5, 3),
        (BudgetSpec(max_unavailable="50%"), 5, 2),
        (BudgetSpec(max_unavailable=9), 5, 0),
        (BudgetSpec(min_available="9" * 99 + "%"), 5, 5),
        (BudgetSpec(min_available="٣%"), 5, 5),
    ],
)
def test_how_many_pods_must_be_healthy(spec: BudgetSpec, pods: int, desired: int) -> None:
    assert desired_healthy(spec, pods) == desired
