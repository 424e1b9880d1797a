"""What the kubelet would give a pod of NUMA zones, and what a session makes of it."""

from __future__ import annotations

import json
from itertools import combinations, product
from typing import Any

import pytest
from kai_cases import ALL, cluster, decided, job, node, queue, seen
from kai_plans import world
from pumice_conformance.kai_rounds import prepare, state_of

from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.kai.view.statement import ChangePlan
from pumice.kai.view.zones import NumaZone, ZonedNode, ZonedRequest, zoned
from pumice.model.api import NodeResourceTopology, decode
from pumice.model.intents import Bind
from pumice.model.keys import NUMA_OBSERVED, NUMA_PREDICTED
from pumice.scheduler.cycle import run_cycle

PLUGINS = (
    *("predicates", "proportion", "priority", "nodeavailability", "resourcetype", "nodeplacement", "numa"),
    *("sg-nodelocalgreedy", "sg-multinodegang"),
)


def conf(**arguments: str) -> dict[str, Any]:
    listed = [{"name": name, **({"arguments": arguments} if name == "numa" else {})} for name in PLUGINS]
    return {"tiers": [{"plugins": listed}]}


def topology(
    name: str, *zones: dict[str, str], policy: str = "single-numa-node", scope: str = "pod", **more: Any
) -> dict[str, Any]:
    told = [
        {
            "name": f"node-{n}",
            "type": "Node",
            "resources": [{"name": r, "allocatable": v, "available": v, "capacity": v} for r, v in zone.items()],
        }
        for n, zone in enumerate(zones)
    ]
    attributes = [{"name": "topologyManagerPolicy", "value": policy}, {"name": "topologyManagerScope", "value": scope}]
    return {"metadata": {"name": name}, "zones": told, "attributes": attributes, **more}


def guaranteed(name: str, *cpus: str, on: str = "", minute: int = 0, notes: Any = None, **more: Any) -> dict[str, Any]:
    """A job of one pod whose containers ask for so many CPUs, and for no more than that."""
    made = job(name, "q", on=(on,) if on else (), gpu="0", minute=minute, **more)
    limits = [{"cpu": c, "memory": "1Gi"} for c in cpus]
    made["pods"][0]["spec"]["containers"] = [
        {"name": f"c{n}", "resources": {"requests": asked, "limits": asked}} for n, asked in enumerate(limits)
    ]
    if notes is not None:
        made["pods"][0]["metadata"]["annotations"][NUMA_OBSERVED] = notes
    return made


def with_zones(*parts: dict[str, Any], told: list[dict[str, Any]], **more: Any) -> Any:
    case = cluster(*parts, conf=more.pop("conf", conf()), **more)
    case.data["objects"]["nodeResourceTopologies"] = told
    return case


def record(zone: int, cpu: str) -> str:
    return json.dumps([{"zone": f"node-{zone}", "amount": {"cpu": cpu}}])


# -- the kubelet's rule, by trying everything -------------------------------------------------------------------------
def by_hand(policy: str, needed: dict[str, int], zones: list[NumaZone]) -> bool:
    """Can it be aligned? Every set of zones is tried."""
    names = range(len(zones))
    if policy == "best-effort":
        return all(sum(z.available[r] for z in zones) >= amount for r, amount in needed.items())
    if policy == "restricted":
        widths = set()
        for resource, amount in needed.items():
            fits = [
                len(some)
                for n in range(1, len(zones) + 1)
                for some in combinations(names, n)
                if sum(zones[z].allocatable[resource] for z in some) >= amount
            ]
            widths.add(min(fits, default=0))
        if len(widths) != 1 or 0 in widths:
            return False
        (width,) = widths
    else:
        width = 1
    return any(
        all(sum(zones[z].available[r] for z in some) >= amount for r, amount in needed.items())
        for some in combinations(names, width)
    )


