"""gangpreempt and gangreclaim: room for a whole job, in bundles that spare gangs where they can."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from pumice.engine.hypernodes import TopologyDomain as Domain
from pumice.framework.plugin import Plugin
from pumice.framework.points.callback import EventHandler
from pumice.framework.session.session import Session
from pumice.model.api import (
    ExactMatch,
    HyperNode,
    HyperNodeMember,
    HyperNodeSpec,
    MemberSelector,
    Metadata,
    PodSpec,
    decode,
)
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.reason import Unfit
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.testing.builders import node, pod, queue
from pumice.testing.scenario import Scenario

PLUGINS = [["priority", "gang", "conformance"], ["predicates", "nodeorder"]]


class Counting(Plugin):
    """Counts who is evicted, in thought too."""

    name = "counting"
    events: ClassVar[list[str]] = []

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_event_handler(EventHandler(deallocate=lambda event: self.events.append(event.task.name)))


def evict(scenario: Scenario, action: str = "gangpreempt", plugins: Any = PLUGINS, **arguments: object) -> Scenario:
    tiers = [{"plugins": [p if isinstance(p, dict) else {"name": p} for p in tier]} for tier in plugins]
    configurations = [{"name": action, "arguments": arguments}]
    scenario.run(conf={"actions": f"enqueue, allocate, {action}", "tiers": tiers, "configurations": configurations})
    return scenario


def test_what_a_gang_can_spare_goes_before_a_whole_gang() -> None:
    scenario = Scenario(node("n0", cpu=4)).job("loose", tasks=2, on="n0", priority=2, min_available=1)
    scenario.job("tight", tasks=2, on="n0", priority=1)
    evict(scenario.job("high", cpu=1, priority=10))
    assert scenario.last.evictions == ["default/loose-0"]
    assert scenario.last.pipelined == {"default/high-0": "n0"}


def test_a_whole_gang_goes_when_nothing_can_be_spared() -> None:
    scenario = Scenario(node("n0", cpu=2)).job("tight", tasks=2, on="n0", priority=1)
    evict(scenario.job("high", cpu=1, priority=10))
    assert sorted(scenario.last.evictions) == ["default/tight-0", "default/tight-1"]


def test_whole_gangs_can_be_protected() -> None:
    scenario = Scenario(node("n0", cpu=2)).job("tight", tasks=2, on="n0", priority=1)
    assert evict(scenario.job("high", cpu=1, priority=10), allowWholeBundle=False).last.evictions == []


def test_only_lower_priority_of_the_same_queue_goes() -> None:
    scenario = Scenario(queue("other"), node("n0", cpu=2))
    scenario.job("equal", on="n0", priority=10).job("foreign", on="n0", priority=1, queue="other")
    assert evict(scenario.job("high", priority=10)).last.evictions == []


def test_a_job_that_says_so_is_left_alone() -> None:
    scenario = Scenario(node("n0", cpu=2)).job("low", tasks=2, on="n0", priority=1, preemptible=False)
    assert evict(scenario.job("high", priority=10)).last.evictions == []


def test_a_pod_that_never_preempts_evicts_nobody() -> None:
    scenario = Scenario(node("n0", cpu=2)).job("low", tasks=2, on="n0", priority=1, min_available=1)
    scenario.job("high", priority=10, spec=PodSpec(preemption_policy="Never"))
    assert evict(scenario).last.evictions == []


def test_bundles_that_the_plan_does_not_need_are_spared() -> None:
    """The small gang is the worse one and is taken first, but only the room of the big one will do."""
    scenario = Scenario(node("n0", cpu=2), node("n1", cpu=6))
    scenario.job("small", tasks=2, on="n0", priority=1).job("big", tasks=2, cpu=3, on="n1", priority=2)
    evict(scenario.job("high", cpu=5, priority=10))
    assert sorted(scenario.last.evictions) == ["default/big-0", "default/big-1"]


def test_nobody_goes_while_idle_room_suffices() -> None:
    scenario = Scenario(node("n0", cpu=2), node("n1", cpu=2)).job("low", tasks=2, on="n0", priority=1, min_available=1)
    scenario.job("high", cpu=2, priority=10)
    tiers = [{"plugins": [{"name": n} for n in tier]} for tier in PLUGINS]
    scenario.run(conf={"actions": "enqueue, gangpreempt", "tiers": tiers})
    assert scenario.last.evictions == []


def test_gangreclaim_takes_from_queues_that_may_be_reclaimed() -> None:
    scenario = Scenario(
        queue("a", deserved={"cpu": 1}), queue("b", deserved={"cpu": 3}), node("n0", cpu=4, memory=0)
    ).job("hog", tasks=4, on="n0", queue="a", min_available=1)
    scenario.job("mine", tasks=2, queue="b")
    evict(scenario, "gangreclaim", [["priority", "gang"], ["predicates", "capacity"]])
    assert len(scenario.last.evictions) == 2
    assert set(scenario.last.pipelined) == {"default/mine-0", "default/mine-1"}


def test_the_evicted_gang_gives_way_and_all_settles() -> None:
    scenario = Scenario(node("n0", cpu=2), recreate=True).job("tight", tasks=2, on="n0", priority=1)
    evict(scenario.job("high", tasks=2, priority=10))
    scenario.run(3)
    scenario.assert_bound("high", "n0")
    scenario.assert_settled()
    scenario.assert_invariants()


# -- domains --------------------------------------------------------------------------------------------------------
class Racks(Plugin):
    """Tries every hyper-node of tier 1."""

    name = "racks"

    def on_session_open(self, ssn: Session) -> None:
        def gradient(_: Job, top: Domain, purpose: str) -> list[list[str]]:
            return [sorted(top.children)]

        ssn.add_hyper_node_gradient_for_job_fn(self.name, gradient)


def rack(name: str, *nodes: str) -> HyperNode:
    members = tuple(HyperNodeMember(selector=MemberSelector(exact_match=ExactMatch(name=n))) for n in nodes)
    return HyperNode(metadata=Metadata(name=name), spec=HyperNodeSpec(tier=1, members=members))


def two_racks() -> Scenario:
    scenario = Scenario(rack("r0", "n0", "n1"), rack("r1", "n2", "n3"), *(node(f"n{n}", cpu=2) for n in range(4)))
    return scenario.job("low", tasks=3, cpu=2, on=["n0", "n2", "n3"], priority=1, min_available=1)


def test_all_victims_are_taken_in_one_domain() -> None:
    scenario = two_racks().job("high", tasks=2, cpu=2, priority=10)
    evict(scenario, plugins=[*PLUGINS, [Racks]])
    assert scenario.last.evictions == ["default/low-0"]
    assert sorted(scenario.last.pipelined.values()) == ["n0", "n1"]


def test_no_more_domains_are_tried_than_allowed() -> None:
    scenario = two_racks().job("full", cpu=2, on="n1", priority=20).job("high", tasks=2, cpu=2, priority=10)
    evict(scenario, plugins=[*PLUGINS, [Racks]], maxDomains=1)
    assert scenario.last.evictions == []


def test_a_sub_group_that_fits_nowhere_does_not_keep_the_others_from_room_and_in_compat_it_does() -> None:
    """Part 0 asks for three CPUs and no node has as many; the job needs one task."""
    for compat, gone in ((None, 1), ("volcano", 0)):
        scenario = Scenario(node("n1", cpu=2), node("n2", cpu=2))
        scenario.job("low", tasks=4, min_available=0, cpu=1, on=["n1", "n1", "n2", "n2"])
        policy = {"name": "part", "subGroupSize": 1, "minSubGroups": 0, "matchLabelKeys": ["part"]}
        spec = {"minMember": 1, "queue": "default", "priorityClassName": "high", "subGroupPolicy": [policy]}
        meta = {"name": "wide", "namespace": "default"}
        scenario.add(decode("PriorityClass", {"metadata": {"name": "high"}, "value": 9}))
        scenario.add(decode("PodGroup", {"metadata": meta, "spec": spec, "status": {"phase": "Inqueue"}}))
        for part, cpu in enumerate((3, 1)):
            scenario.add(pod(f"wide-{part}", group="wide", cpu=cpu, labels={"part": str(part)}, priority=9))
        scenario.run(actions=["gangpreempt"], plugins=PLUGINS, compat=compat)
        assert len(scenario.last.evictions) == gone


@pytest.mark.parametrize("seed", range(6))
def test_the_order_in_which_pods_arrive_does_not_decide_for_which_sub_group_is_evicted(seed: int) -> None:
    """Three full nodes, a gang of two sub-groups above them; its pods arrive in any order."""
    policy = {"name": "s", "subGroupSize": 2, "matchLabelKeys": ["part"]}
    spec = {"minMember": 4, "queue": "default", "priorityClassName": "high", "subGroupPolicy": [policy]}
    gang = decode("PodGroup", {"metadata": {"name": "gang", "namespace": "default"}, "spec": spec})
    made = [pod(f"gang-{n}", group="gang", cpu=2, priority=9, labels={"part": f"p{n // 2}"}) for n in range(4)]
    at_once = datetime(2026, 1, 1, tzinfo=UTC)
    pods = [replace(p, metadata=replace(p.metadata, creation_timestamp=at_once)) for p in made]
    decided = set()
    for shuffled in (False, True):
        if shuffled:
            random.Random(seed).shuffle(pods)
        scenario = Scenario().add(decode("PriorityClass", {"metadata": {"name": "high"}, "value": 9}))
        for n in range(3):
            scenario.node(f"n{n}", cpu=4).job(f"low{n}", tasks=4, min_available=1, cpu=1, on=f"n{n}")
        cycle = scenario.add(gang, *pods).run(
            actions=["enqueue", "allocate", "gangpreempt"], plugins=["priority", "gang"]
        )
        assert cycle.evictions
        decided.add(tuple(sorted(map(repr, cycle.intents))))
    assert len(decided) == 1


# -- jobs that nobody can help --------------------------------------------------------------------------------------
@pytest.mark.parametrize("action", ["gangpreempt", "gangreclaim", "preempt", "reclaim"])
@pytest.mark.parametrize(
    "fields",
    [
        {"spec": PodSpec(node_selector={"disk": "ssd"})},
        {"tasks": 2, "cpu": 5},
        {"cpu": 4, "spec": PodSpec(node_selector={"disk": "hdd"})},
        {"tasks": 2, "cpu": 3, "spec": PodSpec(node_selector={"rack": "r0"})},
        {"tasks": 12, "cpu": 3},
    ],
    ids=[
        "no node has its label",
        "no node is so large",
        "nobody on its node may go",
        "its node has room for one",
        "there are fewer nodes than it has pods",
    ],
)
def test_no_eviction_is_tried_before_all_could_have_a_place(action: str, fields: dict[str, Any]) -> None:
    """Each set of victims was tried, one larger than the last: the square of all running pods, for every such job."""
    theirs = "default" if "preempt" in action else "other"
    scenario = Scenario(queue("default", deserved={"cpu": 40}), queue("other", deserved={"cpu": 1}))
    scenario.add(queue("fixed", reclaimable=False))
    for n in range(10):
        scenario.node(f"n{n}", cpu=4, labels={"rack": f"r{n}"})
        for k in range(4):
            scenario.job(f"low{n}-{k}", on=f"n{n}", priority=1, queue=theirs)
    scenario.node("kept", cpu=4, labels={"disk": "hdd"})
    scenario.job("kept", cpu=4, on="kept", priority=20, queue="default" if theirs == "default" else "fixed")
    scenario.job("high", priority=10, **fields)
    Counting.events = []
    evict(scenario, action, plugins=[[*PLUGINS[0], Counting], [*PLUGINS[1], "capacity"]])
    assert scenario.last.evictions == []
    assert Counting.events == []


@pytest.mark.parametrize("nodes", [10, 40])
def test_who_helps_nobody_is_not_evicted_in_thought_either(nodes: int) -> None:
    """Victims come in the order of their jobs, so that there are many before the first node is free."""
    scenario = Scenario()
    for n in range(nodes):
        scenario.node(f"n{n:02}", cpu=4)
        for k in range(4):
            scenario.job(f"low{k}-{n:02}", on=f"n{n:02}", priority=1)
    scenario.job("high", cpu=4, priority=10)
    Counting.events = []
    evict(scenario, plugins=[[*PLUGINS[0], Counting], PLUGINS[1]])
    assert len(scenario.last.evictions) == 4
    assert len({scenario.state.nodes[n].name for n in scenario.last.pipelined.values()}) == 1
    assert len(Counting.events) <= 40


def test_a_plan_in_vain_is_not_made_for_every_victim_more() -> None:
    """A policy lets one of them alone be placed, whoever goes: nobody can know that but whoever asks it."""

    class Lonely(Plugin):
        name = "lonely"

        def predicate(self, task: Task, at: Node) -> None:
            if task.job.with_status(TaskStatus.PIPELINED):
                raise Unfit("one of a job")

    scenario = Scenario()
    for n in range(60):
        scenario.node(f"n{n:02}", cpu=4)
        scenario.job(f"low{n:02}", cpu=4, on=f"n{n:02}", priority=1)
    scenario.job("high", tasks=2, cpu=2, priority=10)
    Counting.events = []
    evict(scenario, plugins=[[*PLUGINS[0], Counting, Lonely], PLUGINS[1]])
    assert scenario.last.evictions == []
    assert 60 < len(Counting.events) < 60 * 60 / 4
