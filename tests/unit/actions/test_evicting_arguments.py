"""The arguments of the evicting actions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.config import InvalidConf
from pumice.framework.evicting.preemptor import CandidateNodes
from pumice.testing.builders import node
from pumice.testing.scenario import Scenario


@pytest.mark.parametrize(
    ("width", "nodes", "wanted"),
    [
        (CandidateNodes(10, 1, 100), 5, 1),
        (CandidateNodes(10, 1, 100), 500, 50),
        (CandidateNodes(10, 1, 100), 5000, 100),
        (CandidateNodes(10, 20, 100), 50, 20),
        (CandidateNodes(10, 20, 100), 8, 8),
        (CandidateNodes(100, 50, 100), 4, 4),
    ],
)
def test_the_number_of_candidates_is_a_percentage_within_limits(width: CandidateNodes, nodes: int, wanted: int) -> None:
    assert width.of(nodes) == wanted


@given(st.integers(0, 200), st.integers(0, 50), st.integers(0, 500), st.integers(1, 10_000))
def test_at_least_one_candidate_is_looked_for_and_never_more_than_there_are_nodes(
    percentage: int, least: int, most: int, nodes: int
) -> None:
    assert 1 <= CandidateNodes(percentage, least, most).of(nodes) <= nodes


@pytest.mark.parametrize(
    ("action", "argument", "value", "wants"),
    [
        ("preempt", "minCandidateNodesPercentage", "many", "a whole number"),
        ("preempt", "enableTopologyAwarePreemption", "perhaps", "true or false"),
        ("gangpreempt", "maxDomains", [1], "a whole number"),
        ("gangreclaim", "allowWholeBundle", 7, "true or false"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(action: str, argument: str, value: object, wants: str) -> None:
    scenario = Scenario(node("n0")).job("high", priority=10, cpu=64)
    conf = {
        "actions": f"enqueue, {action}",
        "tiers": [{"plugins": [{"name": "priority"}]}],
        "configurations": [{"name": action, "arguments": {argument: value}}],
    }
    with pytest.raises(InvalidConf) as error:
        scenario.run(conf=conf)
    where = f"scenario: configurations[0].arguments.{argument}"
    assert str(error.value) == f"{where}: action {action}: argument {argument}: must be {wants}, got {value!r}"


@pytest.mark.parametrize("given_number", [0, -3])
def test_a_number_of_domains_below_one_means_the_default(given_number: int) -> None:
    scenario = Scenario(node("n0", cpu=2)).job("low", tasks=2, on="n0", priority=1).job("high", priority=10)
    conf = {
        "actions": "enqueue, gangpreempt",
        "tiers": [{"plugins": [{"name": "priority"}, {"name": "gang"}]}],
        "configurations": [{"name": "gangpreempt", "arguments": {"maxDomains": given_number}}],
    }
    assert len(scenario.run(conf=conf).evictions) == 2
