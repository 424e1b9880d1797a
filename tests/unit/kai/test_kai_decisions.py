"""What KAI's actions and plugins decide on small clusters."""

from __future__ import annotations

from typing import Any

import pytest
from kai_cases import cluster, decided, job, node, queue, seen
from kai_plans import world
from pumice_conformance.kai_rounds import prepare, state_of

from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.kai.view.nodes import SharedGpu
from pumice.model.events import Gone
from pumice.scheduler.cycle import run_cycle


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    small = cluster(node("n1", gpu=3), queue("q"), job("gang", "q", pods=4))
    assert set(decided(small).values()) == {"Pending"}
    large = cluster(node("n1", gpu=4), queue("q"), job("gang", "q", pods=4))
    assert set(decided(large).values()) == {"Binding n1"}


def test_an_elastic_job_grows_as_far_as_there_is_room() -> None:
    got = decided(cluster(node("n1", gpu=3), queue("q"), job("grows", "q", pods=5, least=1)))
    assert sorted(got.values()) == ["Binding n1"] * 3 + ["Pending"] * 2


def test_growth_goes_in_turns_between_equal_queues() -> None:
    got = decided(
        cluster(
            *(node("n1", gpu=4), queue("a"), queue("b")),
            *(job("one", "a", pods=4, least=1), job("two", "b", pods=4, least=1, minute=1)),
        )
    )
    assert [sum(got[f"{name}-{n}"] == "Binding n1" for n in range(4)) for name in ("one", "two")] == [2, 2]


def test_small_jobs_are_packed_onto_the_fuller_node() -> None:
    got = decided(
        cluster(
            node("n1", gpu=4), node("n2", gpu=4), queue("q"), job("runs", "q", on=("n2",)), job("new", "q", minute=1)
        )
    )
    assert got["new-0"] == "Binding n2"


def test_a_queue_below_its_quota_reclaims_what_another_holds_beyond_its_own() -> None:
    got = decided(
        cluster(
            *(node("n1", gpu=4), queue("a", quota=2), queue("b", quota=2)),
            *(job(f"over{n}", "a", on=("n1",), minute=n) for n in range(4)),
            job("claims", "b", minute=9),
        )
    )
    assert (got["over3-0"], got["claims-0"]) == ("Releasing n1", "Pipelined n1")
    assert [got[f"over{n}-0"] for n in range(3)] == ["Running n1"] * 3


def test_nothing_is_reclaimed_from_a_queue_within_its_quota() -> None:
    got = decided(
        cluster(
            *(node("n1", gpu=2), queue("a", quota=2), queue("b", quota=0)),
            *(job("fair", "a", on=("n1", "n1"), pods=2), job("wants", "b", minute=1)),
        )
    )
    assert set(got.values()) == {"Running n1", "Pending"}


def test_higher_priority_preempts_lower_in_its_queue() -> None:
    got = decided(
        cluster(
            *(node("n1", gpu=1), queue("q", quota=1)),
            *(job("low", "q", on=("n1",), priority="low"), job("high", "q", minute=1)),
        )
    )
    assert got == {"low-0": "Releasing n1", "high-0": "Pipelined n1"}


def test_an_elastic_victim_gives_one_pod_and_keeps_its_minimum() -> None:
    got = decided(
        cluster(
            *(node("n1", gpu=3), queue("a", quota=1), queue("b", quota=1)),
            *(job("wide", "a", on=("n1",) * 3, pods=3, least=1), job("claims", "b", minute=1)),
        )
    )
    assert sorted(got.values()) == ["Pipelined n1", "Releasing n1", "Running n1", "Running n1"]


def test_consolidation_moves_work_so_that_a_whole_node_is_free() -> None:
    got = decided(
        cluster(
            *(node("n1", gpu=2), node("n2", gpu=2), queue("q")),
            *(job("a", "q", on=("n1",)), job("b", "q", on=("n2",), minute=1), job("big", "q", gpu="2", minute=2)),
        )
    )
    assert got["big-0"].startswith("Pipelined")
    assert sorted([got["a-0"].split()[0], got["b-0"].split()[0]]) == ["Pipelined", "Running"]


def test_a_victim_that_finds_its_own_place_again_is_left_alone() -> None:
    found = seen(
        cluster(
            *(node("n1", gpu=2), node("n2", gpu=2), queue("q"), job("a", "q", on=("n1",))),
            *(job("b", "q", on=("n2",), minute=1), job("big", "q", gpu="2", minute=2)),
            actions="consolidation",
        )
    )
    assert len(found.calls["evict"]) == 1


