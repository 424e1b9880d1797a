"""Where nobody may be evicted for a job that fits nowhere, no node is looked at again for it."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.framework.evicting.gang_eviction import GangEviction
from pumice.framework.evicting.possible import PossibleVictims
from pumice.testing import Scenario

PLUGINS = [["priority", "gang", "conformance"], ["drf", "predicates", "nodeorder"]]


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The waiting tasks for which nodes were looked at."""
    found: list[str] = []
    somewhere = PossibleVictims._somewhere

    def watched(self: PossibleVictims, task: Any, from_queue: Any) -> bool:
        found.append(task.name)
        return somewhere(self, task, from_queue)

    monkeypatch.setattr(PossibleVictims, "_somewhere", watched)
    return found


@pytest.mark.parametrize(("action", "priority", "evicted"), [("preempt", 5, 0), ("preempt", 20, 1), ("reclaim", 20, 0)])
def test_nodes_are_looked_at_where_somebody_may_go(
    scenario: Scenario, looked: list[str], action: str, priority: int, evicted: int
) -> None:
    scenario.node("n", cpu=8)
    scenario.job("runs", cpu=6, on="n", priority=10)
    scenario.job("waits", cpu=4, priority=priority, phase="Inqueue")
    result = scenario.run(actions=["allocate", action], plugins=PLUGINS)
    assert len(result.evictions) == evicted
    assert set(looked) == ({"waits-0"} if evicted else set())


@pytest.mark.parametrize(("asks", "priority", "served"), [(3, 5, True), (5, 5, False), (5, 20, True)])
def test_a_gang_is_served_where_somebody_may_go_or_there_is_room(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, asks: int, priority: int, served: bool
) -> None:
    """Four of the node's cpu are free, and the queue takes no more."""
    found: list[str] = []
    serve = GangEviction.serve

    def watched(self: GangEviction, queue: Any, job: Any, may_evict: Any = None) -> bool:
        found.append(job.name)
        return serve(self, queue, job, may_evict)

    monkeypatch.setattr(GangEviction, "serve", watched)
    scenario.queue("default", capability={"cpu": 8})
    scenario.node("n", cpu=12)
    scenario.job("runs", cpu=8, on="n", priority=10)
    scenario.job("waits", cpu=asks, priority=priority, phase="Inqueue")
    scenario.run(actions=["allocate", "gangpreempt"], plugins=[*PLUGINS, ["capacity"]])
    assert found == (["waits"] if served else [])
