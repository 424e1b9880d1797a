"""What came and went leaves nothing: a scheduler that runs for weeks is as large as what is there."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from effort import WHOLE
from pumice.clock import ManualClock
from pumice.config import load
from pumice.engine.views import ViewCache
from pumice.framework.registry import default_registry
from pumice.kube.admission import Admissions, Ungrouped
from pumice.kube.gangs import HalfGangs
from pumice.kube.metrics import CycleMetrics
from pumice.kube.outbox import StaleIntents
from pumice.kube.statuses import PodConditions, QueueStatuses
from pumice.model import resources as dimensions
from pumice.model.api import decode
from pumice.model.events import ClusterEvent, Gone, Seen
from pumice.model.intents import Bind, Intent
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.loop import Loop
from pumice.state.cluster import ClusterState

CONF = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""
ALIVE = 12
"""Jobs that are there at a time."""
MOST = 3.0
"""Blocks of memory that may stay per job; one object of each of its pods that is kept by mistake is more."""


def pod(job: int, number: int, node: str = "") -> dict[str, Any]:
    """A pod that is like no other: everything that may differ does."""
    meta = {
        "name": f"j{job}-w-{number}",
        "namespace": f"team{job % 7}",
        "uid": f"u-{job}-{number}",
        "labels": {"volcano.sh/job-name": f"j{job}", "index": str(number)},
        "annotations": {"scheduling.k8s.io/group-name": f"j{job}", "note": f"{job}"},
    }
    requests = {"cpu": f"{1000 + job % 50}m", "memory": f"{job % 50 + 1}Mi", f"example.com/r{job}": "1"}
    container = {"name": "c", "resources": {"requests": requests if number == 3 else {"cpu": "1"}}}
    spec = {"schedulerName": "pumice", "nodeName": node, "containers": [container], "nodeSelector": {}}
    if number == 2:
        spec["nodeSelector"] = {"only": f"j{job}"}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running" if node else "Pending"}}


class Churn:
    """Jobs come and go, each with pods that run, that fit nowhere, and that ask for what nobody has."""

    def __init__(self, leads: bool) -> None:
        registry = default_registry()
        self.leads, self.made = leads, 0
        self.state = ClusterState(scheduler_names=["pumice"])
        self.clock = ManualClock(1e9)
        self.events: list[ClusterEvent] = []
        self.conf = load(CONF, catalogue_of(registry), "conf").conf
        self.loop = Loop(self, self, assemble(self.conf, registry), self.clock, state=self.state)
        self.loop.runtime.cache = ViewCache(max_bytes=0)  # as few views as can be
        room = {"cpu": "8", "memory": "64Gi", "pods": "110"}
        status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
        for i in range(8):
            self._see("Node", {"metadata": {"name": f"n{i}"}, "status": status})
        self._see("Queue", {"metadata": {"name": "default"}, "spec": {"weight": 1}})
        self.conditions, self.queues, self.admissions = PodConditions(), QueueStatuses(), Admissions()
        self.ungrouped, self.metrics, self.overtaken = Ungrouped(), CycleMetrics(), StaleIntents()
        self.half = HalfGangs(60.0)

    def drain(self) -> list[ClusterEvent]:
        events, self.events = self.events, []
        return events

    def submit(self, intents: Any) -> None:
        pass

    def _see(self, kind: str, data: dict[str, Any]) -> None:
        self.events.append(Seen(decode(kind, data)))

    def step(self) -> None:
        """A job comes, a cycle runs, the oldest job goes."""
        job, self.made = self.made, self.made + 1
        meta = {"name": f"j{job}", "namespace": f"team{job % 7}", "uid": f"g{job}"}
        group = {"metadata": meta, "spec": {"minMember": 2, "queue": "default"}, "status": {"phase": "Inqueue"}}
        self._see("PodGroup", group)
        for number in range(4):
            self._see("Pod", pod(job, number))
        self.clock.move_to(1e9 + job)
        self.loop.take_in()
        if self.leads:
            for intent in self._cycle():
                if isinstance(intent, Bind):
                    _, bound, number_text = intent.uid.split("-")
                    self._see("Pod", pod(int(bound), int(number_text), intent.node))
        else:
            self.state.rest()
        if job >= ALIVE:
            old = job - ALIVE
            self.events += [Gone("Pod", f"team{old % 7}/j{old}-w-{number}") for number in range(4)]
            self.events.append(Gone("PodGroup", f"team{old % 7}/j{old}"))

    def _cycle(self) -> list[Intent]:
        """As the service runs one, with everything that remembers jobs."""
        state = self.state
        self.overtaken.look(state)
        self.half.release(state)
        report = self.loop.decide()
        self.overtaken.handed_over(report.intents)
        self.metrics.cycle(report, state)
        self.conditions.updates(report, state)
        self.queues.updates(state)
        self.admissions.updates(report, state)
        self.ungrouped.notes(state)
        return list(report.intents)


@pytest.fixture(autouse=True)
def names_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names that are made up here are not counted elsewhere."""
    monkeypatch.setattr(dimensions, "_unoffered", set())