def test_nobody_is_moved_who_would_lose_his_place() -> None:
    got = decided(
        cluster(
            *(node("n1", gpu=2), node("n2", gpu=2), queue("q"), job("a", "q", on=("n1",), gpu="2")),
            *(job("b", "q", on=("n2",), minute=1), job("big", "q", gpu="2", minute=2)),
            actions="consolidation",
        )
    )
    assert got == {"a-0": "Running n1", "b-0": "Running n2", "big-0": "Pending"}


def test_what_is_left_of_a_gang_goes_after_its_time_of_grace() -> None:
    parts = (node("n1", gpu=2), queue("q"), job("half", "q", on=("n1",), pods=2, gpu="2"))
    assert decided(cluster(*parts, actions="stalegangeviction"))["half-0"] == "Releasing n1"
    patient = cluster(*parts, actions="stalegangeviction", globalDefaultStalenessGracePeriod="60s")
    assert decided(patient)["half-0"] == "Running n1"


@pytest.mark.parametrize("actions", ["preempt", "reclaim", "consolidation", "stalegangeviction"])
def test_of_a_gang_on_a_node_that_is_gone_the_others_may_go(actions: str) -> None:
    """Its pods are there until somebody removes them; they leave no room."""
    lost = job("lost", "a", on=("gone", "n1"), pods=3 if actions == "stalegangeviction" else 2, priority="low")
    parts = (node("n1", gpu=2), node("n2", gpu=1), queue("a"), queue("b", quota=2), lost)
    helped = job("helped", "a" if actions == "preempt" else "b", gpu="2", minute=1)
    got = decided(cluster(*parts, helped, actions=actions))
    assert got["lost-0"].split()[0] == "Running"
    stale = actions == "stalegangeviction"
    assert (got["lost-1"], got["helped-0"]) == (
        ("Releasing n1", "Pending") if stale else ("Pipelined n2", "Pipelined n1")
    )


def test_work_that_cannot_be_evicted_stays_within_quota() -> None:
    got = decided(cluster(node("n1", gpu=2), queue("q", quota=1), job("fixed", "q", pods=2, priority="build")))
    assert set(got.values()) == {"Pending"}
    assert decided(cluster(node("n1", gpu=2), queue("q", quota=1), job("free", "q", pods=2)))["free-1"] == "Binding n1"


def test_a_queue_never_goes_beyond_its_limit_nor_that_of_its_parent() -> None:
    parts = (node("n1", gpu=4), queue("top", limit=2), queue("q", parent="top"), job("wide", "q", pods=4, least=1))
    assert sorted(decided(cluster(*parts)).values()) == ["Binding n1"] * 2 + ["Pending"] * 2


def test_recently_started_work_is_protected() -> None:
    def parts(**more: Any) -> tuple[object, ...]:
        started = {"kai.scheduler/last-start-timestamp": "2025-12-31T23:59:00Z"}
        return (
            *(node("n1", gpu=1), queue("a", quota=0, **more), queue("b", quota=1)),
            *(job("young", "a", on=("n1",), notes=started), job("claims", "b", minute=1)),
        )

    assert decided(cluster(*parts()))["young-0"] == "Releasing n1"  # type: ignore[arg-type]
    assert decided(cluster(*parts(reclaimMinRuntime="5m")))["young-0"] == "Running n1"  # type: ignore[arg-type]


def test_nobody_is_evicted_for_a_job_before_its_delay_is_over() -> None:
    parts = (node("n1", gpu=1), queue("a"), queue("b", quota=1), job("over", "a", on=("n1",)))
    late = cluster(*parts, job("claims", "b", minute=58, spec={"preemptionDelay": "10m"}))
    assert decided(late)["over-0"] == "Running n1"
    due = cluster(*parts, job("claims", "b", minute=5, spec={"preemptionDelay": "10m"}))
    assert decided(due)["over-0"] == "Releasing n1"


def test_shares_of_gpus_are_packed_onto_one() -> None:
    found = seen(cluster(node("n1", gpu=2), queue("q"), job("half", "q", pods=2, fraction="0.5")))
    groups = [task["gpuGroups"] for task in found.tasks.values()]
    assert groups[0] == groups[1]
    assert found.nodes["n1"]["idleGpus"] == 1


def test_shares_are_spread_where_the_conf_says_so() -> None:
    conf = {"tiers": [{"plugins": [{"name": n} for n in ("predicates", "proportion", "priority", "gpuspread")]}]}
    found = seen(cluster(node("n1", gpu=2), queue("q"), job("half", "q", pods=2, fraction="0.5"), conf=conf))
    groups = [task["gpuGroups"] for task in found.tasks.values()]
    assert groups[0] != groups[1]


