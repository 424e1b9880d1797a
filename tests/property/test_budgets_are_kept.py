"""No cycle evicts more pods of a disruption budget than it allows, whatever the actions and plugins."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from pumice.model.api import decode
from pumice.testing import Scenario

pytestmark = pytest.mark.law

ACTIONS = ("allocate, preempt", "allocate, reclaim", "reclaim, allocate, preempt", "allocate, gangpreempt, gangreclaim")
TIERS = (
    [["priority", "gang", "conformance"], ["predicates", "proportion"]],
    [["priority", "gang"], ["capacity"]],
    [["priority", "gang", "pdb"]],
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Scenario, dict[str, int]]:
    """Full nodes with pods under budgets, jobs that want room, and what each budget allows."""
    scenario = Scenario().queue("q0").queue("q1", weight=draw(st.integers(1, 3)))
    nodes = [f"n{i}" for i in range(draw(st.integers(1, 3)))]
    for name in nodes:
        scenario.node(name, cpu=4)
    for n in range(draw(st.integers(1, 4))):
        where = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=3))
        app = draw(st.sampled_from(["a", "b", "c"]))
        minimum = draw(st.integers(0, 1))
        scenario.job(
            f"low{n}",
            queue="q0",
            tasks=len(where),
            min_available=minimum,
            on=where,
            priority=1,
            task_labels={"app": app},
        )
    for n in range(draw(st.integers(1, 3))):
        tasks, queue = draw(st.integers(1, 3)), draw(st.sampled_from(["q0", "q1"]))
        scenario.job(f"high{n}", queue=queue, tasks=tasks, cpu=draw(st.integers(1, 3)), priority=5)
    allowed = {app: draw(st.integers(0, 2)) for app in draw(st.sets(st.sampled_from(["a", "b"]), min_size=1))}
    for app, count in allowed.items():
        scenario.add(
            decode(
                "PodDisruptionBudget",
                {
                    "metadata": {"name": app, "namespace": "default"},
                    "spec": {"selector": {"matchLabels": {"app": app}}},
                    "status": {"disruptionsAllowed": count},
                },
            )
        )
    return scenario, allowed


@settings(max_examples=examples(150), deadline=None)
@given(clusters(), st.sampled_from(ACTIONS), st.sampled_from(TIERS))
def test_no_more_is_evicted_than_budgets_allow(
    made: tuple[Scenario, dict[str, int]], actions: str, tiers: list[list[str]]
) -> None:
    scenario, allowed = made
    labels = {key: dict(task.labels) for key, task in scenario.state.task_by_key.items()}
    cycle = scenario.run(actions=actions.split(", "), plugins=tiers)
    for app, count in allowed.items():
        assert sum(labels[pod].get("app") == app for pod in cycle.evictions) <= count
