"""A PodDisruptionBudget holds in a simulation from beginning to end, whatever its status said at first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest

from pumice.model.api import AnyObject, BudgetSpec, PodDisruptionBudget, decode
from pumice.sim.engine import Rank
from pumice.sim.quotas import desired_healthy
from sim.worlds import job, nodes, simulation, specs

CONF: dict[str, Any] = {
    "actions": "enqueue, allocate, preempt",
    "tiers": [{"plugins": [{"name": "priority"}, {"name": "gang"}]}, {"plugins": [{"name": "predicates"}]}],
}
WEB: dict[str, Any] = {"selector": {"matchLabels": {"app": "web"}}}
OTHER: dict[str, Any] = {"selector": {"matchLabels": {"app": "other"}}}
STATUSES: list[dict[str, int]] = [{}, {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2}]


def budget(spec: dict[str, Any], status: dict[str, int] | None = None) -> PodDisruptionBudget:
    """A budget of the one name that is used here."""
    meta = {"name": "b", "namespace": "default"}
    made = decode("PodDisruptionBudget", {"metadata": meta, "spec": spec, "status": status or {}})
    assert isinstance(made, PodDisruptionBudget)
    return made


def evictions(objects: Sequence[AnyObject], *later: tuple[float, PodDisruptionBudget | None]) -> list[float]:
    """When pods of three that run are evicted for three jobs of higher priority, which come one by one.

    *later*: when which budget is put, or None that it is deleted.
    """
    log = StringIO()
    low, *high = specs(
        [job("low", 0, 200, 3, least=1), *(job(f"high{n}", 10 + 10 * n, 500, priority=1000) for n in range(3))]
    )
    low = replace(low, kinds=tuple(replace(kind, labels={"app": "web"}) for kind in low.kinds))
    run = simulation([*nodes(1, cpu=3), *objects], conf=CONF, log=log, horizon_s=150)
    for time, obj in later:
        if obj is not None:
            run.timeline.at(time, Rank.NODES, run.cluster.put, obj)
        else:
            run.timeline.at(time, Rank.NODES, run.cluster.remove, "PodDisruptionBudget", "default/b")
    run.run([low, *high])
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
@pytest.mark.part(4)
def test_as_many_go_as_a_budget_allows_however_often_it_is_asked(
    spec: dict[str, Any], times: list[float], status: dict[str, int]
) -> None:
    """Whether it was there before the pods, came while they ran, or took the place of another one."""
    wanted, other = budget({**spec, **WEB}, status), budget({"minAvailable": 3, **OTHER})
    assert evictions([wanted]) == times
    assert evictions([], (5, wanted)) == times
    assert evictions([other], (5, wanted)) == times
    assert evictions([wanted], (5, wanted)) == times


def test_a_budget_is_for_the_pods_that_it_selects() -> None:
    assert evictions([budget({"minAvailable": 3, **OTHER})]) == [10, 20, 30]
    assert evictions([], (5, budget({"minAvailable": 3, **OTHER}))) == [10, 20, 30]


def test_a_budget_holds_until_it_is_changed_or_deleted() -> None:
    strict, lenient = budget({"minAvailable": 3, **WEB}), budget({"minAvailable": 2, **WEB})
    assert evictions([strict], (15, lenient)) == [15]
    assert evictions([strict], (25, None)) == [25, 25, 30]


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