def test_a_job_stays_within_one_domain_of_the_required_level() -> None:
    topology = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "metadata": {"name": "t"},
        "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname", "alias": "host"}]},
    }
    nodes = [node(f"n{n}", gpu=2, **{"rack": f"r{n // 2}", "kubernetes.io/hostname": f"n{n}"}) for n in range(4)]
    want = {"topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"}}
    got = decided(cluster(*nodes, topology, queue("q"), job("gang", "q", pods=4, spec=want)))
    assert {text.split()[1] for text in got.values()} in ({"n0", "n1"}, {"n2", "n3"})
    alone = {"topologyConstraint": {"topology": "t", "requiredTopologyLevel": "host"}}
    assert set(decided(cluster(*nodes, topology, queue("q"), job("gang", "q", pods=4, spec=alone))).values()) == {
        "Pending"
    }


def test_sub_groups_that_are_not_needed_come_after_those_that_are() -> None:
    spec = {
        "minMember": 0,
        "minSubGroup": 1,
        "subGroups": [{"name": "a", "minMember": 2}, {"name": "b", "minMember": 2}],
    }
    labels = {n: {"kai.scheduler/subgroup-name": "a" if n < 2 else "b"} for n in range(4)}
    got = decided(
        cluster(node("n1", gpu=2), queue("q"), job("tree", "q", pods=4, spec=spec, labels=labels), actions="allocate")
    )
    assert [got[f"tree-{n}"] for n in range(4)] == ["Binding n1"] * 2 + ["Pending"] * 2


@pytest.mark.parametrize(("compat", "lands"), [(None, "Binding cpu-node"), ("kai", "Binding gpu-node")])
def test_tasks_without_gpus_are_drawn_to_shared_ones_only_as_in_kai(compat: str | None, lands: str) -> None:
    case = cluster(
        *(node("cpu-node"), node("gpu-node", gpu=2), queue("q")),
        *(job("shares", "q", on=("gpu-node",), fraction="0.5"), job("plain", "q", gpu="0", minute=1)),
    )
    assert decided(case, compat)["plain-0"] == lands


def test_a_pod_with_a_resource_claim_is_not_placed_as_if_it_had_none() -> None:
    case = cluster(node("n1", gpu=1), queue("q"), job("claims", "q", gpu="0"))
    case.data["objects"]["pods"][0]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "c"}]
    assert decided(case)["claims-0"] == "Pending"


def test_a_queue_of_volcano_has_its_deserved_for_quota_and_no_limit_without_capability() -> None:
    volcano = {"metadata": {"name": "v"}, "spec": {"weight": 1, "deserved": {"nvidia.com/gpu": 1}}}
    got = decided(
        cluster(
            *(node("n1", gpu=2), volcano, queue("b", quota=1)),
            *(job("wide", "v", on=("n1", "n1"), pods=2, least=1), job("claims", "b", minute=1)),
        )
    )
    assert sorted(got.values()) == ["Pipelined n1", "Releasing n1", "Running n1"]


def test_a_gpu_that_is_shared_from_now_on_gets_a_name_that_no_other_gpu_of_the_node_has() -> None:
    ledger = world(node("n1", gpu=2), queue("q"), job("one", "q", pods=1, fraction="0.5")).nodes
    (at,) = ledger.table.by_name.values()
    first = ledger.mint(at)
    ledger.minted = 0
    ledger.shared[at.row] = {first: SharedGpu()}
    assert ledger.mint(at) != first


def test_a_victim_with_more_pods_than_its_minimum_gets_a_new_place_for_the_minimum_only() -> None:
    got = decided(
        cluster(
            *(node("n1", gpu=4), node("n2", gpu=4), queue("q", quota=8)),
            job("fixed", "q", on=("n2", "n2"), pods=2, priority="build"),
            job("low", "q", on=("n1",) * 4, pods=4, least=1, priority="low", minute=1),
            job("high", "q", gpu="4", minute=2),
            actions="preempt",
        )
    )
    assert got["high-0"] == "Pipelined n1"
    assert sorted(got[f"low-{n}"] for n in range(4)) == ["Pipelined n2", *["Releasing n1"] * 3]


