"""task-topology: buckets of tasks, the order they give, and nodes that take a bucket as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from pumice import Arguments, Session
from pumice.plugins.task_topology import AFFINITY, ANTI_AFFINITY, TASK_ORDER, BucketPlan, TaskTopology, read
from pumice.testing import Scenario


def team(
    scenario: Scenario, roles: str, *, near: str = "", far: str = "", order: str = "", on: str = "", **more: Any
) -> Scenario:
    """A job whose pods have the roles that the letters stand for; the first ones run *on* a node."""
    notes = {AFFINITY: near, ANTI_AFFINITY: far, TASK_ORDER: order}
    scenario.job("j", tasks=0, min_available=1, annotations={k: v for k, v in notes.items() if v}, phase="Inqueue")
    for n, role in enumerate(roles):
        place = on[n : n + 1]
        scenario.pod(f"j-{role}-{n}", group="j", role=role, on=f"n{place}" if place.strip() else "", **more)
    return scenario


def buckets(scenario: Scenario) -> list[str]:
    """The roles in each bucket of the job."""
    job = scenario.state.jobs["default/j"]
    topology = read(job)
    assert topology is not None
    rows = {name: node.row for name, node in scenario.state.nodes.items()}
    plan = BucketPlan(topology, job.tasks.values(), rows)
    return ["".join(sorted(role * count for role, count in b.roles.items())) for b in plan.buckets]


def placed(scenario: Scenario, *others: str, **arguments: Any) -> dict[str, str]:
    plugins = ["gang", ("task-topology", arguments), *others]
    binds = scenario.run(actions=["allocate"], plugins=plugins).binds
    return {pod.removeprefix("default/j-"): node for pod, node in sorted(binds.items())}


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ({"near": "a,b"}, ["aabb"]),
        ({"near": "a"}, ["aa"]),
        ({"far": "a"}, ["a", "a"]),
        ({"far": "a,b"}, ["aa", "bb"]),
        ({"far": "a", "near": "a,b"}, ["ab", "ab"]),
        ({"near": "a,c", "far": "b"}, ["ab", "abc"]),
        ({"near": "a;b"}, ["aabb"]),
    ],
)
def test_tasks_join_the_bucket_they_want_most(scenario: Scenario, rules: dict[str, str], found: list[str]) -> None:
    roles = "aabbc" if "c" in rules.get("near", "") else "aabb"
    assert sorted(buckets(team(scenario, roles, **rules))) == sorted(found)


def test_equal_buckets_are_filled_evenly(scenario: Scenario) -> None:
    """Two a are apart; each of four b wants to be with an a."""
    assert buckets(team(scenario, "aabbbb", near="a,b", far="a")) == ["abb", "abb"]


def test_tasks_that_run_make_a_bucket_for_each_node(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).node("n2", cpu=4)
    assert buckets(team(scenario, "aabb", near="a,b", on="12")) == ["ab", "ab"]


@pytest.mark.parametrize("rules", [{"near": "a,x"}, {"near": "a,a"}, {"far": "x"}, {"order": "x"}, {}])
def test_a_job_with_rules_that_make_no_sense_has_none(scenario: Scenario, rules: dict[str, str]) -> None:
    team(scenario, "ab", **rules)
    assert read(scenario.state.jobs["default/j"]) is None


def test_a_bucket_goes_to_the_node_that_takes_all_of_it(scenario: Scenario) -> None:
    scenario.node("n1", cpu=2).node("n2", cpu=4).node("n3", cpu=3)
    team(scenario, "abbb", near="a,b")
    assert set(placed(scenario).values()) == {"n2"}


def test_a_bucket_follows_its_tasks_that_run(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).node("n2", cpu=4)
    team(scenario, "abb", near="a,b", on="2")
    assert set(placed(scenario).values()) == {"n2"}


def test_roles_that_are_apart_go_to_different_nodes(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).node("n2", cpu=4)
    team(scenario, "aa", far="a")
    assert sorted(placed(scenario).values()) == ["n1", "n2"]


def test_a_weight_makes_it_stronger_than_others(scenario: Scenario) -> None:
    """binpack alone prefers the node that is nearly full; the bucket needs room for three."""
    scenario.node("n1", cpu=4).node("n2", cpu=8).job("old", tasks=2, on="n1")
    team(scenario, "aaa", near="a")
    assert set(placed(scenario, "binpack", **{"task-topology.weight": 10}).values()) == {"n2"}


def test_the_biggest_bucket_is_placed_first_and_tasks_without_one_last(scenario: Scenario) -> None:
    scenario.node("n1", cpu=3)
    team(scenario, "cabb", near="b", far="a")
    assert set(placed(scenario)) == {"b-2", "b-3", "a-1"}


def test_the_given_order_of_roles_is_kept_within_a_bucket(scenario: Scenario) -> None:
    scenario.node("n1", cpu=1)
    team(scenario, "ab", near="a,b", order="b,a")
    assert set(placed(scenario)) == {"b-1"}


def test_what_was_taken_back_waits_in_its_bucket_again(scenario: Scenario) -> None:
    team(scenario.node("n1", cpu=4), "aa", near="a")
    job = scenario.state.jobs["default/j"]
    topology = read(job)
    assert topology is not None
    plan = BucketPlan(topology, job.tasks.values(), {})
    (bucket,) = plan.buckets
    before = (dict(bucket.waiting), bucket.size)
    task = scenario.task("j-a-0")
    scenario.state.move(task, task.status.ALLOCATED, scenario.state.nodes["n1"])
    plan.place(task, 1)
    assert (len(bucket.waiting), bucket.placed) == (1, {0: 1})
    plan.place(task, -1)
    assert (bucket.waiting, bucket.size, bucket.placed) == (*before, {0: 0})
    assert plan.on_row == {0: {"a": 0}}
    scenario.state.move(task, task.status.PENDING, None)


def scores(ssn: Session, scenario: Scenario, pod: str) -> dict[str, float]:
    """What the plugin gives every node for a task."""
    found: dict[str, float] = ssn.batch_node_order(scenario.task(pod), [ssn.nodes[n] for n in sorted(ssn.nodes)])
    return found


def test_a_node_without_room_for_the_task_has_no_score(scenario: Scenario) -> None:
    team(scenario.node("n1", cpu=1).node("n2", cpu=1), "aa", near="a", on="1")
    ssn = Session(scenario.state)
    ssn.open_plugin(TaskTopology(Arguments({})))
    assert scores(ssn, scenario, "j-a-1") == {"n1": 0.0, "n2": 50.0}


def test_who_is_evicted_does_not_wait_in_its_bucket(scenario: Scenario) -> None:
    team(scenario.node("n1", cpu=2).node("n2", cpu=2), "aa", near="a", on="1")
    ssn = Session(scenario.state)
    ssn.open_plugin(TaskTopology(Arguments({})))
    before = scores(ssn, scenario, "j-a-1")
    statement = ssn.statement()
    statement.evict(scenario.task("j-a-0"), "test")
    assert scores(ssn, scenario, "j-a-1") == before == {"n1": 100.0, "n2": 50.0}
    statement.discard()
    assert scores(ssn, scenario, "j-a-1") == before
