"""Why a job waits: the stage that stopped it, the nodes by reason, the nearest miss, what would help."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pumice.config import from_data
from pumice.framework.explaining.explain import Explanation, SoleObjection, Stage, explain
from pumice.framework.registry import default_registry
from pumice.framework.session.session import Session
from pumice.model.api import PodSpec, decode
from pumice.model.limit import Bound, Limit
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.testing import Scenario


def why(
    scenario: Scenario,
    job: str,
    plugins: Sequence[str] = ("gang", "predicates"),
    actions: str = "enqueue, allocate",
) -> Explanation:
    """Run one cycle and explain a job of namespace ``default``."""
    registry = default_registry()
    data = {"actions": actions, "tiers": [{"plugins": [{"name": name} for name in plugins]}]}
    found: list[Explanation] = []

    def inspect(ssn: Session) -> None:
        found.append(explain(ssn, ssn.state.jobs[f"default/{job}"]))

    assembly = assemble(from_data(data, catalogue_of(registry)).conf, registry)
    run_cycle(scenario.state, assembly, scenario.runtime, inspect=inspect)
    return found[0]


def test_a_job_that_has_its_places_is_served(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).job("a", tasks=2, cpu=1)
    found = why(scenario, "a")
    assert (found.stage, found.text, found.unblock) == (Stage.SERVED, "2 of 2 required tasks have a place", [])
    assert (found.position, found.tasks) == (0, {"Binding": 2})


def test_a_job_without_its_queue_was_not_looked_at(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).job("a", tasks=1, queue="nowhere")
    found = why(scenario, "a")
    assert (found.stage, found.code, found.text) == (Stage.ABSENT, "UnknownQueue", "queue 'nowhere' does not exist")
    assert found.unblock == ["create queue 'nowhere'"]


def test_a_queue_whose_name_is_nearly_right_is_recognised(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).queue("platform").job("a", tasks=1, queue="platfrom")
    found = why(scenario, "a")
    assert found.text == "queue 'platfrom' does not exist; did you mean 'platform'?"
    assert found.unblock == ["put it into queue 'platform', or create queue 'platfrom'"]
    written = [c["message"] for i in scenario.run().updates for c in getattr(i, "status", {}).get("conditions", [])]
    assert found.text in written


def test_a_pod_without_its_pod_group_was_not_looked_at(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).pod("p", group="a")
    found = why(scenario, "a")
    assert (found.stage, found.unblock) == (Stage.ABSENT, ["create its PodGroup"])


def test_a_job_that_is_not_let_in_says_who_refused(scenario: Scenario) -> None:
    scenario.node("n1", cpu=2).job("a", tasks=4, cpu=1, min_resources={"cpu": 40})
    found = why(scenario, "a", ["gang", "overcommit"])
    assert (found.stage, found.plugin) == (Stage.ENQUEUE, "overcommit")
    assert "minResources" in found.unblock[0]


@pytest.mark.parametrize(("have", "hint"), [(1, "2 more pods"), (2, "1 more pod,")])
def test_a_job_with_too_few_pods_says_how_many_are_missing(scenario: Scenario, have: int, hint: str) -> None:
    scenario.node("n1", cpu=4).job("a", tasks=have, min_available=3, cpu=1)
    found = why(scenario, "a")
    assert (found.stage, found.plugin) == (Stage.VALID, "gang")
    assert hint in found.unblock[0]


def test_a_queue_at_its_limit_says_what_it_holds_and_what_is_asked(scenario: Scenario) -> None:
    scenario.node("n1", cpu=8).queue("small", capability={"cpu": 2})
    scenario.job("first", tasks=2, cpu=1, queue="small", on="n1").job("a", tasks=1, cpu=1, queue="small")
    found = why(scenario, "a", ["gang", "proportion"])
    assert (found.stage, found.plugin) == (Stage.QUEUE, "proportion")
    assert found.limits == [Limit("queue small", "cpu", holds=2, may_have=2, bound=Bound.CAPABILITY, asks=1)]
    assert found.unblock == ["wait until other work of queue small ends, or raise the capability of queue small"]


def test_the_nearest_miss_is_the_node_that_lacks_least(scenario: Scenario) -> None:
    scenario.node("n1", cpu=2).node("n2", cpu=3).node("n3", cpu=1).job("a", tasks=1, cpu=4)
    found = why(scenario, "a")
    assert found.stage is Stage.NODES
    assert found.nearest is not None
    assert (found.nearest.node, found.nearest.lacks) == ("n2", {"cpu": "1"})
    assert [(r.text, r.nodes, r.eviction_helps) for r in found.reasons] == [("Insufficient cpu", 3, False)]
    assert (found.room_for, found.large_enough) == (0, 0)


def test_of_nodes_that_lack_as_much_of_one_thing_that_is_nearest_which_lacks_nothing_else(scenario: Scenario) -> None:
    """A node that is full and has no GPU at all is not told of beside one that is only full."""
    scenario.node("a1", cpu=4).node("b1", cpu=8, gpu=2)
    scenario.job("here", tasks=4, on="a1").job("there", tasks=8, on="b1").job("late", gpu=1)
    found = why(scenario, "late")
    assert found.nearest is not None
    assert (found.nearest.node, found.nearest.lacks) == ("b1", {"cpu": "1"})


def test_of_nodes_that_lack_as_much_one_that_could_take_it_is_nearest(scenario: Scenario) -> None:
    scenario.node("a1", cpu=8).node("b1", cpu=8, gpu=2)
    scenario.job("there", tasks=8, on="b1").job("late", gpu=1)
    found = why(scenario, "late")
    assert found.nearest is not None
    assert (found.nearest.node, found.nearest.lacks) == ("b1", {"cpu": "1"})


def test_a_gang_that_is_too_large_says_how_much_of_it_would_fit(scenario: Scenario) -> None:
    scenario.node("n1", cpu=5).node("n2", cpu=2).job("a", tasks=4, cpu=2)
    found = why(scenario, "a")
    assert (found.stage, found.room_for, found.wants) == (Stage.NODES, 3, {"cpu": "2"})
    assert found.text == ("3 of 4 pods have a node. a-3 fits on none of 2 nodes: 2 Insufficient cpu")
    assert found.task == "default/a-3"
    assert found.unblock[0] == "1 more cpu on n1, for the task that has no node yet"


def test_eviction_is_suggested_only_where_the_conf_has_no_action_for_it(scenario: Scenario) -> None:
    scenario.node("n1", cpu=2).job("running", tasks=2, cpu=1, on="n1").job("a", tasks=1, cpu=2)
    hint = "evicting could free 1 node; add preempt or reclaim to the conf"
    assert hint in why(scenario, "a").unblock
    assert hint not in why(scenario, "a", actions="enqueue, allocate, preempt").unblock


def test_nodes_that_would_do_but_for_one_objection_are_named(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).node("n2", cpu=4).node("n3", cpu=1)
    scenario.job("a", tasks=1, cpu=2, spec=PodSpec(node_selector={"pool": "gold"}))
    found = why(scenario, "a")
    text = "node(s) didn't match Pod's node affinity/selector"
    assert found.but_for == [SoleObjection(text, "predicates", 2, "n1")]
    assert found.nearest is not None
    assert (found.nearest.node, found.nearest.objection) == ("n1", text)
    assert found.unblock == [f"n1 and 1 other would fit but for this: {text}"]


def test_the_position_is_the_order_in_which_jobs_are_tried(scenario: Scenario) -> None:
    scenario.node("n1", cpu=1)
    for name, priority in (("low", 1), ("high", 9), ("middle", 5)):
        scenario.job(name, tasks=1, cpu=2, priority=priority)
    places = {name: why(scenario, name, ["priority", "gang"]).position for name in ("low", "high", "middle")}
    assert places == {"high": 1, "middle": 2, "low": 3}


def test_a_job_whose_room_is_being_released_is_nearly_ready(scenario: Scenario) -> None:
    scenario.node("n1", cpu=2).job("old", tasks=2, cpu=1, on="n1").job("a", tasks=2, cpu=1)
    scenario.delete("old-0").delete("old-1")
    found = why(scenario, "a")
    assert (found.stage, found.tasks) == (Stage.READY, {"Pipelined": 2})
    assert found.unblock == ["the pods that are being removed from its nodes are gone"]


def test_a_job_that_no_action_looked_at_was_not_tried(scenario: Scenario) -> None:
    scenario.node("n1", cpu=2).job("a", tasks=1, cpu=1)
    assert why(scenario, "a", actions="enqueue").stage is Stage.UNSEEN


def test_a_cluster_without_nodes_has_no_nearest_miss(scenario: Scenario) -> None:
    scenario.job("a", tasks=1, cpu=1)
    found = why(scenario, "a")
    assert found.stage in (Stage.NODES, Stage.READY)
    assert found.nearest is None


def test_explaining_changes_nothing() -> None:
    decided = []
    for asked in (True, False):
        scenario = Scenario()
        scenario.node("n1", cpu=3).job("a", tasks=4, cpu=1).job("b", tasks=1, cpu=1).job("c", tasks=2, cpu=2)
        if asked:
            why(scenario, "a", actions="enqueue")
        decided.append(scenario.run(2, plugins=["gang", "predicates"]).binds)
        scenario.assert_invariants()
    assert decided[0] == decided[1]


def test_a_disruption_budget_that_keeps_victims_in_place_is_named(scenario: Scenario) -> None:
    scenario.node("n1", cpu=2).job("web", tasks=2, min_available=0, cpu=1, on="n1", task_labels={"app": "web"})
    scenario.job("big", cpu=2, priority=5).add(
        decode(
            "PodDisruptionBudget",
            {
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "web"}}},
                "status": {"disruptionsAllowed": 0},
            },
        )
    )
    found = why(scenario, "big", ["priority", "gang"], "allocate, preempt")
    assert found.stage is Stage.NODES
    budget = "disruption budget default/web, which allows no more evictions now"
    assert found.protected == {budget: 2}
    assert f"2 pods could make room but for {budget}" in found.unblock
