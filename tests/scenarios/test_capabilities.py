"""A queue never holds more than its capability, whatever plugins and actions there are."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.model.resources import CPU
from pumice.testing.builders import queue
from pumice.testing.scenario import Scenario

TIERS: dict[str, list[list[Any]]] = {
    "nobody shares": [["priority", "gang", "predicates"]],
    "drf": [["priority", "drf", "gang", "predicates"]],
    "nothing": [["predicates"]],
    "proportion": [["priority", "gang"], ["predicates", "proportion"]],
    "proportion, not asked": [
        ["priority", "gang"],
        ["predicates", {"name": "proportion", "enabledAllocatable": False}],
    ],
    "capacity": [["priority", "gang"], ["predicates", "capacity"]],
}
ACTIONS = ("allocate", "allocate, preempt", "allocate, reclaim", "allocate, gangpreempt, gangreclaim", "easybackfill")


@pytest.mark.parametrize("tiers", TIERS)
@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.part(3)
def test_a_queue_holds_no_more_than_its_capability(actions: str, tiers: str) -> None:
    """Six jobs ask for twelve CPUs of a queue that may hold five, also while somebody of it is leaving."""
    scenario = Scenario(queue("q", capability={"cpu": 5}), queue("other"), recreate=True).node("n0", cpu=32)
    for n in range(6):
        scenario.job(f"j{n}", tasks=2, min_available=1 + n % 2, cpu=1, queue="q", priority=n)
    conf: dict[str, Any] = {"actions": ["enqueue", *actions.split(", "), "backfill"], "plugins": TIERS[tiers]}
    for cycle in range(8):
        scenario.run(**conf)
        assert scenario.state.queues["q"].allocated.amounts.get(CPU, 0) <= 5000
        if cycle == 3:
            scenario.finish("j5-0") if scenario.task("j5-0").node_name else scenario.advance(1)
    assert scenario.state.queues["q"].allocated.amounts[CPU] >= 4000


@pytest.mark.parametrize("tiers", ["nobody shares", "nothing"])
def test_queues_below_count_for_the_one_above(tiers: str) -> None:
    scenario = Scenario(queue("top", capability={"cpu": 3}), queue("a", parent="top"), queue("b", parent="top"))
    scenario.node("n0", cpu=32)
    for n in range(4):
        scenario.job(f"a{n}", cpu=1, queue="a").job(f"b{n}", cpu=1, queue="b")
    scenario.run(3, actions=["allocate", "backfill"], plugins=TIERS[tiers])
    held = [scenario.state.queues[name].allocated.amounts.get(CPU, 0) for name in "ab"]
    assert sum(held) == 3000


def test_who_is_kept_back_by_a_capability_is_told_so() -> None:
    scenario = Scenario(queue("q", capability={"cpu": 2})).node("n0", cpu=32)
    scenario.job("first", cpu=2, queue="q").job("second", cpu=2, queue="q")
    report = scenario.run(actions=["allocate"], plugins=TIERS["nobody shares"]).report
    refusal = report.refusals["default/second"]
    assert refusal.stage == "queue"
    assert refusal.told.startswith("queue resource quota insufficient: insufficient cpu")
    assert "its capability" in refusal.told


def test_a_capability_that_comes_later_holds_from_then_on() -> None:
    scenario = Scenario(queue("q")).node("n0", cpu=32).job("first", cpu=2, queue="q")
    conf: dict[str, Any] = {"actions": ["allocate"], "plugins": TIERS["nobody shares"]}
    scenario.run(2, **conf)
    scenario.add(queue("q", capability={"cpu": 3})).job("second", cpu=2, queue="q").run(2, **conf)
    assert not scenario.task("second-0").node_name
    scenario.add(queue("q")).run(1, **conf)
    assert scenario.task("second-0").node_name == "n0"
