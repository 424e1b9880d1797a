"""Where nobody may be evicted for a job that fits nowhere, no node is looked at again for it."""

from __future__ import annotations

from typing import Any

import pytest

from pumice import Job, Plugin, Session
from pumice.config import from_data
from pumice.framework.evicting.gang_eviction import GangEviction
from pumice.framework.evicting.possible import PossibleVictims
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.api import AnyObject
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState
from pumice.testing import Scenario, job, node, queue
from steps import calls_of

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


EVICTING = "enqueue, allocate, gangpreempt, gangreclaim, preempt, reclaim"
SHARING = ["priority", "gang", "conformance", "drf", "predicates", "proportion", "nodeorder", "binpack"]


def steps_of_a_cycle(jobs: int) -> int:
    """What a cycle takes in which a pod elsewhere came, and so many that differ wait where nobody may be evicted."""
    registry = default_registry()
    conf = {"actions": EVICTING, "tiers": [{"plugins": [{"name": name} for name in SHARING]}]}
    assembly = assemble(from_data(conf, catalogue_of(registry)).conf, registry)
    objects: list[AnyObject] = [queue("a"), queue("aside"), node("own", cpu=2)]
    for n in range(60):
        objects += [node(f"n{n}", cpu=8, gpu=8), *job(f"r{n}", queue="a", cpu=1, gpu=8, on=f"n{n}", phase="Running")]
    for n in range(jobs):
        objects += job(f"w{n}", queue="a", cpu=f"{1000 + n}m", gpu=8, phase="Inqueue")
    objects += job("aside0", queue="aside", cpu="100m", on="own", phase="Running")
    state, runtime, steps = ClusterState(), Runtime(), 0
    state.apply_all(Seen(obj) for obj in objects)
    for n in range(1, 4):
        for obj in job(f"aside{n}", queue="aside", cpu="100m", on="own", phase="Running"):
            state.apply(Seen(obj))
        report, steps = calls_of(lambda: run_cycle(state, assembly, runtime))
        assert not report.evictions
        assert len(report.refusals) == jobs
    return steps


def test_gangs_are_left_out_together_or_not_at_all(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who goes for one of them makes room that another, for whom nobody may go, may take the rest of."""
    could: list[str] = []
    could_help = GangEviction.could_help

    def watched(self: GangEviction, waiting: Any) -> bool:
        could.append(waiting.name)
        return could_help(self, waiting)

    monkeypatch.setattr(GangEviction, "could_help", watched)
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