@pytest.mark.law
@pytest.mark.parametrize("leads", [True, False], ids=["leader", "standby"])
@pytest.mark.part(9)
def test_jobs_that_came_and_went_leave_nothing(leads: bool) -> None:
    churn = Churn(leads)

    def blocks(jobs: int) -> int:
        for _ in range(jobs):
            churn.step()
        gc.collect()
        return sys.getallocatedblocks()

    jobs = (300 if leads else 1200) // (1 if WHOLE else 2)
    stay = (-blocks(100) + blocks(jobs)) / jobs
    assert stay < MOST, f"{stay:.1f} blocks of memory stay for every job"


def test_names_that_no_node_offers_are_bounded_and_known_when_one_does() -> None:
    state = ClusterState(scheduler_names=["pumice"])

    def see(kind: str, data: dict[str, Any]) -> None:
        state.apply(Seen(decode(kind, data)))

    def node(*names: str) -> dict[str, Any]:
        room = {"cpu": "8", "pods": "110", **dict.fromkeys(names, "4")}
        return {"metadata": {"name": "n1"}, "status": {"allocatable": room, "capacity": room}}

    see("Node", node("example.com/offered"))
    for number in range(dimensions.MOST_UNOFFERED + 300):
        asked = pod(number, 0)
        asked["spec"]["containers"][0]["resources"]["requests"] = {f"example.com/made-up-{number}": "1"}
        see("Pod", asked)
    columns, problems = state.table.width, len(state.problems)
    assert problems == 300
    assert "no node offers it" in state.problems["Pod", f"team{400 % 7}/j400-w-0"]
    group = {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"minResources": {"example.com/late": "1"}}}
    see("PodGroup", group)
    assert ("PodGroup", "ns/g") in state.problems
    ordinary = pod(1000, 0)
    ordinary["spec"]["containers"][0]["resources"]["requests"] = {"example.com/offered": "1"}
    see("Pod", ordinary)
    assert ("Pod", "team6/j1000-w-0") not in state.problems
    see("Node", node("example.com/offered", "example.com/made-up-400", "example.com/late"))
    assert ("Pod", f"team{400 % 7}/j400-w-0") not in state.problems
    assert state.task_by_key[f"team{400 % 7}/j400-w-0"].requests["example.com/made-up-400"] == 1
    assert ("PodGroup", "ns/g") not in state.problems
    assert len(state.problems) == problems - 1
    assert state.table.width <= columns + 16
    for number in range(dimensions.MOST_UNOFFERED):
        state.apply(Gone("Pod", f"team{number % 7}/j{number}-w-0"))
    state.rest()
    state.give_names_back()
    assert len(state.problems) == problems - 1 - dimensions.MOST_UNOFFERED, "those who waited have a name now"
    assert state.table.width <= columns + 16


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "standby"])
@pytest.mark.part(9)
@pytest.mark.slow
def test_names_that_nobody_uses_any_more_are_given_back(leads: bool) -> None:
    churn = Churn(leads)
    most = 0
    for _ in range(dimensions.MOST_UNOFFERED + (20 if leads else 500)):
        churn.step()
        assert not churn.state.problems
        most = max(most, len(dimensions._unoffered))
    assert most <= 3 * ALIVE + 32
    assert churn.state.table.width < 256


@pytest.mark.parametrize("gpus", ["8", "1024", "1025", "1000000", "70000000000000"])
def test_however_many_gpus_a_node_claims_its_devices_take_little_room(gpus: str) -> None:
    state = ClusterState()
    room = {"cpu": "8", "pods": "110", "nvidia.com/gpu": gpus}
    state.apply(Seen(decode("Node", {"metadata": {"name": "n1"}, "status": {"allocatable": room, "capacity": room}})))
    assert state.devices.held.nbytes <= 2**20
    assert (("Node", "n1") in state.problems) == (int(gpus) > 1024)
