"""If no task may be evicted for a job that fits nowhere, its nodes are not looked at again."""

from __future__ import annotations

from typing import Any

import pytest

from pumice import Job, Plugin, Session
from pumice.framework.evicting.freed_capacity import PlacementBound
from pumice.framework.evicting.gang_preemptor import GangPreemptor
from pumice.testing import Scenario

PLUGINS = [["priority", "gang", "conformance"], ["drf", "predicates", "nodeorder"]]


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pending tasks for whose class the bound asked which nodes the filters allow."""
    found: list[str] = []
    allowed = PlacementBound._allowed

    def watched(self: PlacementBound, number: int, task: Any) -> Any:
        found.append(task.name)
        return allowed(self, number, task)

    monkeypatch.setattr(PlacementBound, "_allowed", watched)
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
    serve = GangPreemptor.serve

    def watched(self: GangPreemptor, queue: Any, job: Any, may_evict: Any = None) -> bool:
        found.append(job.name)
        return serve(self, queue, job, may_evict)

    monkeypatch.setattr(GangPreemptor, "serve", watched)
    scenario.queue("default", capability={"cpu": 8})
    scenario.node("n", cpu=12)
    scenario.job("runs", cpu=8, on="n", priority=10)
    scenario.job("waits", cpu=asks, priority=priority, phase="Inqueue")
    scenario.run(actions=["allocate", "gangpreempt"], plugins=[*PLUGINS, ["capacity"]])
    assert found == (["waits"] if served else [])


def test_gangs_are_left_out_together_or_not_at_all(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who goes for one of them makes room that another, for whom nobody may go, may take the rest of."""
    could: list[str] = []
    may_help = GangPreemptor.may_help

    def watched(self: GangPreemptor, waiting: Any) -> bool:
        could.append(waiting.name)
        return may_help(self, waiting)

    monkeypatch.setattr(GangPreemptor, "may_help", watched)
    scenario.node("n", cpu=8)
    scenario.job("runs", cpu=8, on="n", priority=10)
    scenario.job("high", cpu=4, priority=20, phase="Inqueue")
    scenario.job("low", cpu=4, priority=5, phase="Inqueue")
    result = scenario.run(actions=["gangpreempt"], plugins=PLUGINS)
    assert set(result.pipelined) == {"default/high-0", "default/low-0"}
    assert could[-1] == "low"


def test_one_of_a_queue_is_asked_whether_it_starves_where_nobody_could_be_helped(scenario: Scenario) -> None:
    asked: list[str] = []

    class Watches(Plugin):
        name = "watches"

        def on_session_open(self, ssn: Session) -> None:
            ssn.add_job_starving_fn(self.name, self._starving)

        def _starving(self, job: Job) -> bool:
            asked.append(job.name)
            return True

    scenario.node("n", cpu=8)
    scenario.job("runs", cpu=8, on="n", priority=10)
    for n in range(4):
        scenario.job(f"low{n}", cpu=4, priority=5, phase="Inqueue")
    scenario.run(actions=["gangpreempt"], plugins=[[*PLUGINS[0], Watches], PLUGINS[1]])
    assert len(asked) == 1
