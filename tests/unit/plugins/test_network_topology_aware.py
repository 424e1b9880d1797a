"""network-topology-aware: which domains are tried, which is best, which node, and who is kept out."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import force_setattr

from pumice.framework.plugin import Arguments
from pumice.framework.session.session import Session
from pumice.model.api import (
    AnyObject,
    ExactMatch,
    HyperNode,
    HyperNodeMember,
    HyperNodeSpec,
    LabelSelector,
    MemberSelector,
    Metadata,
    NetworkTopology,
    PodGroup,
    RegexMatch,
    SubGroupPolicy,
)
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.plugins.network_topology_aware import NetworkTopologyAware
from pumice.testing import Scenario, job, node, pod
from pumice.testing.world import session

PLUGINS = [["priority", "gang"], ["predicates", "network-topology-aware"]]


def hyper(name: str, tier: int, *members: str, kind: str = "Node", tier_name: str = "") -> HyperNode:
    listed = tuple(HyperNodeMember(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=m))) for m in members)
    return HyperNode(metadata=Metadata(name=name), spec=HyperNodeSpec(tier=tier, tier_name=tier_name, members=listed))


def racks(cpu: int = 2) -> list[AnyObject]:
    """Three racks of two nodes; the first two share a spine."""
    return [
        *(node(f"n{n}", cpu=cpu) for n in range(6)),
        hyper("r0", 1, "n0", "n1", tier_name="rack"),
        hyper("r1", 1, "n2", "n3", tier_name="rack"),
        hyper("r2", 1, "n4", "n5", tier_name="rack"),
        hyper("s0", 2, "r0", "r1", kind="HyperNode", tier_name="spine"),
    ]


def near(
    name: str, tasks: int, limit: int | None = 1, *, mode: str = "hard", tier: str | None = None, **options: Any
) -> list[AnyObject]:
    """A job that asks for a topology."""
    made = job(name, tasks=tasks, **{"cpu": 1, **options})
    asked = NetworkTopology(mode=mode, highest_tier_allowed=limit, highest_tier_name=tier)
    (group,) = [o for o in made if isinstance(o, PodGroup)]
    force_setattr(group.spec, "network_topology", asked)
    return made


def ran(*objects: AnyObject | list[AnyObject], plugins: Any = PLUGINS, **options: Any) -> Scenario:
    scenario = Scenario()
    for given in objects:
        scenario.add(given)
    scenario.run(plugins=plugins, **options)
    return scenario


def rack_of(node_name: str) -> int:
    return int(node_name[1:]) // 2


# -- domains --------------------------------------------------------------------------------------------------------
def test_the_lowest_tier_that_has_the_slots_is_taken() -> None:
    scenario = ran(racks(), near("small", 4, 2), near("wide", 6, 2))
    assert {rack_of(n) for p, n in scenario.last.binds.items() if "small" in p} == {0}
    assert scenario.last.why("wide").stage == "topology"


def test_of_equal_tiers_the_fullest_domain_is_taken() -> None:
    scenario = ran(racks(4), job("there", cpu=1, on="n3"), near("small", 2))
    assert {rack_of(n) for p, n in scenario.last.binds.items()} == {1}


def test_a_domain_without_the_slots_is_not_tried_although_its_sum_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four nodes with half a core each have two cores together, and no slot for a task of one."""
    tried: list[str] = []
    original = NetworkTopologyAware._for_sub_job

    def spy(self: NetworkTopologyAware, sub_job: Any, inside: Any, purpose: str) -> Any:
        tried.append(inside.name)
        return original(self, sub_job, inside, purpose)

    monkeypatch.setattr(NetworkTopologyAware, "_for_sub_job", spy)
    half = [job(f"half{n}", cpu="500m", on=f"n{n}") for n in range(4)]
    scenario = ran(racks(1), *half, near("one", 1))
    assert sorted(scenario.last.binds) == ["default/one-0"]
    assert set(tried) <= {"r2"}