@pytest.mark.parametrize("policy", ["single-numa-node", "restricted", "best-effort"])
def test_a_pod_is_aligned_where_some_set_of_zones_serves_it(policy: str) -> None:
    tried = 0
    for free in product((0, 2, 4), repeat=3):
        for cpus, gpus in product((0, 1, 3, 4, 5, 9), (0, 1, 2, 3)):
            zones = [
                NumaZone(f"node-{n}", {"cpu": 4000, "g": 1000}, {"cpu": f * 1000, "g": 1000 if n else 0})
                for n, f in enumerate(free)
            ]
            needed = {name: n * 1000 for name, n in (("cpu", cpus), ("g", gpus)) if n}
            asked = ZonedRequest(True, needed, (needed,), (), frozenset(needed))
            expected = not needed or by_hand(policy, needed, zones)
            for by_pod in (True, False):
                found = ZonedNode(policy, by_pod, zones).place(asked)
                assert (found is not None) is expected, (free, needed)
                if found is not None:
                    got = {r: sum(dict(amounts).get(r, 0) for _, amounts in found) for r in needed}
                    assert got == needed
                    assert all(v <= zones[z].available[r] for z, amounts in found for r, v in amounts)
                tried += 1
    assert tried == 27 * 24 * 2


def test_zones_are_numbered_by_the_end_of_their_names_and_others_are_not_looked_at() -> None:
    told = topology("n1", {"cpu": "1", "odd.example/x": "3"}, {"cpu": "2"}, {"cpu": "3"})
    for zone, name in zip(told["zones"], ("node-10", "node-2", "unnumbered"), strict=True):
        zone["name"] = name
    told["zones"].append({"name": "die-0", "type": "Die", "resources": told["zones"][0]["resources"]})
    found = zoned(NodeResourceTopology(**_plain(told)), frozenset({"cpu"}), frozenset())
    assert found is not None
    assert [(z.name, z.available) for z in found.zones] == [
        ("node-2", {"cpu": 2000}),
        ("node-10", {"cpu": 1000}),
        ("unnumbered", {"cpu": 3000}),
    ]


def _plain(told: dict[str, Any]) -> dict[str, Any]:
    obj = decode("NodeResourceTopology", told)
    assert isinstance(obj, NodeResourceTopology)
    return {"zones": obj.zones, "attributes": obj.attributes, "topology_policies": obj.topology_policies}


@pytest.mark.parametrize(
    ("old", "policy", "by_pod"),
    [
        ("SingleNUMANode", "single-numa-node", False),
        ("SingleNUMANodePodLevel", "single-numa-node", True),
        ("SingleNUMANodeContainerLevel", "single-numa-node", False),
        ("Restricted", "restricted", False),
        ("RestrictedPodLevel", "restricted", True),
        ("BestEffortPodLevel", "best-effort", True),
        ("None", "none", False),
        ("Unheard", "none", False),
    ],
)
def test_the_old_way_to_tell_policies_is_read(old: str, policy: str, by_pod: bool) -> None:
    told = topology("n1", {"cpu": "1"}, topologyPolicies=[old])
    told["attributes"] = None
    found = zoned(NodeResourceTopology(**_plain(told)), frozenset({"cpu"}), frozenset())
    assert found is not None
    assert (found.policy, found.by_pod) == (policy, by_pod)


# -- what is decided -----------------------------------------------------------------------------------------------
TWO = ({"cpu": "4"}, {"cpu": "4"})


