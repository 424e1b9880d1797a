"""namespace-allocation-tracker: handlers see every placement and its undoing; the metric comes at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pumice.testing import Scenario, job, node, session, task_of

METRIC = "namespace_allocated_pods"


def test_placements_are_counted_both_ways(plugin: Callable[..., Any]) -> None:
    ssn = session(node("n1"), job("a", tasks=2, namespace="red"))
    tracker = plugin("namespace-allocation-tracker")
    ssn.open_plugin(tracker)
    statement = ssn.statement()
    for name in ("red/a-0", "red/a-1"):
        assert statement.allocate(task_of(ssn, name), ssn.nodes["n1"]) == ""
    assert tracker.pods == {"red": 2}
    statement.rollback(1)
    assert tracker.pods == {"red": 1}
    statement.discard()
    assert tracker.pods == {"red": 0}


def test_the_counts_are_published_when_the_session_closes(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4)
    scenario.job("a", tasks=3, namespace="red").job("b", namespace="blue").job("too-big", tasks=9)
    cycle = scenario.run(plugins=["gang", "namespace-allocation-tracker"])
    assert cycle.gauge(METRIC, namespace="red") == 3
    assert cycle.gauge(METRIC, namespace="blue") == 1
    assert cycle.gauge(METRIC, namespace="default") in (None, 0)
