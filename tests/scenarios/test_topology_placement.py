"""Jobs placed by sub-groups and hyper-nodes: a group in one domain, the best domain first, nothing left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import force_setattr

from pumice.engine.hypernodes import TopologyDomain as Domain
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model.api import (
    ExactMatch,
    HyperNode,
    HyperNodeMember,
    HyperNodeSpec,
    MemberSelector,
    Metadata,
    NetworkTopology,
    PodGroup,
    SubGroupPolicy,
)
from pumice.model.job import Job, SubJob
from pumice.model.node import Node
from pumice.testing.builders import job, node, pod
from pumice.testing.scenario import Scenario


class Racks(Plugin):
    """Every rack is tried; the one with the highest name is best."""

    name = "racks"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_hyper_node_gradient_for_job_fn(self.name, self.gradient)
        ssn.add_hyper_node_gradient_for_sub_job_fn(self.name, self.gradient)
        ssn.add_hyper_node_order_fn(self.name, self.order)

    def gradient(self, what: Job | SubJob, within: Domain, purpose: str) -> list[list[str]]:
        if isinstance(what, Job) and what.policies:
            return [[within.name]]
        return [sorted(within.children) or [within.name]]

    def order(self, _: SubJob, groups: Mapping[str, Sequence[Node]]) -> dict[str, float]:
        return {name: float(name[-1]) if name[-1].isdigit() else 0.0 for name in groups}


PLUGINS: list[list[str | type[Plugin]]] = [["priority", "gang"], ["predicates", Racks]]


def rack(name: str, *nodes: str) -> HyperNode:
    members = tuple(HyperNodeMember(selector=MemberSelector(exact_match=ExactMatch(name=n))) for n in nodes)
    return HyperNode(metadata=Metadata(name=name), spec=HyperNodeSpec(tier=1, members=members))


def two_racks(cpu: int = 2) -> Scenario:
    nodes = [node(f"n{n}", cpu=cpu) for n in range(4)]
    return Scenario(rack("r0", "n0", "n1"), rack("r1", "n2", "n3"), *nodes)


def hard(scenario: Scenario, name: str, tasks: int) -> Scenario:
    """A job that must be within one rack."""
    group, *pods = job(name, tasks=tasks, cpu=1)
    assert isinstance(group, PodGroup)
    force_setattr(group.spec, "network_topology", NetworkTopology(mode="hard", highest_tier_allowed=1))
    return scenario.add(group, *pods)


def grouped(scenario: Scenario, *, groups: int, size: int, needed: int) -> Scenario:
    """A job whose pods belong to sub-groups by the label ``part``; each must be placed as a whole."""
    made, *_ = job("parts", tasks=0, min_available=size * needed)
    assert isinstance(made, PodGroup)
    force_setattr(
        made.spec,
        "sub_group_policy",
        (SubGroupPolicy(name="part", sub_group_size=size, min_sub_groups=needed, match_label_keys=("part",)),),
    )
    scenario.add(made)
    for g in range(groups):
        for n in range(size):
            scenario.add(pod(f"parts-{g}-{n}", group="parts", labels={"part": str(g)}))
    return scenario


def test_a_job_is_placed_in_the_best_domain_that_can_take_all_of_it() -> None:
    scenario = hard(two_racks(), "job", 4)
    scenario.run(plugins=PLUGINS)
    assert sorted(scenario.last.binds.values()) == ["n2", "n2", "n3", "n3"]


def test_a_domain_that_is_too_full_is_passed_over() -> None:
    scenario = hard(two_racks().job("there", cpu=1, on="n3"), "job", 4)
    scenario.run(plugins=PLUGINS)
    assert sorted({n for p, n in scenario.last.binds.items() if "job" in p}) == ["n0", "n1"]


def test_a_job_that_fits_no_domain_leaves_nothing_behind() -> None:
    scenario = hard(two_racks(), "job", 5)
    scenario.run(plugins=PLUGINS)
    assert scenario.last.binds == {}
    scenario.assert_invariants()


def test_each_sub_group_is_placed_in_one_domain() -> None:
    scenario = grouped(two_racks(), groups=2, size=3, needed=2)
    scenario.run(plugins=PLUGINS)
    racks = {"n0": "r0", "n1": "r0", "n2": "r1", "n3": "r1"}
    for g in range(2):
        assert len({racks[scenario.last.binds[f"default/parts-{g}-{n}"]] for n in range(3)}) == 1


def test_too_few_sub_groups_bind_nobody() -> None:
    scenario = grouped(two_racks(), groups=3, size=3, needed=3)
    scenario.run(plugins=PLUGINS)
    assert scenario.last.binds == {}


def test_a_sub_group_for_which_those_before_it_leave_no_room_says_so() -> None:
    scenario = grouped(Scenario(node("n0", cpu=1), node("n1", cpu=1)), groups=2, size=2, needed=2)
    scenario.run(plugins=[["priority", "gang"], ["predicates"]])
    assert scenario.last.why("parts").tasks[0] == "0/2 nodes are unavailable: 2 Insufficient cpu."


def test_sub_groups_need_no_hyper_nodes() -> None:
    scenario = grouped(Scenario(node("n0", cpu=4)), groups=3, size=2, needed=2)
    scenario.run(plugins=[["priority", "gang"], ["predicates"]])
    bound = {p.rsplit("-", 1)[0] for p in scenario.last.binds}
    assert bound == {"default/parts-0", "default/parts-1"}


def test_a_topology_that_cannot_be_read_keeps_the_job_waiting_and_says_why() -> None:
    broken = HyperNode(
        metadata=Metadata(name="r2"),
        spec=HyperNodeSpec(
            tier=2,
            members=(HyperNodeMember(type="HyperNode", selector=MemberSelector(exact_match=ExactMatch(name="r2"))),),
        ),
    )
    scenario = hard(two_racks().add(broken), "job", 2)
    scenario.run(plugins=PLUGINS)
    assert scenario.last.binds == {}
    assert "HyperNodes r2: are members of each other" in scenario.last.why("job").text


def test_a_hard_topology_that_no_plugin_serves_is_refused_with_a_reason() -> None:
    scenario = hard(two_racks(), "apart", 4)
    cycle = scenario.run(plugins=["gang"])
    assert cycle.binds == {}
    assert cycle.why("apart").text == "asks for a hard network topology, which no plugin of this conf serves"


@pytest.mark.parametrize("compat", [None, "volcano"])
def test_a_failure_in_a_domain_that_was_not_taken_does_not_keep_the_rest_of_the_role_back(compat: str | None) -> None:
    """The second rack is full; whoever was tried there has a place in the first, and the next of its role too."""
    scenario = Scenario(rack("r0", "n0", "n1"), rack("r1", "n2"), *(node(f"n{n}", cpu=2) for n in range(3)))
    scenario.job("full", cpu=2, on="n2")
    group, *_ = job("parts", tasks=0, min_available=1)
    assert isinstance(group, PodGroup)
    policy = SubGroupPolicy(name="part", match_label_keys=("part",), sub_group_size=1, min_sub_groups=1)
    force_setattr(group.spec, "sub_group_policy", (policy,))
    force_setattr(group.spec, "network_topology", NetworkTopology(mode="hard", highest_tier_allowed=1))
    pods = [pod(f"parts-w-{n}", group="parts", cpu=2, role="w", labels={"part": "0"}) for n in range(2)]
    scenario.add(group, *pods).run(plugins=[["gang"], ["predicates", "network-topology-aware"]], compat=compat)
    assert scenario.last.binds == {"default/parts-w-0": "n0", "default/parts-w-1": "n1"}


@pytest.mark.parametrize("compat", [None, "volcano"])
@pytest.mark.parametrize("racks", [0, 1])
def test_an_elastic_job_grows_into_what_is_left_of_a_domain_that_had_room_for_all_of_it(
    racks: int, compat: str | None
) -> None:
    """Whether it had is looked up when the session opens, in the whole cluster too where there are no hyper-nodes."""
    scenario = Scenario(node("n0", cpu=4), *(rack(f"r{n}", "n0") for n in range(racks)))
    group, *pods = job("wide", tasks=4, cpu=1, min_available=1)
    assert isinstance(group, PodGroup)
    force_setattr(group.spec, "network_topology", NetworkTopology(mode="soft"))
    scenario.add(group, *pods).job("first", cpu=2, priority=5)
    plugins = [["priority", "gang"], ["predicates", "network-topology-aware"]]
    assert len(scenario.run(plugins=plugins, compat=compat).binds) == 3
