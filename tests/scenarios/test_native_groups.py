"""PodGroups and Workloads of Kubernetes' own: gangs like any other, said in other words."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from pumice.model import api, native
from pumice.model.events import Gone, Seen
from pumice.model.intents import StatusUpdate
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice.testing import Scenario

QUEUE = "scheduling.volcano.sh/queue-name"
V1ALPHA2, V1BETA1 = f"{native.GROUP}/v1alpha2", f"{native.GROUP}/v1beta1"


def group(
    name: str, least: int = 0, *, version: str = V1ALPHA2, notes: dict[str, str] | None = None, **spec: Any
) -> Any:
    """A PodGroup of *least* pods; without a number it is basic."""
    policy: dict[str, Any] = {"gang": {"minCount": least}} if least else {"basic": {}}
    meta = {"name": name, "namespace": "default", "uid": name, "annotations": notes or {}}
    return api.decode(
        "PodGroup", {"apiVersion": version, "metadata": meta, "spec": {"schedulingPolicy": policy, **spec}}
    )


def workload(name: str, **notes: str) -> api.AnyObject:
    meta = {"name": name, "namespace": "default", "annotations": notes}
    return api.decode("Workload", {"apiVersion": V1ALPHA2, "metadata": meta, "spec": {"podGroupTemplates": []}})


def pods(
    name: str, count: int, *, cpu: float = 1, notes: dict[str, str] | None = None, **spec: Any
) -> Iterator[api.AnyObject]:
    for i in range(count):
        own = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **spec}
        meta = {"name": f"{name}-{i}", "namespace": "default", "uid": f"{name}-{i}", "annotations": notes or {}}
        data = {
            "metadata": meta,
            "spec": {"schedulingGroup": {"podGroupName": name}, **own},
            "status": {"phase": "Pending"},
        }
        yield api.decode("Pod", data)


def racks(**cpus: list[int]) -> Scenario:
    scenario = Scenario()
    for rack, sizes in cpus.items():
        for n, cpu in enumerate(sizes):
            scenario.node(f"{rack}{n}", cpu=cpu, labels={"rack": rack})
    return scenario


RACK: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}


# -- what a gang is ---------------------------------------------------------------------------------------------------
def test_a_gang_is_bound_whole_or_not_at_all() -> None:
    scenario = racks(a=[3]).add(group("gang", 4), *pods("gang", 4))
    assert scenario.run().binds == {}
    scenario.node("more", cpu=1)
    assert len(scenario.run().binds) == 4


def test_pods_of_a_basic_group_start_one_by_one() -> None:
    scenario = racks(a=[2]).add(group("basic"), *pods("basic", 3))
    assert len(scenario.run().binds) == 2


def test_pods_wait_for_their_group_and_a_gang_for_its_pods() -> None:
    scenario = racks(a=[8]).add(*pods("gang", 2))
    assert scenario.run().binds == {}
    scenario.add(group("gang", 3))
    assert scenario.run().binds == {}
    scenario.add(*pods("gang", 3))
    assert len(scenario.run().binds) == 3


def test_a_pod_that_names_a_group_in_its_annotation_belongs_to_that() -> None:
    noted = {"scheduling.k8s.io/group-name": "other"}
    scenario = racks(a=[8]).add(group("gang", 1), *pods("gang", 1, notes=noted))
    assert scenario.task("gang-0").job_key == "default/other"


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ({"schedulingPolicy": {}}, "must be one of basic and gang"),
        ({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}, "must be one of basic and gang"),
        ({"schedulingPolicy": {"gang": {"minCount": -1}}}, "minCount must be at least 1, got -1"),
        ({"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}}, "must be one constraint, got 2"),
    ],
)
def test_a_group_that_breaks_a_rule_says_so_and_its_pods_wait(spec: dict[str, Any], rule: str) -> None:
    scenario = racks(a=[8]).add(group("gang", 2, **spec), *pods("gang", 2))
    assert scenario.run().binds == {}
    assert rule in scenario.state.problems[native.POD_GROUP, "default/gang"]


# -- who says what ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", [V1ALPHA2, V1BETA1])
def test_the_queue_is_named_by_group_workload_pods_or_namespace_in_this_order(version: str) -> None:
    old: dict[str, Any] = {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}}
    new: dict[str, Any] = {"workloadRef": {"workloadName": "w", "templateName": "t"}}
    spec = old if version == V1ALPHA2 else new
    said = {
        "namespace": api.decode("Namespace", {"metadata": {"name": "default", "annotations": {QUEUE: "of-namespace"}}}),
        "pods": list(pods("gang", 2, notes={QUEUE: "of-pods"})),
        "workload": workload("w", **{QUEUE: "of-workload"}),
        "group": group("gang", 2, version=version, notes={QUEUE: "of-group"}, **spec),
    }
    plain = [group("gang", 2, version=version, **spec), *pods("gang", 2)]
    for order in (list(said), list(reversed(said))):
        for upto in range(len(said) + 1):
            names = list(said)[:upto]
            state = ClusterState()
            for obj in plain if not names or "group" not in names else plain[1:]:
                state.apply(Seen(obj))
            for name in [n for n in order if n in names]:
                for obj in said[name] if isinstance(said[name], list) else [said[name]]:
                    state.apply(Seen(obj))
            if names == ["namespace"]:
                state.apply(Seen(plain[0]))  # a namespace is looked at when a group or pod comes
            expected = f"of-{names[-1]}" if names else state.default_queue
            assert state.jobs["default/gang"].queue == expected, (order, names)


def test_what_a_workload_says_goes_with_it() -> None:
    ref: dict[str, Any] = {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}}
    state = ClusterState()
    state.apply_all([Seen(group("gang", 1, **ref)), Seen(workload("w", **{QUEUE: "q", "acme.com/x": "y"}))])
    assert (state.jobs["default/gang"].queue, dict(state.jobs["default/gang"].annotations)) == ("q", {QUEUE: "q"})
    state.apply(Gone(native.WORKLOAD, "default/w"))
    assert state.jobs["default/gang"].queue == state.default_queue


def test_the_priority_is_the_groups_else_that_of_its_class_else_the_highest_of_its_pods() -> None:
    state = ClusterState()
    state.apply(Seen(api.decode("PriorityClass", {"metadata": {"name": "high"}, "value": 50})))
    state.apply(Seen(group("gang", 1)))
    for pod in (*pods("gang", 1, priority=3), *pods("gang", 2, priority=7)):
        state.apply(Seen(pod))
    assert state.jobs["default/gang"].priority == 7
    state.apply(Seen(group("gang", 1, priorityClassName="high")))
    assert state.jobs["default/gang"].priority == 50
    state.apply(Seen(group("gang", 1, priorityClassName="high", priority=60)))
    state.apply(Seen(api.decode("PriorityClass", {"metadata": {"name": "high"}, "value": 90})))
    assert state.jobs["default/gang"].priority == 60


def test_where_volcano_has_a_group_of_the_same_name_that_one_counts() -> None:
    volcano = api.decode("PodGroup", {"metadata": {"name": "gang", "namespace": "default"}, "spec": {"minMember": 1}})
    for both in ([group("gang", 2), volcano], [volcano, group("gang", 2)]):
        state = ClusterState()
        state.apply_all(Seen(obj) for obj in (*both, *pods("gang", 2)))
        assert state.jobs["default/gang"].min_available == 1
        assert "counts" in state.problems[native.POD_GROUP, "default/gang"]
        state.apply(Gone("PodGroup", "default/gang"))
        assert state.jobs["default/gang"].min_available == 2
        assert not state.problems
        state.apply(Gone(native.POD_GROUP, "default/gang"))
        assert state.jobs["default/gang"].group is None


def test_a_change_of_its_status_does_not_ask_for_a_vote_again() -> None:
    scenario = racks(a=[1]).add(group("gang", 2), *pods("gang", 2))
    scenario.run()
    assert scenario.job_of("gang").phase == "Inqueue"
    told = api.decode(
        "PodGroup", {**api.to_data(group("gang", 2)), "apiVersion": V1ALPHA2, "status": {"conditions": []}}
    )
    scenario.add(told)
    assert scenario.job_of("gang").phase == "Inqueue"


# -- what it is told --------------------------------------------------------------------------------------------------
def conditions(scenario: Scenario) -> list[tuple[str, str, str]]:
    said = [i for i in scenario.last.report.intents if isinstance(i, StatusUpdate) and i.kind == native.POD_GROUP]
    return [(c["type"], c["status"], c["reason"]) for i in said for c in i.status["conditions"]]


def test_a_group_is_told_once_whether_it_was_scheduled() -> None:
    scenario = racks(a=[1]).add(group("gang", 2), *pods("gang", 2))
    scenario.run()
    assert conditions(scenario) == [("PodGroupScheduled", "False", "Unschedulable")]
    scenario.run()
    assert conditions(scenario) == []
    scenario.node("more", cpu=1)
    scenario.run()
    assert conditions(scenario) == [("PodGroupScheduled", "True", "Scheduled")]
    scenario.remove("gang-0")
    scenario.run(2)
    assert conditions(scenario) == []  # it was scheduled once; that is what the condition says


def test_a_group_whose_queue_does_not_exist_is_told_so() -> None:
    scenario = racks(a=[8]).add(group("gang", 2, notes={QUEUE: "nowhere"}), *pods("gang", 2))
    scenario.run()
    assert conditions(scenario) == [("PodGroupScheduled", "False", "UnknownQueue")]


# -- disruption -------------------------------------------------------------------------------------------------------
def evicted_for_one(mode: object, *actions: str) -> set[str]:
    """Who goes for one urgent pod while four pods of a group, of which two must run, have all the room."""
    spec: dict[str, Any] = {"disruptionMode": mode} if mode is not None else {}
    scenario = racks(a=[2], b=[2]).add(group("whole", 2, **spec), *pods("whole", 4))
    tiers = [["priority", "gang"], ["predicates"]]
    assert len(scenario.run(actions=["allocate"], plugins=tiers).binds) == 4
    scenario.job("urgent", cpu=1, priority=5)
    return set(scenario.run(actions=["allocate", *actions], plugins=tiers).evictions)


@pytest.mark.parametrize("mode", ["PodGroup", {"all": {}}])
def test_a_group_that_is_disrupted_as_a_whole_loses_no_single_pod(mode: object) -> None:
    assert evicted_for_one(mode, "preempt") == set()
    assert evicted_for_one(mode, "gangpreempt") == {f"default/whole-{i}" for i in range(4)}


@pytest.mark.parametrize("mode", [None, "Pod", {"single": {}}])
def test_of_another_group_only_what_must_goes(mode: object) -> None:
    assert len(evicted_for_one(mode, "preempt")) == len(evicted_for_one(mode, "gangpreempt")) == 1


# -- one domain -------------------------------------------------------------------------------------------------------
def test_a_group_with_a_topology_key_is_in_one_domain_the_tightest_that_will_do() -> None:
    scenario = racks(a=[4, 4], b=[2, 2], c=[3]).add(group("gang", 4, **RACK), *pods("gang", 4))
    assert {node[0] for node in scenario.run().binds.values()} == {"b"}


def test_later_pods_of_the_group_stay_in_its_domain() -> None:
    scenario = racks(a=[3], b=[9]).add(group("gang", 3, **RACK), *pods("gang", 3))
    assert set(scenario.run().binds.values()) == {"a0"}
    scenario.add(*[p for p in pods("gang", 4) if p.metadata.name == "gang-3"])
    assert scenario.run().binds == {}
    assert "another rack" in scenario.last.why("gang").reason


def test_nodes_without_the_label_are_no_domain() -> None:
    scenario = Scenario().node("n1", cpu=8).add(group("gang", 2, **RACK), *pods("gang", 2))
    assert scenario.run().binds == {}
    assert scenario.last.why("gang").reason


def test_a_group_without_a_key_is_not_confined_beside_one_that_is() -> None:
    scenario = racks(a=[2], b=[2]).add(group("near", 2, **RACK), *pods("near", 2), group("wide", 2), *pods("wide", 2))
    assert len(scenario.run().binds) == 4


CONFS: list[dict[str, Any]] = [
    {"actions": ["allocate"], "plugins": ["priority", "gang", "predicates"]},
    {
        "actions": ["enqueue", "allocate", "preempt", "backfill"],
        "plugins": [["priority", "gang"], ["predicates", "drf"]],
    },
    {"actions": ["allocate", "gangpreempt"], "plugins": [["priority", "gang"], ["predicates", "nodeorder"]]},
]


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.part(3)
def test_no_gang_is_ever_half_or_in_two_domains_whatever_comes(seed: int) -> None:
    draw = random.Random(seed)
    scenario = Scenario(recreate=True)
    for rack in "abc":
        for n in range(draw.randint(1, 3)):
            scenario.node(f"{rack}{n}", cpu=draw.randint(1, 4), labels={"rack": rack} if draw.random() < 0.9 else {})
    kept: set[str] = set()
    conf = draw.choice(CONFS)
    for step in range(6):
        for n in range(draw.randint(0, 2)):
            name, count = f"g{step}{n}", draw.randint(1, 5)
            near = draw.random() < 0.6
            kept |= {name} if near else set()
            own: dict[str, Any] = {**(RACK if near else {}), "priority": draw.randint(0, 3)}
            mode = draw.choice([None, "Pod", "PodGroup"])
            own |= {"disruptionMode": mode} if mode else {}
            made = [group(name, draw.randint(1, count), **own)]
            members: list[api.AnyObject] = list(pods(name, count, cpu=draw.choice([1, 1, 2])))
            everything = [*made, *members] if draw.random() < 0.5 else [*members, *made]
            scenario.add(*everything)
        scenario.run(**conf)
        assert violations(scenario.state) == []
        for job in scenario.state.jobs.values():
            placed = [t for t in job.tasks.values() if t.node is not None]
            running = [t for t in placed if t.status.title in ("Running", "Bound")]
            if job.name in kept:
                assert len({t.node.labels.get("rack", t.node.name) for t in placed if t.node is not None}) < 2, job
            if running and not any(t.status.title == "Releasing" for t in placed):
                assert job.ready_count >= job.min_available, job
        if draw.random() < 0.3:
            ending = sorted(t.key for t in scenario.state.tasks.values() if t.status.title == "Running")
            for key in draw.sample(ending, min(len(ending), 2)):
                scenario.finish(key.partition("/")[2])


def test_the_reason_has_the_numbers_of_the_roomiest_domain() -> None:
    scenario = racks(a=[2], b=[1, 2]).add(group("gang", 4, **RACK), *pods("gang", 4))
    scenario.run()
    why = "no rack has room for 4 of its pods together: b, the roomiest of 2, for 3"
    assert scenario.last.why("gang").reason.startswith(why)


@pytest.mark.parametrize("actions", [["allocate"], ["allocate", "preempt"], ["allocate", "gangpreempt"], ["backfill"]])
def test_where_no_plugin_keeps_a_key_the_group_waits_and_says_so(actions: list[str]) -> None:
    scenario = racks(a=[1], b=[1]).job("low", tasks=2, min_available=1, cpu=1)
    assert len(scenario.run(actions=["allocate"], plugins=["priority", "gang"]).binds) == 2
    scenario.add(group("gang", 2, priority=5, **RACK), *pods("gang", 2))
    cycle = scenario.run(actions=actions, plugins=["priority", "gang"])
    assert (cycle.binds, list(cycle.evictions)) == ({}, [])
    if actions != ["backfill"]:
        assert "asks for one rack for all its pods, which no plugin of this conf serves" in cycle.why("gang").reason
