"""resource-affinity: prefers, or demands, the nodes of a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pumice import Session, Unfit
from pumice.testing import Scenario, job, node, session, task_of

WANTS_FAST = {"volcano.sh/preferred-node-group": "fast"}


def world() -> Session:
    return session(
        node("fast", labels={"volcano.sh/node-group": "fast"}),
        node("slow", labels={"volcano.sh/node-group": "slow"}),
        node("plain"),
        job("wants", annotations=WANTS_FAST),
        job("free"),
    )


def test_a_match_scores_ten_times_the_weight_and_anything_else_nothing(plugin: Callable[..., Any]) -> None:
    ssn = world()
    ssn.open_plugin(plugin("resource-affinity", {"prefer-weight": "7"}))
    wants, free = task_of(ssn, "wants-0"), task_of(ssn, "free-0")
    assert ssn.batch_node_order(wants, list(ssn.nodes.values())) == {"fast": 70.0, "slow": 0.0, "plain": 0.0}
    assert ssn.node_order(free, ssn.nodes["fast"]) == 0.0


def test_without_require_match_everything_fits(plugin: Callable[..., Any]) -> None:
    ssn = world()
    ssn.open_plugin(plugin("resource-affinity"))
    for node_ in ssn.nodes.values():
        ssn.predicate(task_of(ssn, "wants-0"), node_)


@pytest.mark.parametrize("require", ["true", True])
def test_with_require_match_a_mismatch_is_unfit(plugin: Callable[..., Any], require: object) -> None:
    ssn = world()
    ssn.open_plugin(plugin("resource-affinity", {"require-match": require}))
    ssn.predicate(task_of(ssn, "wants-0"), ssn.nodes["fast"])
    for name in ("slow", "plain"):
        with pytest.raises(Unfit, match="node is not in group fast"):
            ssn.predicate(task_of(ssn, "wants-0"), ssn.nodes[name])
        ssn.predicate(task_of(ssn, "free-0"), ssn.nodes[name])


def test_jobs_go_to_their_group_and_wait_for_it_when_they_must(scenario: Scenario) -> None:
    scenario.node("a", cpu=2).node("b", cpu=2, labels={"volcano.sh/node-group": "fast"})
    scenario.job("wants", tasks=2, annotations=WANTS_FAST)
    scenario.run(plugins=["gang", ("resource-affinity", {"require-match": "true"})])
    scenario.assert_bound("wants", to="b")
    scenario.job("more", annotations=WANTS_FAST).run()
    scenario.assert_pending("more", because="node is not in group fast")
    scenario.run(plugins=["gang", "resource-affinity"])
    scenario.assert_bound("more", to="a")