@pytest.mark.parametrize(
    ("cpus", "policy", "scope", "placed"),
    [
        (("4",), "single-numa-node", "pod", True),
        (("5",), "single-numa-node", "pod", False),
        (("3", "3"), "single-numa-node", "pod", False),
        (("3", "3"), "single-numa-node", "container", True),
        (("3", "3", "2"), "single-numa-node", "container", False),
        (("6",), "restricted", "pod", True),
        (("9",), "restricted", "pod", False),
        (("9",), "best-effort", "pod", True),
        (("9",), "none", "pod", True),
        (("4500m",), "single-numa-node", "pod", True),  # no CPUs of its own
    ],
)
def test_a_node_that_cannot_align_a_pod_is_not_taken(
    cpus: tuple[str, ...], policy: str, scope: str, placed: bool
) -> None:
    told = [topology("n1", *TWO, policy=policy, scope=scope)]
    got = decided(with_zones(node("n1"), queue("q"), guaranteed("new", *cpus), told=told, actions="allocate"))
    assert got["new-0"] == ("Binding n1" if placed else "Pending")


def test_an_init_container_is_looked_at_alone_and_a_sidecar_with_the_others() -> None:
    for policy, always, placed in (("container", None, True), ("container", "Always", False)):
        made = guaranteed("new", "3", "4")
        limits = {"cpu": "4", "memory": "1Gi"}
        first = {"name": "i", "resources": {"requests": limits, "limits": limits}}
        made["pods"][0]["spec"]["initContainers"] = [{**first, **({"restartPolicy": always} if always else {})}]
        told = [topology("n1", *TWO, scope=policy)]
        got = decided(with_zones(node("n1"), queue("q"), made, told=told, actions="allocate"))
        assert got["new-0"] == ("Binding n1" if placed else "Pending")


def test_a_pod_that_is_not_guaranteed_is_aligned_by_the_devices_of_zones_alone() -> None:
    zones = ({"cpu": "1", "example.com/nic": "1"}, {"cpu": "1", "example.com/nic": "1"})
    for nics, placed in (("1", True), ("2", False)):
        at = node("n1")
        at["status"]["allocatable"]["example.com/nic"] = "2"
        made = job("new", "q", gpu="0")
        made["pods"][0]["spec"]["containers"][0]["resources"]["requests"] |= {"cpu": "3", "example.com/nic": nics}
        case = with_zones(at, queue("q"), made, told=[topology("n1", *zones)], actions="allocate")
        assert decided(case)["new-0"] == ("Binding n1" if placed else "Pending")
        ignoring = conf(ignoreList="example.com/nic, cpu")
        case = with_zones(at, queue("q"), made, told=[topology("n1", *zones)], actions="allocate", conf=ignoring)
        assert decided(case)["new-0"] == "Binding n1"


def test_who_spans_fewer_zones_on_a_node_is_drawn_there() -> None:
    told = [topology("n1", *TWO, policy="best-effort"), topology("n2", {"cpu": "8"}, {"cpu": "8"})]
    got = decided(with_zones(node("n1"), node("n2"), queue("q"), guaranteed("new", "6"), told=told, actions="allocate"))
    assert got["new-0"] == "Binding n2"


def test_what_pods_were_seen_to_have_is_not_free() -> None:
    for reconstruct, placed in (("true", False), ("false", True)):
        old = [guaranteed(f"old{n}", "3", on="n1", notes=record(n, "3")) for n in range(2)]
        case = with_zones(
            *(node("n1"), queue("q"), *old, guaranteed("new", "3", minute=9)),
            told=[topology("n1", *TWO)],
            actions="allocate",
            conf=conf(reconstructAvailable=reconstruct),
        )
        assert decided(case)["new-0"] == ("Binding n1" if placed else "Pending")


@pytest.mark.parametrize(
    "notes", ["", "nonsense", "[]", "{}", '[{"zone": "node-7", "amount": {"cpu": "3"}}]', "[[[1]]]"]
)
def test_a_record_that_says_nothing_costs_nothing(notes: str) -> None:
    old = [guaranteed(f"old{n}", "3", on="n1", notes=notes) for n in range(2)]
    got = decided(
        with_zones(
            *(node("n1"), queue("q"), *old, guaranteed("new", "3", minute=9)),
            told=[topology("n1", *TWO)],
            actions="allocate",
        )
    )
    assert got["new-0"] == "Binding n1"


