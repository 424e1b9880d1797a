"""Objects that break a rule: a clear reason for the one concerned, and the cycle goes on for all others."""

from __future__ import annotations

import pytest

from pumice.model.events import Seen
from pumice.testing import Scenario, pod

PLUGINS = ["gang", "priority"]


def test_a_gang_that_needs_more_tasks_than_it_has_says_so(scenario: Scenario) -> None:
    scenario.node("n1", cpu=8).job("a", tasks=2, min_available=3).job("b")
    cycle = scenario.run(plugins=PLUGINS)
    assert cycle.binds == {"default/b-0": "n1"}
    assert cycle.why("a").reason == "Not enough valid tasks for gang-scheduling, valid: 2, min: 3"
    assert cycle.why("a").plugin == "gang"
    scenario.assert_pending("a", because="Not enough valid tasks")


def test_a_negative_minimum_is_a_problem_of_its_job(scenario: Scenario) -> None:
    scenario.node("n1", cpu=8).job("a", tasks=2, min_available=-1).job("b")
    cycle = scenario.run(plugins=PLUGINS)
    assert cycle.binds == {"default/b-0": "n1"}
    assert cycle.why("a").reason == "PodGroup default/a: minMember must not be negative, got -1"


@pytest.mark.parametrize("amount", ["lots", "1e30", "-2"])
def test_a_pod_with_an_impossible_quantity_is_not_placed_and_says_why(scenario: Scenario, amount: str) -> None:
    scenario.node("n1", cpu=8).job("a", cpu=amount).job("b")
    cycle = scenario.run(plugins=PLUGINS)
    assert cycle.binds == {"default/b-0": "n1"}
    assert "default/a-0" in cycle.why("a").text
    assert "quantity" in cycle.why("a").text or "must not be negative" in cycle.why("a").text


def test_a_gang_does_not_start_without_the_pod_that_cannot_be_read(scenario: Scenario) -> None:
    scenario.node("n1", cpu=8).job("a", tasks=2).pod("a-1", group="a", cpu="lots")
    cycle = scenario.run(plugins=PLUGINS)
    assert cycle.binds == {}
    assert "pod default/a-1: quantity 'lots'" in cycle.why("a").text


def test_a_pod_on_a_node_nobody_knows_waits_for_the_node(scenario: Scenario) -> None:
    scenario.node("n1", cpu=8).job("a").pod("stray", on="nowhere", cpu=4)
    assert scenario.run(plugins=PLUGINS).binds == {"default/a-0": "n1"}
    scenario.node("nowhere", cpu=4).job("b", cpu=4).run()
    scenario.assert_bound("b", to="n1")


def test_a_job_of_a_queue_nobody_knows_is_not_in_the_session(scenario: Scenario) -> None:
    scenario.node("n1", cpu=8).job("a", queue="nowhere").job("b")
    assert scenario.run(plugins=PLUGINS).binds == {"default/b-0": "n1"}
    scenario.assert_pending("a")


def test_a_group_without_pods_is_left_alone(scenario: Scenario) -> None:
    scenario.node("n1").job("a", tasks=0).job("b", tasks=0, min_available=2)
    cycle = scenario.run(plugins=PLUGINS)
    assert cycle.intents == []
    scenario.assert_settled()


def test_a_cluster_without_nodes_says_so(scenario: Scenario) -> None:
    scenario.job("a")
    cycle = scenario.run(plugins=PLUGINS)
    assert cycle.binds == {}
    assert "0/0 nodes are unavailable" in cycle.why("a").text


def test_a_pod_without_a_uid_or_labels_is_a_pod(scenario: Scenario) -> None:
    scenario.node("n1")
    scenario.state.apply(Seen(pod("bare", cpu=0)))
    scenario.run(plugins=PLUGINS)
    assert scenario.task("bare").uid == "default/bare"