def test_tasks_that_come_later_stay_in_the_domain_of_those_that_run() -> None:
    scenario = ran(racks(4), near("grows", 3, on=["n2"], min_available=1))
    assert {rack_of(n) for n in scenario.last.binds.values()} == {1}


def test_a_full_domain_keeps_the_rest_waiting_and_says_so() -> None:
    scenario = ran(
        racks(2), job("full", tasks=3, cpu=1, on=["n2", "n3", "n3"]), near("grows", 2, on=["n2"], min_available=1)
    )
    assert scenario.last.binds == {}
    text = scenario.last.why("grows").text
    assert text.startswith(
        "no hyper-node of tier 1 or below has room for 1 of its tasks together: r1, the roomiest of 1"
    )


def test_a_higher_tier_lets_the_rest_go_next_door() -> None:
    scenario = ran(
        racks(2), job("full", tasks=3, cpu=1, on=["n2", "n3", "n3"]), near("grows", 2, 2, on=["n2"], min_available=1)
    )
    assert {rack_of(n) for n in scenario.last.binds.values()} == {0}


def test_soft_means_as_near_as_may_be() -> None:
    scenario = ran(racks(2), near("near", 4, None, mode="soft"), near("all", 8, None, mode="soft"))
    assert len({rack_of(n) for p, n in scenario.last.binds.items() if "near" in p}) == 1
    assert len([p for p in scenario.last.binds if "all" in p]) == 8


def test_a_tier_can_be_given_by_name() -> None:
    scenario = ran(racks(2), near("named", 6, None, tier="spine"))
    assert {rack_of(n) for n in scenario.last.binds.values()} == {0, 1}


@pytest.mark.parametrize(
    ("limit", "tier", "said"),
    [
        (None, "rak", "networkTopology.highestTierName 'rak': no HyperNode has that tierName (there are rack, spine)"),
        (None, None, "networkTopology: mode hard needs highestTierAllowed or highestTierName"),
    ],
)
def test_what_cannot_be_understood_is_the_jobs_error_for_every_action(
    limit: int | None, tier: str | None, said: str
) -> None:
    asked = near("typo", 1, limit, tier=tier, cpu=0)
    scenario = ran(racks(), asked, actions=["enqueue", "allocate", "backfill"])
    assert scenario.last.binds == {}
    scenario = ran(racks(), near("typo", 1, limit, tier=tier))
    assert scenario.last.why("typo").text == said
    assert scenario.last.why("typo").stage == "topology"


def test_members_by_label_and_pattern_are_domains_too() -> None:
    pattern = MemberSelector(regex_match=RegexMatch(pattern="^a"))
    label = MemberSelector(label_match=LabelSelector(match_labels={"row": "b"}))
    domains = [
        HyperNode(
            metadata=Metadata(name=name),
            spec=HyperNodeSpec(tier=1, members=(HyperNodeMember(type="Node", selector=selector),)),
        )
        for name, selector in (("a", pattern), ("b", label))
    ]
    nodes = [*(node(f"a{n}", cpu=1) for n in range(2)), *(node(f"x{n}", cpu=1, labels={"row": "b"}) for n in range(2))]
    scenario = ran([*nodes, *domains], near("one", 2), near("two", 2), near("three", 2))
    assert {frozenset(n[0] for p, n in scenario.last.binds.items() if j in p) for j in ("one", "two")} == {
        frozenset("a"),
        frozenset("x"),
    }
    assert not any("three" in p for p in scenario.last.binds)


def test_nodes_in_two_domains_of_a_tier_can_be_used_by_both() -> None:
    """n1 is in both; a job that is on n0 and n1 is within the first, whichever n1 is counted to."""
    nodes = [node(f"n{n}", cpu=1) for n in range(3)]
    scenario = ran(
        [*nodes, hyper("a", 1, "n0", "n1"), hyper("b", 1, "n1", "n2")], near("grows", 2, on=["n0"], min_available=1)
    )
    assert list(scenario.last.binds.values()) == ["n1"]


