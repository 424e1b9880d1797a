"""The tree of hyper-nodes."""

from __future__ import annotations

from pumice.engine.hypernodes import TOP, HyperNodeTree
from pumice.model.api import (
    ExactMatch,
    HyperNode,
    HyperNodeMember,
    HyperNodeSpec,
    LabelSelector,
    MemberSelector,
    Metadata,
    NetworkTopology,
    RegexMatch,
)
from pumice.testing.builders import job, node
from pumice.testing.world import session


def member(name: str, kind: str = "Node") -> HyperNodeMember:
    return HyperNodeMember(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=name)))


def hyper(name: str, tier: int, *members: HyperNodeMember, tier_name: str = "") -> HyperNode:
    return HyperNode(metadata=Metadata(name=name), spec=HyperNodeSpec(tier=tier, tier_name=tier_name, members=members))


RACKS = (
    hyper("rack0", 1, member("n0"), member("n1"), tier_name="rack"),
    hyper("rack1", 1, member("n2"), tier_name="rack"),
    hyper("spine", 2, member("rack0", "HyperNode"), member("rack1", "HyperNode"), tier_name="spine"),
)


def tree(*objects: HyperNode) -> HyperNodeTree:
    ssn = session(*(node(f"n{n}", labels={"even": str(n % 2 == 0)}) for n in range(4)), *objects)
    return ssn.hyper_nodes


def test_a_virtual_hyper_node_above_all_others_holds_every_node() -> None:
    made = tree(*RACKS)
    assert made.top.name == TOP
    assert made.top.tier == 3
    assert sorted(made.top.nodes) == ["n0", "n1", "n2", "n3"]
    assert made.top.children == ["spine"]


def test_without_hyper_nodes_the_top_has_tier_one() -> None:
    assert tree().top.tier == 1


def test_a_hyper_node_holds_the_nodes_of_those_below_it() -> None:
    assert sorted(tree(*RACKS).by_name["spine"].nodes) == ["n0", "n1", "n2"]


def test_members_can_be_given_by_pattern_and_by_label() -> None:
    pattern = HyperNodeMember(selector=MemberSelector(regex_match=RegexMatch(pattern="^n[01]$")))
    label = HyperNodeMember(selector=MemberSelector(label_match=LabelSelector(match_labels={"even": "True"})))
    made = tree(hyper("some", 1, pattern), hyper("even", 1, label))
    assert sorted(made.by_name["some"].nodes) == ["n0", "n1"]
    assert sorted(made.by_name["even"].nodes) == ["n0", "n2"]


def test_the_lowest_common_hyper_node_is_found() -> None:
    made = tree(*RACKS)
    assert made.lca("rack0", "rack1") == "spine"
    assert made.lca("rack0", "rack0") == "rack0"
    assert made.lca("rack0", "spine") == "spine"
    assert made.lca("", "rack0") == "rack0"
    assert made.lca("rack0", made.lowest("n3")) == TOP


def test_a_node_belongs_to_its_lowest_hyper_node() -> None:
    made = tree(*RACKS)
    assert (made.lowest("n0"), made.lowest("n2"), made.lowest("n3")) == ("rack0", "rack1", TOP)


def test_where_a_job_is_follows_from_its_placed_tasks() -> None:
    nodes = [node(f"n{n}") for n in range(4)]
    ssn = session(*nodes, *RACKS, job("near", tasks=2, on=["n0", "n1"]), job("far", tasks=3, on=["n0", "n2"]))
    made = ssn.hyper_nodes
    assert made.holding(ssn.jobs["default/near"].tasks.values()) == "rack0"
    assert made.holding(ssn.jobs["default/far"].tasks.values()) == "spine"


def test_limits_are_given_by_number_or_name_and_soft_means_anywhere() -> None:
    made = tree(*RACKS)
    assert made.limit(None) is None
    assert made.limit(NetworkTopology(mode="hard", highest_tier_allowed=2)) == 2
    assert made.limit(NetworkTopology(mode="hard", highest_tier_name="rack")) == 1
    assert made.limit(NetworkTopology(mode="hard", highest_tier_name="moon")) is None
    assert made.limit(NetworkTopology(mode="soft")) == 3
    assert made.limit(NetworkTopology(mode="soft"), 2) == 2


def test_hyper_nodes_that_are_members_of_each_other_are_a_problem_that_names_them() -> None:
    made = tree(hyper("a", 1, member("b", "HyperNode")), hyper("b", 2, member("a", "HyperNode")))
    assert made.problem == "HyperNodes a, b: are members of each other"


def test_two_parents_are_a_problem_that_names_all_three() -> None:
    made = tree(*RACKS, hyper("other", 2, member("rack0", "HyperNode")))
    assert made.problem == "HyperNode 'rack0': is a member of both 'other' and 'spine'"


def test_a_pattern_that_cannot_be_read_is_a_problem() -> None:
    made = tree(hyper("bad", 1, HyperNodeMember(selector=MemberSelector(regex_match=RegexMatch(pattern="(")))))
    assert "HyperNode 'bad': member pattern '('" in made.problem


def test_the_tree_is_made_anew_only_when_nodes_or_hyper_nodes_change() -> None:
    ssn = session(node("n0"), *RACKS)
    assert ssn.hyper_nodes is ssn.hyper_nodes
