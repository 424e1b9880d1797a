"""Jobs do not take turns: whatever plugins let go, a round of evictions is noticed and damped."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from pumice import Plugin
from pumice.config import load
from pumice.framework.registry import default_registry
from pumice.framework.session.rounds import HOLD, Turn
from pumice.model.codes import ReasonCode
from pumice.model.intents import Note
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.task import Task
from pumice.saved.files import dump, parse
from pumice.saved.redact import redacted
from pumice.scheduler.assembly import catalogue_of
from pumice.scheduler.recording import record, restored
from pumice.testing.builders import queue
from pumice.testing.scenario import Scenario


class Anybody(Plugin):
    """Lets everybody be evicted for everybody: the worst that a policy can do."""

    name = "anybody"

    def preemptable(self, evictor: Task, evictees: Sequence[Task]) -> list[Task]:
        return list(evictees)

    def reclaimable(self, evictor: Task, evictees: Sequence[Task]) -> list[Task]:
        return list(evictees)

    def unified_evictable(self, context: Any, evictees: Sequence[Task]) -> list[Task]:
        return list(evictees)

    def job_starving(self, job: Job) -> bool:
        return job.ready_count < job.min_available


class Prefers(Plugin):
    """The first node before the others."""

    name = "prefers"

    def node_order(self, task: Task, node: Node) -> float:
        return 100.0 if node.name == "n0" else 0.0


ACTIONS = ("preempt", "reclaim", "gangpreempt", "gangreclaim")
CONFS: dict[str, list[list[Any]]] = {
    "anybody": [[Anybody, "predicates"]],
    "anybody, one order": [["priority", Anybody, "predicates"]],
    "drf": [["drf", "predicates"], ["gang"]],
    "gang": [["priority", "gang", "predicates"]],
}


def crowd(jobs: int, queues: int) -> Scenario:
    """A node for one of several equal gangs; evicted pods come back."""
    names = [f"q{n}" for n in range(queues)]
    scenario = Scenario(*map(queue, names), recreate=True).node("n0", cpu=2)
    for n in range(jobs):
        scenario.job(f"j{n}", tasks=2, min_available=2, cpu=1, queue=names[n % queues])
    return scenario


def evictions(scenario: Scenario, cycles: int, every: float, **conf: Any) -> list[int]:
    """How many pods each cycle evicts."""
    found = []
    for _ in range(cycles):
        found.append(len(scenario.run(**conf).evictions))
        scenario.advance(every)
    return found


@pytest.mark.parametrize("jobs", [3, 2, 5])
@pytest.mark.parametrize("conf", CONFS)
@pytest.mark.parametrize("action", [*ACTIONS, "preempt, reclaim", "gangreclaim, gangpreempt, reclaim, preempt"])
@pytest.mark.part(8)
def test_no_round_of_evictions_goes_on(action: str, conf: str, jobs: int) -> None:
    """Every job loses its place to each other one once at most while the time of the first eviction is not over."""
    asked: dict[str, Any] = {"actions": ["enqueue", "allocate", *action.split(", ")], "plugins": CONFS[conf]}
    enough = 2 * jobs * jobs
    found = evictions(crowd(jobs, 2 if "reclaim" in action else 1), enough + 10, 1.0, **asked)
    assert not any(found[enough:])
    assert sum(found) <= jobs * (jobs - 1)


@pytest.mark.slow
def test_rounds_become_rare_as_time_goes_by() -> None:
    """Two jobs may change places when their time is over, and each time only after a longer while."""
    scenario = crowd(2, 1)
    asked: dict[str, Any] = {"actions": ["enqueue", "allocate", "preempt"], "plugins": CONFS["anybody"]}
    found = evictions(scenario, 200, HOLD / 10, **asked)
    at = [n for n, count in enumerate(found) if count]
    waits = [later - sooner for sooner, later in pairwise(at)]
    assert len(at) >= 4
    assert waits == sorted(waits)
    assert waits[0] >= 10
    assert waits[2] >= 40


def test_who_is_spared_and_what_closes_a_round_are_told_once_and_counted() -> None:
    scenario = crowd(2, 1)
    asked: dict[str, Any] = {"actions": ["enqueue", "allocate", "preempt"], "plugins": CONFS["anybody"]}
    told: list[Note] = []
    counted: dict[str, float] = {}
    for _ in range(30):
        report = scenario.run(**asked).report
        told += [i for i in report.intents if isinstance(i, Note) and i.reason is ReasonCode.EVICTED_IN_TURN]
        for (name, labels), value in report.counters.items():
            if name == "pumice_eviction_rounds_total":
                counted[labels[0][1]] = counted.get(labels[0][1], 0) + value
        scenario.advance(HOLD / 10)
    assert [note.message.partition(";")[0].partition(":")[0] for note in told] == [
        "was evicted for default/j1",
        "evicted for default/j0, that one for default/j1",
        "was evicted for default/j0",
    ]
    assert [(note.kind, note.key) for note in told] == [
        ("PodGroup", "default/j0"),
        ("PodGroup", "default/j1"),
        ("PodGroup", "default/j1"),
    ]
    assert counted == {"spared": 2, "closed": 1}


def test_a_job_that_lost_its_place_to_one_still_evicts_others() -> None:
    scenario = Scenario(recreate=True).node("n0", cpu=2).node("n1", cpu=2)
    for name, priority, on in (("low", 1, "n1"), ("high", 9, "n0"), ("top", 10, "")):
        scenario.job(name, tasks=2, min_available=2, cpu=1, on=on, priority=priority)
    gang = {"name": "gang", "enablePreemptable": False}
    scenario.run(8, actions=["enqueue", "allocate", "preempt"], plugins=[["priority", gang, Prefers]])
    places = {name: scenario.task(f"{name}-0").node_name for name in ("top", "high", "low")}
    assert places == {"top": "n0", "high": "n1", "low": ""}


def test_who_was_evicted_for_whom_is_part_of_a_saved_cycle_and_its_names_are_not_told() -> None:
    """A replay spares the same; a redacted one too, and nobody reads in it who that was."""
    scenario = Scenario().node("n0", cpu=2)
    for name, priority, on in (("zebra", 1, ""), ("tiger", 9, "n0")):
        scenario.job(name, tasks=2, min_available=2, cpu=1, priority=priority, on=on)
    scenario.runtime.turns = {"default/zebra": {"default/tiger": Turn(0.0, rounds=2)}}
    conf = load("actions: allocate, preempt\ntiers: [{plugins: [{name: gang}]}]", catalogue_of(default_registry())).conf
    saved = record(scenario.state, conf, scenario.runtime)
    for file, jobs in (
        (saved, ("default/zebra", "default/tiger")),
        (redacted(saved), ("default/job-2", "default/job-1")),
    ):
        found = restored(parse(dump(file)), default_registry()).runtime.turns
        assert found == {jobs[0]: {jobs[1]: Turn(0.0, rounds=2)}}
    assert b"zebra" not in msgspec.json.encode(redacted(saved).turns)