# -- sub-groups -----------------------------------------------------------------------------------------------------
def parts(limit: int | None, part_limit: int, groups: int, size: int) -> list[AnyObject]:
    made, *_ = job("parts", tasks=0, min_available=groups * size)
    assert isinstance(made, PodGroup)
    policy = SubGroupPolicy(
        name="part",
        sub_group_size=size,
        min_sub_groups=groups,
        match_label_keys=("part",),
        network_topology=NetworkTopology(mode="hard", highest_tier_allowed=part_limit),
    )
    force_setattr(made.spec, "sub_group_policy", (policy,))
    if limit is not None:
        force_setattr(made.spec, "network_topology", NetworkTopology(mode="hard", highest_tier_allowed=limit))
    pods = [
        pod(f"parts-{g}-{n}", group="parts", cpu=1, labels={"part": str(g)}) for g in range(groups) for n in range(size)
    ]
    return [made, *pods]


def test_sub_groups_are_within_their_tier_and_the_job_within_its_own() -> None:
    scenario = ran(racks(2), parts(2, 1, groups=2, size=3))
    found = [{rack_of(scenario.last.binds[f"default/parts-{g}-{n}"]) for n in range(3)} for g in range(2)]
    assert all(len(one) == 1 for one in found)
    assert set.union(*found) == {0, 1}


def test_sub_groups_that_would_need_another_spine_wait() -> None:
    scenario = ran(racks(2), job("there", tasks=2, cpu=1, on=["n0", "n2"]), parts(2, 1, groups=2, size=4))
    assert scenario.last.binds == {}


# -- others ---------------------------------------------------------------------------------------------------------
def test_pods_without_a_topology_fill_up_domains_that_are_in_use() -> None:
    scenario = ran(racks(4), job("there", cpu=2, on="n5"), job("plain", cpu=1))
    assert rack_of(scenario.last.binds["default/plain-0"]) == 2


def test_filling_up_can_be_turned_off() -> None:
    plugins = [["gang"], ["predicates", ("network-topology-aware", {"hypernode.binpack.normal-pod.enable": False})]]
    scenario = ran(racks(4), job("there", cpu=2, on="n5"), job("plain", cpu=1), plugins=plugins)
    assert scenario.last.binds["default/plain-0"] == "n0"


def test_a_node_outside_every_domain_is_left_to_those_who_ask_for_none() -> None:
    scenario = ran(racks(2), [node("n6", cpu=8)], near("one", 3))
    assert "n6" not in scenario.last.binds.values()


# -- making room ------------------------------------------------------------------------------------------------------
def test_gangpreempt_makes_room_in_one_domain_and_the_job_gets_it_also_after_a_restart() -> None:
    scenario = Scenario(*racks(2))
    for rack in range(3):
        scenario.job(
            f"low{rack}",
            tasks=4,
            cpu=1,
            priority=1,
            on=[f"n{2 * rack}"] * 2 + [f"n{2 * rack + 1}"] * 2,
            min_available=1,
        )
    scenario.add(near("high", 4, priority=10))
    cycle = scenario.run(plugins=PLUGINS, actions=["enqueue", "allocate", "gangpreempt"])
    promised = {rack_of(n) for n in cycle.pipelined.values()}
    assert (len(cycle.evictions), len(promised)) == (4, 1)
    scenario.runtime.drop_kept()
    scenario.run(2)
    assert {rack_of(n) for c in scenario.cycles for n in c.binds.values()} == promised
    scenario.assert_invariants()


def test_weights_below_zero_count_as_one() -> None:
    plugin = NetworkTopologyAware(
        Arguments(
            {"weight": -1, "hypernode.binpack.normal-pod.fading": -1, "hypernode.gradient.evict.max-hypernodes": 0}
        )
    )
    assert (plugin.weight, plugin.fading, plugin.most_evicted) == (1, 0.8, 8)


