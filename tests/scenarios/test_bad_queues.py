"""Queues and PodGroups that make no sense: each says what is wrong with it, and the rest of the cluster goes on."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import force_setattr

from pumice.config import InvalidConf, load
from pumice.config.lint import lint
from pumice.framework.registry import default_registry
from pumice.model.api import Guarantee, PodGroup, QueueObject, decode
from pumice.model.intents import Note, StatusUpdate
from pumice.model.queue import MOST_WEIGHT
from pumice.scheduler.assembly import catalogue_of
from pumice.testing import Cycle, Scenario, queue

TREE: list[list[Any]] = [["priority", "gang"], [{"name": "capacity", "enableHierarchy": True}, "predicates"]]
FLAT: list[list[Any]] = [["priority", "gang"], ["capacity", "predicates"]]
PROPORTION: list[list[Any]] = [["priority", "gang"], ["proportion", "predicates"]]
HDRF: list[list[Any]] = [["priority", "gang"], [{"name": "drf", "enableHierarchy": True}, "predicates"]]


@pytest.fixture
def cluster(scenario: Scenario) -> Scenario:
    """A node, the queues root and default, and a job that nothing is wrong with."""
    return scenario.add(queue("root"), queue("default")).node("n1", cpu=8).job("fine", cpu=1)


def run(cluster: Scenario, plugins: list[list[Any]]) -> Cycle:
    """One cycle; the job that nothing is wrong with is bound, and no plugin failed."""
    cycle = cluster.run(actions=["enqueue", "allocate"], plugins=plugins)
    cluster.assert_bound("fine")
    assert cycle.errors == []
    return cycle


def notes(cycle: Cycle) -> dict[str, str]:
    """What is told on queues."""
    return {i.key: i.message for i in cycle.updates if isinstance(i, Note) and i.kind == "Queue"}


def condition(cluster: Scenario, job: str) -> tuple[str, str]:
    """(reason, message) of the condition that says why a job waits, as its PodGroup shows it."""
    (group,) = (o for o in cluster.objects if isinstance(o, PodGroup) and o.metadata.name == job)
    (found,) = (c for c in group.status.conditions or () if c.type == "Unschedulable")
    return found.reason, found.message


def guaranteed(name: str, amount: int, **options: Any) -> QueueObject:
    made = queue(name, **options)
    force_setattr(made.spec, "guarantee", Guarantee(resource={"cpu": amount}))
    return made


def test_queues_whose_parents_form_a_cycle_take_nothing_and_say_so(cluster: Scenario) -> None:
    cluster.queue("a", parent="b").queue("b", parent="a").queue("c", parent="a").job("stuck", queue="c")
    told = notes(run(cluster, TREE))
    assert told["a"] == "queue a: its line of parents is a cycle: a -> b -> a"
    assert told["b"] == "queue b: its line of parents is a cycle: b -> a -> b"
    cluster.assert_pending("stuck", because="its line of parents is a cycle: c -> a -> b -> a")
    assert "is a cycle" in condition(cluster, "stuck")[1]


def test_a_queue_that_is_its_own_parent_takes_nothing_and_says_so(cluster: Scenario) -> None:
    cluster.queue("self", parent="self").job("stuck", queue="self")
    assert notes(run(cluster, TREE)) == {"self": "queue self: its line of parents is a cycle: self -> self"}
    cluster.assert_pending("stuck", because="is a cycle")


@pytest.mark.parametrize("plugins", [FLAT, PROPORTION, HDRF])
def test_a_cycle_of_parents_has_no_meaning_where_nobody_reads_the_tree(
    cluster: Scenario, plugins: list[list[Any]]
) -> None:
    cluster.queue("a", parent="b").queue("b", parent="a").job("also-fine", queue="a")
    run(cluster, plugins)
    cluster.assert_bound("also-fine")


def test_a_queue_whose_parent_does_not_exist_takes_nothing_until_the_parent_comes(cluster: Scenario) -> None:
    cluster.queue("lost", parent="nowhere").job("stuck", queue="lost")
    assert notes(run(cluster, TREE)) == {"lost": "queue lost: the parent 'nowhere' of queue lost does not exist"}
    cluster.assert_pending("stuck", because="the parent 'nowhere' of queue lost does not exist")
    cluster.queue("nowhere").run()
    cluster.assert_bound("stuck")


def test_a_problem_of_a_queue_is_told_once(cluster: Scenario) -> None:
    cluster.queue("lost", parent="nowhere")
    assert notes(run(cluster, TREE)) != {}
    assert notes(cluster.run()) == {}


@pytest.mark.parametrize("plugins", [TREE, FLAT, PROPORTION])
def test_a_guarantee_above_the_capability_is_told_and_the_queue_works(
    cluster: Scenario, plugins: list[list[Any]]
) -> None:
    cluster.add(guaranteed("odd", 4, capability={"cpu": 2})).job("works", queue="odd", cpu=1)
    told = notes(run(cluster, plugins))
    assert told["odd"].startswith("queue odd: guarantee ")
    assert "must not exceed capability" in told["odd"]
    cluster.assert_bound("works")


@pytest.mark.parametrize("plugins", [TREE, FLAT, PROPORTION])
def test_a_guarantee_above_the_capability_does_not_raise_the_capability(
    cluster: Scenario, plugins: list[list[Any]]
) -> None:
    cluster.add(guaranteed("odd", 4, capability={"cpu": 2})).job("large", queue="odd", tasks=3, cpu=1)
    run(cluster, plugins)
    cluster.assert_pending("large")


@pytest.mark.parametrize("what", ["deserved", "guarantee"])
def test_children_that_sum_above_their_parent_are_told_on_the_parent(cluster: Scenario, what: str) -> None:
    for name, parent in (("top", ""), ("left", "top"), ("right", "top")):
        made = queue(name, parent=parent, deserved={"cpu": 2}) if what == "deserved" else guaranteed(name, 2)
        force_setattr(made.spec, "parent", parent)
        cluster.add(made)
    cluster.job("works", queue="left", cpu=1)
    told = notes(run(cluster, TREE))
    assert f"the queues below it have more {what}" in told["top"]
    cluster.assert_bound("works")


def test_hierarchy_weights_that_are_too_short_are_told_and_count_as_one(cluster: Scenario) -> None:
    short = queue("deep")
    force_setattr(
        short.metadata, "annotations", {"volcano.sh/hierarchy": "root/a/b", "volcano.sh/hierarchy-weights": "1/2"}
    )
    cluster.add(short).job("works", queue="deep")
    told = notes(run(cluster, HDRF))
    assert "must give a weight for each part" in told["deep"]
    assert told["deep"].endswith("got '1/2'; missing ones count as 1")
    cluster.assert_bound("works")


@pytest.mark.parametrize("plugins", [TREE, FLAT, PROPORTION, HDRF])
def test_a_podgroup_in_an_unknown_queue_says_so_until_the_queue_comes(
    cluster: Scenario, plugins: list[list[Any]]
) -> None:
    cluster.job("lost", queue="typo")
    cycle = run(cluster, plugins)
    assert cycle.why("lost").reason == "queue 'typo' does not exist"
    assert condition(cluster, "lost") == ("UnknownQueue", "queue 'typo' does not exist")
    again = cluster.run()
    assert again.why("lost").reason == "queue 'typo' does not exist"
    assert [i for i in again.updates if isinstance(i, StatusUpdate) and i.key == "default/lost"] == []
    cluster.queue("typo").run()
    cluster.assert_bound("lost")


def test_a_podgroup_whose_queue_is_deleted_says_so(cluster: Scenario) -> None:
    cluster.queue("gone").job("left-behind", queue="gone", cpu=100)
    run(cluster, PROPORTION)
    cluster.remove_queue("gone")
    assert cluster.run().why("left-behind").reason == "queue 'gone' does not exist"
    assert condition(cluster, "left-behind")[0] == "UnknownQueue"


def test_a_queue_with_a_quantity_that_is_none_is_told_there_and_on_its_podgroups(cluster: Scenario) -> None:
    cluster.add(queue("odd", capability={"cpu": "lots"})).job("stuck", queue="odd")
    told = notes(run(cluster, PROPORTION))
    assert "quantity 'lots': must be a number" in told["odd"]
    reason, message = condition(cluster, "stuck")
    assert reason == "UnknownQueue"
    assert message.startswith("queue 'odd' cannot be used: ")


@pytest.mark.parametrize("state", ["Closed", "Closing"])
@pytest.mark.parametrize("plugins", [TREE, FLAT, PROPORTION])
def test_a_podgroup_in_a_closed_queue_waits_and_says_so(
    cluster: Scenario, plugins: list[list[Any]], state: str
) -> None:
    shut = queue("shut")
    force_setattr(shut.status, "state", state)
    cluster.add(shut).job("late", queue="shut")
    run(cluster, plugins)
    cluster.assert_pending("late", because=f"queue shut is {state}")
    assert f"queue shut is {state}" in condition(cluster, "late")[1]


def test_a_job_in_a_queue_with_others_below_it_waits_and_says_so(cluster: Scenario) -> None:
    cluster.queue("top").queue("leaf", parent="top").job("high", queue="top").job("low", queue="leaf")
    run(cluster, TREE)
    cluster.assert_pending("high", because="queue top is not a leaf")
    cluster.assert_bound("low")


CONFLICT = """\
actions: allocate
tiers:
- plugins:
  - name: drf
    enableHierarchy: true
{between}  - name: proportion
"""


def test_hierarchical_drf_beside_proportion_is_refused_with_its_place() -> None:
    with pytest.raises(
        InvalidConf, match=r"conf:5:5: .*drf with enableHierarchy cannot stand in one tier with proportion"
    ):
        load(CONFLICT.format(between=""), catalogue_of(default_registry()), source="conf")


def test_hierarchical_drf_in_another_tier_than_proportion_is_found_by_lint() -> None:
    catalogue = catalogue_of(default_registry(), hooks=True)
    found = lint(load(CONFLICT.format(between="- plugins:\n"), catalogue, source="conf").conf, catalogue)
    assert "hierarchy-with-proportion" in {finding.rule for finding in found}


@pytest.mark.parametrize("weight", [2**31, 2**70, -(2**70)])
@pytest.mark.parametrize("kind", ["volcano", "kai"])
def test_a_queue_with_a_weight_beyond_all_measure_is_refused_by_name(cluster: Scenario, kind: str, weight: int) -> None:
    """Beside it the parts of others would be lost in rounding."""
    data: dict[str, dict[str, Any]] = {
        "volcano": {"spec": {"weight": weight}},
        "kai": {"apiVersion": "scheduling.run.ai/v2", "spec": {"resources": {"cpu": {"overQuotaWeight": weight}}}},
    }
    cluster.add(decode("Queue", {"metadata": {"name": "heavy"}, **data[kind]})).job("theirs", queue="heavy", cpu=1)
    run(cluster, PROPORTION)
    (told,) = cluster.state.problems.values()
    assert str(told).startswith("weight of queue heavy: must be at most 2147483647, got ")


def test_beside_the_heaviest_queue_others_have_what_it_leaves(cluster: Scenario) -> None:
    cluster.queue("heavy", weight=MOST_WEIGHT).job("theirs", tasks=3, queue="heavy", cpu=1)
    run(cluster, PROPORTION)
    cluster.assert_bound("theirs")
