"""nodegroup: where the tasks of a queue may go, what is best, and limits by group."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.model.api import decode
from pumice.plugins.nodegroup import GROUP, LIMITS, Rules
from pumice.testing import Scenario

REQUIRED, PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))


def queue(
    scenario: Scenario,
    name: str = "q",
    *,
    near: dict[str, list[str]] | None = None,
    far: dict[str, list[str]] | None = None,
    limits: str = "",
    parent: str = "",
) -> Scenario:
    """A queue with rules; without any, it has no ``affinity`` at all."""
    spec: dict[str, Any] = {"weight": 1, "parent": parent}
    if near is not None or far is not None:
        spec["affinity"] = {"nodeGroupAffinity": near or {}, "nodeGroupAntiAffinity": far or {}}
    meta = {"name": name, "annotations": {LIMITS: limits} if limits else {}}
    return scenario.add(decode("Queue", {"metadata": meta, "spec": spec, "status": {"state": "Open"}}))


def grouped(scenario: Scenario, **groups: str) -> Scenario:
    """Nodes with room for four tasks each, by group; an empty one is none."""
    for name, group in groups.items():
        scenario.node(name, cpu=4, labels={GROUP: group} if group else {})
    return scenario


def placed(scenario: Scenario, compat: str | None = None, flag: bool = False, **arguments: Any) -> dict[str, str]:
    entry = {"name": "nodegroup", "arguments": arguments, "enableHierarchy": flag}
    conf = {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}, entry]}]}
    return {pod.partition("/")[2]: node for pod, node in scenario.run(conf=conf, compat=compat).binds.items()}


@pytest.mark.parametrize(
    ("rules", "ours", "volcanos"),
    [
        (Rules(), "abc", ""),
        (Rules(required=("a",)), "a", "a"),
        (Rules(preferred=("a",)), "abc", "a"),
        (Rules(required=("a",), preferred=("b",)), "ab", "ab"),
        (Rules(never=("a",)), "bc", ""),
        (Rules(required=("a", "b"), never=("a",)), "b", "b"),
        (Rules(avoided=("a",)), "abc", "a"),
        (Rules(required=("a",), avoided=("b",)), "a", "ab"),
        (Rules(required=("a",), never=("b",), avoided=("b",)), "a", "ab"),
    ],
)
def test_which_groups_rules_admit(rules: Rules, ours: str, volcanos: str) -> None:
    assert "".join(g for g in "abc" if rules.admits(g, as_volcano=False)) == ours
    assert "".join(g for g in "abc" if rules.admits(g, as_volcano=True)) == volcanos


@pytest.mark.parametrize(
    ("rules", "ordered", "scores"),
    [
        (Rules(required=("a",), preferred=("a", "b")), False, [150, 50, 0]),
        (Rules(preferred=("a", "b")), True, [50, 25, 0]),
        (Rules(required=("a",), avoided=("a",)), False, [-1, 0, 0]),
    ],
)
def test_how_good_groups_are(rules: Rules, ordered: bool, scores: list[float]) -> None:
    assert [rules.score(g, ordered=ordered) for g in "abc"] == scores


def test_tasks_go_to_the_best_group_that_is_allowed(scenario: Scenario) -> None:
    grouped(queue(scenario, near={REQUIRED: ["a", "b"], PREFERRED: ["b"]}), n1="a", n2="b", n3="c")
    scenario.job("j", tasks=5, min_available=1, queue="q")
    assert sorted(placed(scenario).values()) == ["n1", "n2", "n2", "n2", "n2"]


@pytest.mark.parametrize(("strict", "where"), [(True, {}), (False, {"j-0": "n2"})])
def test_nodes_of_no_group_are_for_queues_without_rules_unless_strict(
    scenario: Scenario, strict: bool, where: dict[str, str]
) -> None:
    grouped(queue(scenario), n1="a", n2="").job("j", queue="q")
    assert placed(scenario, strict=strict) == where


def test_a_queue_with_rules_never_uses_nodes_of_no_group(scenario: Scenario) -> None:
    grouped(queue(scenario, near={REQUIRED: ["a"]}), n2="").job("j", queue="q")
    assert placed(scenario, strict=False) == {}


@pytest.mark.parametrize(("flag", "where"), [(True, {"j-0": "n2"}), (False, {})])
def test_rules_are_inherited_from_the_nearest_ancestor_with_some(
    scenario: Scenario, flag: bool, where: dict[str, str]
) -> None:
    queue(scenario, "root", near={REQUIRED: ["a"]})
    queue(queue(scenario, "parent", near={REQUIRED: ["b"]}), "q", parent="parent")
    grouped(scenario, n1="a", n2="b").job("j", queue="q")
    assert placed(scenario, flag=flag) == where


def test_a_queue_stays_within_its_limit_in_a_group(scenario: Scenario) -> None:
    """One task runs there already, one is placed in this cycle; the third goes elsewhere, the other queue is free."""
    queue(scenario, near={REQUIRED: ["a", "b"], PREFERRED: ["a"]}, limits='{"a": {"cpu": "2"}}')
    queue(scenario, "free", near={REQUIRED: ["a"]})
    grouped(scenario, n1="a", n2="b").job("old", queue="q", on="n1").job("j", tasks=2, queue="q").job("k", queue="free")
    found = placed(scenario)
    assert sorted(found[pod] for pod in ("j-0", "j-1")) == ["n1", "n2"]
    assert found["k-0"] == "n1"


def test_an_eviction_gives_room_within_the_limit_back(scenario: Scenario) -> None:
    queue(scenario, near={REQUIRED: ["a"]}, limits='{"a": {"cpu": "1"}}')
    grouped(scenario, n1="a").job("old", queue="q", on="n1", min_available=0)
    scenario.delete("old-0").job("j", queue="q")
    assert placed(scenario) == {"j-0": "n1"}


@pytest.mark.parametrize("text", ["nonsense", "[]", '{"a": {"cpu": "much"}}', '{"a": 3}'])
def test_limits_that_cannot_be_read_allow_nothing_and_say_so(scenario: Scenario, text: str) -> None:
    grouped(queue(scenario, near={REQUIRED: ["a"]}, limits=text), n1="a").job("j", queue="q")
    assert placed(scenario) == {}
    scenario.assert_pending("j", because=f"the queue's annotation {LIMITS} cannot be read")


def test_a_changed_queue_counts_in_the_next_cycle(scenario: Scenario) -> None:
    grouped(queue(scenario, near={REQUIRED: ["b"]}), n1="a").job("j", queue="q")
    assert placed(scenario) == {}
    queue(scenario, near={REQUIRED: ["a"]})
    assert scenario.run().binds == {"default/j-0": "n1"}