# -- numbers --------------------------------------------------------------------------------------------------------
def opened(*objects: AnyObject | list[AnyObject], **arguments: Any) -> tuple[Session, NetworkTopologyAware]:
    flat = [o for given in objects for o in (given if isinstance(given, list) else [given])]
    ssn = session(*flat)
    plugin = NetworkTopologyAware(Arguments(arguments))
    ssn.open_plugin(plugin)
    return ssn, plugin


def test_a_domain_is_scored_by_how_full_it_would_be() -> None:
    ssn, _ = opened(racks(4), job("there", cpu=2, on="n2"), near("one", 2))
    sub_job = ssn.jobs["default/one"].whole()
    domains = {name: ssn.hyper_nodes.by_name[name].members for name in ("r0", "r1")}
    assert ssn.hyper_node_order(sub_job, domains) == pytest.approx({"r0": 100 * 2 / 8, "r1": 100 * 4 / 8})


def test_resources_count_by_their_weight() -> None:
    weights = {"hypernode.binpack.cpu": 3, "hypernode.binpack.memory": 1, "weight": 2}
    ssn, _ = opened(racks(4), near("one", 2, memory="1Gi"), **weights)
    sub_job = ssn.jobs["default/one"].whole()
    offered = sum(n.allocatable.memory for n in ssn.hyper_nodes.by_name["r0"].members)
    expected = 2 * 100 * (3 * 2 / 8 + 2 * 2**30 / offered) / 4
    assert ssn.hyper_node_order(sub_job, {"r0": []}) == pytest.approx({"r0": expected})


def test_nodes_near_the_jobs_other_tasks_score_more_with_every_tier_that_is_shared() -> None:
    ssn, _ = opened(racks(4), near("one", 2, None, mode="soft", on=["n0"], min_available=1))
    (waiting,) = ssn.jobs["default/one"].with_status(TaskStatus.PENDING).values()
    scores = ssn.batch_node_order(waiting, [ssn.nodes[n] for n in ("n0", "n1", "n2", "n4")])
    # the rack has tier 1, the spine 2, the whole cluster 3; half of the job's tasks are in the rack
    assert scores == pytest.approx({"n0": 150.0, "n1": 150.0, "n2": 50.0, "n4": 0.0})


# -- many pods without a topology -----------------------------------------------------------------------------------
class OneByOne(NetworkTopologyAware):
    """The same without saying how its score goes on: tasks are placed one by one."""

    def _follows(self, task: Task) -> None:
        return None


@pytest.mark.parametrize("seed", range(12))
def test_gangs_without_a_topology_are_placed_in_bulk_as_they_are_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [node(f"n{n:02d}", cpu=rng.choice([4, 8, 16]), memory=f"{rng.choice([8, 32])}Gi") for n in range(12)]
    held = [f"n{n:02d}" for n in range(12)]
    rng.shuffle(held)
    tree = [hyper(f"r{r}", 1, *held[r * 3 : r * 3 + 3]) for r in range(rng.choice([2, 3, 4]))]
    tree += [hyper("s0", rng.choice([2, 5]), "r0", "r1", kind="HyperNode")]
    jobs = [
        *(job("old", tasks=3, cpu=2, on=held[:3])),
        *job("big", tasks=rng.randint(10, 30), cpu=1, memory="512Mi"),
        *job("small", tasks=rng.randint(2, 8), cpu=2),
    ]
    weight = {"weight": rng.choice([1, 3]), "hypernode.binpack.normal-pod.fading": rng.choice([0.8, 1.5])}
    others = rng.choice([["predicates", "binpack"], ["predicates", "nodeorder", "binpack"], ["nodeorder"]])
    found = []
    for plugin in (NetworkTopologyAware, OneByOne):
        scenario = Scenario()
        for obj in (*nodes, *tree, *jobs):
            scenario.add(obj)
        tiers: Any = [["priority", "gang"], [*others, (plugin, weight)]]
        found.append(scenario.run(actions=["allocate"], plugins=tiers).binds)
    assert found[0] == found[1]
    assert found[0]
