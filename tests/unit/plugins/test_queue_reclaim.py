"""Reclaim with the queue plugins, to the end: who gives back, who gets it, and that it then stays so."""

from __future__ import annotations

from typing import Any

import pytest
from queue_worlds import queue

from pumice.testing import Scenario
from pumice.testing.builders import job, node

ACTIONS = ["enqueue", "allocate", "backfill", "reclaim"]
TREE: dict[str, Any] = {"name": "capacity", "enableHierarchy": True, "arguments": {"ancestorReclaimLevel": 1}}


def _held(scenario: Scenario, name: str) -> float:
    return float(scenario.state.queues[name].allocated["cpu"])


@pytest.mark.parametrize("plugin", ["capacity", "proportion", TREE])
def test_a_queue_gets_back_what_it_deserves_and_then_nothing_moves(plugin: Any) -> None:
    half = {"cpu": 4}
    queues = [queue(name, deserved=half) for name in ("a", "b")]
    scenario = Scenario(queue("root"), *queues, node("n", cpu=8, pods=8), recreate=True)
    for n in range(8):
        scenario.add(job(f"x{n}", on="n", queue="a"))
    for n in range(6):
        scenario.add(job(f"y{n}", queue="b"))
    scenario.run(8, actions=ACTIONS, plugins=[["priority", "conformance"], ["gang", plugin]])
    assert (_held(scenario, "a"), _held(scenario, "b")) == (4, 4)
    scenario.stays_settled()
    scenario.assert_invariants()


def test_a_queue_that_is_not_reclaimable_keeps_what_it_holds() -> None:
    scenario = Scenario(queue("a", reclaimable=False), queue("b", deserved={"cpu": 8}), node("n", cpu=8))
    scenario.add(*(job(f"x{n}", on="n", queue="a") for n in range(8)), job("y", queue="b"))
    scenario.run(4, actions=ACTIONS, plugins=[["priority", "conformance"], ["gang", "capacity"]])
    scenario.assert_evicted()
    scenario.assert_pending("y")


def test_room_that_is_held_counts_in_the_queues_above_for_everybody_below_them() -> None:
    """The victims come back, their queue comes first in order, and what it shares with the other above is full."""
    queues = [
        *(queue("root"), queue("top", parent="root", capability={"cpu": 4}), queue("middle", parent="top")),
        *(queue("a", parent="middle", deserved={"cpu": 2}), queue("b", parent="top", deserved={"cpu": 2})),
    ]
    scenario = Scenario(*queues, node("n", cpu=8), recreate=True)
    scenario.add(*(job(f"x{n}", on="n", queue="b") for n in range(4)), job("y", tasks=2, queue="a"))
    scenario.run(3, actions=ACTIONS, plugins=[["priority", "conformance"], ["gang", TREE]])
    assert (_held(scenario, "a"), _held(scenario, "b")) == (2, 2)
    scenario.stays_settled()
    scenario.assert_invariants()