def test_a_victim_goes_whose_zone_then_holds_the_pod() -> None:
    """Room there is in sum; only one of the two victims frees a zone."""
    small = guaranteed("small", "1", on="n1", notes=record(0, "1"), priority="low")
    large = guaranteed("large", "3", on="n1", notes=record(1, "3"), priority="low", minute=1)
    other = guaranteed("other", "2", on="n1", notes=record(0, "2"), priority="train", minute=2)
    case = with_zones(
        *(node("n1"), queue("q"), small, large, other, guaranteed("new", "4", priority="build", minute=9)),
        told=[topology("n1", *TWO)],
        actions=ALL,
    )
    found = seen(case)
    assert {k.removeprefix("default/"): t["status"] for k, t in found.tasks.items()} == {
        "small-0": "Running",
        "large-0": "Releasing",
        "other-0": "Running",
        "new-0": "Pipelined",
    }
    assert found.tasks["default/new-0"]["numaZones"] == [1]
    assert found.zones["n1"] == [{"cpu": 1000}, {"cpu": 0}]


def test_what_is_taken_back_leaves_the_zones_as_they_were() -> None:
    case_parts = (node("n1"), queue("q"), guaranteed("old", "3", on="n1", notes=record(1, "3")), guaranteed("new", "4"))
    at = world(*case_parts, conf=conf(), nodeResourceTopologies=[topology("n1", *TWO)])
    n1 = at.state.table.by_name["n1"]
    tasks = {t.name: t for t in at.tasks.values()}
    zones = at.zones[n1.row].zones
    before = [dict(z.available) for z in zones]
    assert before == [{"cpu": 4000}, {"cpu": 1000}]
    plan = ChangePlan(at)
    plan.evict(tasks["old-0"], "test")
    assert [z.available["cpu"] for z in zones] == [4000, 4000]
    plan.pipeline(tasks["new-0"], n1)
    assert [z.available["cpu"] for z in zones] == [0, 4000]
    plan.pipeline(tasks["old-0"], n1)  # the zone that it had before is free
    assert (tasks["old-0"].stage.value, [z.available["cpu"] for z in zones]) == ("Running", [0, 1000])
    plan.discard()
    assert [dict(z.available) for z in zones] == before


def test_a_victim_that_would_get_another_zone_is_moved_and_not_left() -> None:
    old = guaranteed("old", "3", on="n1", notes=record(1, "3"))
    at = world(node("n1"), queue("q"), old, conf=conf(), nodeResourceTopologies=[topology("n1", *TWO)])
    n1 = at.state.table.by_name["n1"]
    (task,) = at.tasks.values()
    plan = ChangePlan(at)
    plan.evict(task, "test")
    plan.pipeline(task, n1)  # zone 0 comes first now
    assert (task.stage.value, task.zones) == ("Pipelined", ((0, (("cpu", 3000),)),))
    plan.discard()
    assert (task.stage.value, task.zones) == ("Running", ((1, (("cpu", 3000),)),))


def test_a_bind_says_which_zones_and_the_next_cycle_knows() -> None:
    case = with_zones(
        *(node("n1"), queue("q"), guaranteed("one", "3"), guaranteed("two", "3", minute=1)),
        guaranteed("three", "3", minute=2),
        told=[topology("n1", *TWO)],
        actions="allocate",
    )
    assembly, runtime = prepare(case, default_registry()), Runtime()
    state = state_of(case, case.data["objects"])
    first = run_cycle(state, assembly, runtime)
    binds = {i.pod: json.loads(i.annotations[NUMA_PREDICTED]) for i in first.intents if isinstance(i, Bind)}
    assert binds == {
        "default/one-0": [{"zone": "node-0", "amount": {"cpu": "3"}}],
        "default/two-0": [{"zone": "node-1", "amount": {"cpu": "3"}}],
    }
    again = run_cycle(state, assembly, runtime)  # the pods do not say it themselves yet
    assert again.binds == {}