def test_a_department_is_not_robbed_beyond_what_would_leave_it_as_well_served_as_the_other() -> None:
    got = decided(
        cluster(
            *(node("n1", gpu=4), queue("rich", quota=0, weight=1), queue("poor", quota=0, weight=1)),
            *(queue("r", parent="rich"), queue("p", parent="poor")),
            *(job(f"held{n}", "r", on=("n1", "n1"), pods=2, minute=n) for n in range(2)),
            job("asks", "p", pods=3, minute=9),
            actions="reclaim",
        )
    )
    assert set(got.values()) == {"Running n1", "Pending"}


def test_a_shard_sees_the_nodes_queues_and_jobs_of_its_pool() -> None:
    pool = {"kai.scheduler/node-pool": "blue"}
    parts = [node("n1", gpu=1, **pool), node("n2", gpu=1), queue("b"), queue("q"), job("in", "b"), job("out", "q")]
    parts[2]["metadata"]["labels"] = pool
    parts[4]["podGroups"][0]["metadata"]["labels"] = pool
    assert decided(cluster(*parts, nodePoolLabelValue="blue")) == {"in-0": "Binding n1"}
    assert decided(cluster(*parts, nodePoolLabelValue="")) == {"out-0": "Binding n2"}
    assert len(decided(cluster(*parts))) == 2


def test_what_started_a_moment_ago_is_left_alone_in_later_cycles_too() -> None:
    """The scheduler remembers starts itself: nobody need write them on the PodGroup."""
    case = cluster(
        *(node("n1", gpu=1), queue("a", reclaimMinRuntime="1h"), queue("b", quota=1)),
        *(job("first", "a"), job("second", "b", minute=1)),
    )
    objects = case.data["objects"]
    late = [objects["pods"].pop(), objects["podGroups"].pop()]
    runtime, assembly = Runtime(), prepare(case, default_registry())
    state = state_of(case, objects)
    report = run_cycle(state, assembly, runtime)
    assert report.binds == {"default/first-0": "n1"}
    objects["pods"][0] |= {"spec": {**objects["pods"][0]["spec"], "nodeName": "n1"}, "status": {"phase": "Running"}}
    objects["pods"].append(late[0])
    objects["podGroups"].append(late[1])
    for later, evicted in ((1800, []), (3700, ["default/first-0"])):
        state = state_of(case, objects)
        state.now = case.now + later
        assert run_cycle(state, assembly, runtime).evictions == evicted


def test_who_was_helped_gets_the_room_when_it_is_free() -> None:
    case = cluster(
        *(node("n1", gpu=2), queue("low"), queue("high", quota=2)),
        *(job("part", "low", on=("n1", "n1"), pods=2), job("gang", "high", pods=2, minute=1)),
    )
    runtime, assembly = Runtime(), prepare(case, default_registry())
    state = state_of(case, case.data["objects"])
    assert sorted(run_cycle(state, assembly, runtime).evictions) == ["default/part-0", "default/part-1"]
    for pod in [p for p in state.tasks.values() if p.name.startswith("part")]:
        state.apply(Gone("Pod", pod.key))
    state.now += 1
    assert run_cycle(state, assembly, runtime).binds == {"default/gang-0": "n1", "default/gang-1": "n1"}


@pytest.mark.parametrize(("restricts", "expected"), [(False, {"n0", "n1"}), (True, {"n2"})])
def test_where_only_workers_are_used_tasks_go_to_those_of_their_kind(restricts: bool, expected: set[str]) -> None:
    labelled = {"node-role.kubernetes.io/gpu-worker": ""}
    case = cluster(
        *(node("n0", gpu=1), node("n1", gpu=1), node("n2", gpu=1, **labelled), queue("q")),
        node("n3", gpu=1, **{"node-role.kubernetes.io/cpu-worker": ""}),
        *(job(f"j{n}", "q", minute=n) for n in range(2)),
        actions="allocate",
        restrictSchedulingNodes=restricts,
    )
    placed = {task["node"] for task in seen(case).tasks.values() if task["status"] == "Binding"}
    assert placed == expected


@pytest.mark.parametrize(
    ("minutes", "threshold", "free"), [(1, "", True), (3, "", False), (3, "5m", True), (3, "0s", False)]
)
def test_a_pod_that_does_not_leave_keeps_its_room(minutes: int, threshold: str, free: bool) -> None:
    going = job("going", "q", on=("n1",))
    going["pods"][0]["metadata"]["deletionTimestamp"] = f"2025-12-31T23:{60 - minutes:02d}:00Z"
    params: dict[str, Any] = {"stuckInReleasingThreshold": threshold} if threshold else {}
    got = decided(
        cluster(node("n1", gpu=1), queue("q"), going, job("new", "q", minute=5), actions="allocate", **params)
    )
    assert got["new-0"] == ("Pipelined n1" if free else "Pending")
