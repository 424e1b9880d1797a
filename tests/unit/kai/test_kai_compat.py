"""What is KAI's way with ``compat: kai``, and the right one without."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from kai_cases import cluster, conf_with, decided, job, node, queue, seen
from kai_plans import fraction_evicted_beside_promises, twice_evicted, undone_move

LEVELS = {"metadata": {"name": "net"}, "spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "host"}]}}
IN_A_ZONE = {"topologyConstraint": {"topology": "net", "requiredTopologyLevel": "zone"}}


@pytest.mark.parametrize(("compat", "does"), [(None, "Pipelined n1"), ("kai", "Pending")])
def test_a_required_level_is_met_although_one_node_alone_may_get_room(compat: str | None, does: str) -> None:
    case = cluster(
        *(node("n1", gpu=2, zone="a", host="n1"), node("n2", zone="a", host="n2"), LEVELS, queue("q", quota=4)),
        job("low", "q", on=("n1", "n1"), pods=2, priority="low"),
        job("high", "q", pods=2, minute=1, spec=IN_A_ZONE),
    )
    got = decided(case, compat)
    assert {got["high-0"], got["high-1"]} == {does}


def test_a_victim_that_would_return_before_it_got_away_is_promised_the_place_that_was_found() -> None:
    assert twice_evicted() == "n2"


def test_promises_on_a_node_do_not_take_a_gpu_from_it() -> None:
    assert fraction_evicted_beside_promises() == (1, 1)


def test_a_move_between_gpus_that_is_taken_back_leaves_nothing_behind() -> None:
    assert undone_move() == 0.5


@pytest.mark.parametrize(("compat", "served"), [(None, "modest-0"), ("kai", "more-0")])
def test_who_holds_more_gpus_than_its_share_is_served_after_who_does_not(compat: str | None, served: str) -> None:
    """Queue *a* has twice its GPUs and little else; its priority would put it first."""
    case = cluster(
        *(node("n1", gpu=5), queue("a", quota=2, weight=0, priority=200), queue("b")),
        job("hoard", "a", on=("n1",) * 4, pods=4),
        *(job("more", "a", minute=1), job("modest", "b", minute=2)),
        actions="allocate",
    )
    got = decided(case, compat)
    assert [name for name in ("more-0", "modest-0") if got[name] == "Binding n1"] == [served]


def _counted(name: str, cpu: float, **more: Any) -> dict[str, Any]:
    """A queue that is entitled to so many thousandths of CPU."""
    made = queue(name, **more)
    made["spec"]["resources"]["cpu"] = {"quota": cpu, "limit": -1, "overQuotaWeight": 0}
    return made


@pytest.mark.parametrize(("compat", "goes"), [(None, False), ("kai", True)])
def test_an_excess_of_cpu_does_not_expose_gpus(compat: str | None, goes: bool) -> None:
    """The new job asks for no CPU; the queue that has too much of that holds its own GPUs only."""
    needs = job("needs", "b", minute=9)
    del needs["pods"][0]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    case = cluster(
        *(node("n1", gpu=2), _counted("a", 1000, quota=2, weight=0), _counted("b", 1000, quota=2, weight=0)),
        *(job(f"old{n}", "a", on=("n1",), minute=n) for n in range(2)),
        needs,
    )
    assert ("Releasing n1" in decided(case, compat).values()) is goes


@pytest.mark.parametrize(("compat", "does"), [(None, "Binding n1"), ("kai", "Pending")])
def test_a_limit_that_is_not_given_is_none(compat: str | None, does: str) -> None:
    unset = queue("q", quota=1)
    del unset["spec"]["resources"]["gpu"]["limit"]
    closed = queue("closed", quota=1, limit=0)
    got = decided(cluster(node("n1", gpu=2), unset, closed, job("a", "q"), job("b", "closed", minute=1)), compat)
    assert (got["a-0"], got["b-0"]) == (does, "Pending")


@pytest.mark.parametrize(("compat", "zones"), [(None, {"a": 2, "b": 1}), ("kai", {"a": 3})])
def test_pods_that_must_be_spread_are(compat: str | None, zones: dict[str, int]) -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    made = job("even", "q", pods=3, labels={n: {"app": "x"} for n in range(3)})
    for one in made["pods"]:
        one["spec"]["topologySpreadConstraints"] = [{**spread, "labelSelector": {"matchLabels": {"app": "x"}}}]
    nodes = [node("n1", gpu=4, zone="a"), node("n2", gpu=8, zone="b"), node("n3", gpu=8)]
    got = decided(cluster(*nodes, queue("q"), made, actions="allocate"), compat)
    assert Counter({"n1": "a", "n2": "b", "n3": "-"}[place.split()[1]] for place in got.values()) == zones


@pytest.mark.parametrize(("compat", "does"), [(None, "Pipelined"), ("kai", "Pending")])
def test_work_is_moved_together_for_a_job_that_may_not_be_evicted(compat: str | None, does: str) -> None:
    case = cluster(
        *(node("n1", gpu=2), node("n2", gpu=2), queue("q", quota=4)),
        *(job("one", "q", on=("n1",)), job("two", "q", on=("n2",), minute=1)),
        job("whole", "q", gpu="2", minute=2, priority="build"),
        actions="allocate, consolidation",
    )
    assert decided(case, compat)["whole-0"].split()[0] == does


@pytest.mark.parametrize(("compat", "lands"), [(None, "n2"), ("kai", "n1")])
def test_company_is_worth_less_than_the_node_that_a_pod_is_nominated_to(compat: str | None, lands: str) -> None:
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "cache"}}}
    keen = {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}
    }
    new = job("new", "q", minute=1)
    new["pods"][0]["spec"]["affinity"] = keen
    new["pods"][0]["status"]["nominatedNodeName"] = "n2"
    case = cluster(
        *(node("n1", gpu=2, host="n1"), node("n2", gpu=2, host="n2"), queue("q"), new),
        job("old", "q", on=("n1",), labels={0: {"app": "cache"}}),
        conf=conf_with("podaffinity"),
        actions="allocate",
    )
    assert decided(case, compat)["new-0"] == f"Binding {lands}"


ONE_OF_TWO = {"minSubGroup": 1, "subGroups": [{"name": name, "minMember": 1} for name in ("a", "b")]}
IN_BOTH = {n: {"kai.scheduler/subgroup-name": name} for n, name in enumerate(("a", "b"))}


@pytest.mark.parametrize(("compat", "evicted"), [(None, ["default/low-0"]), ("kai", [])])
def test_who_needs_one_sub_group_of_two_is_helped_in_earnest(compat: str | None, evicted: list[str]) -> None:
    """In KAI the plan is neither done nor undone: it stands until the cycle ends."""
    case = cluster(
        *(node("n1", gpu=1), queue("q", quota=1), job("low", "q", on=("n1",), priority="low")),
        job("high", "q", pods=2, minute=1, spec=ONE_OF_TWO, labels=IN_BOTH),
        actions="allocate, preempt",
    )
    assert decided(case, compat) == {"low-0": "Releasing n1", "high-0": "Pipelined n1", "high-1": "Pending"}
    assert seen(case, compat).calls["evict"] == evicted


@pytest.mark.parametrize(("compat", "does"), [(None, "Running n1"), ("kai", "Releasing n1")])
def test_what_runs_without_a_sub_group_that_it_does_not_need_is_not_stale(compat: str | None, does: str) -> None:
    case = cluster(
        *(node("n1", gpu=1), queue("q", quota=1)),
        job("half", "q", on=("n1",), pods=2, spec=ONE_OF_TWO, labels=IN_BOTH),
        actions="stalegangeviction",
    )
    assert decided(case, compat)["half-0"] == does


@pytest.mark.parametrize(("compat", "does"), [(None, "Binding n1"), ("kai", "Pipelined n1")])
def test_a_gpu_with_room_goes_before_one_that_is_being_released(compat: str | None, does: str) -> None:
    """One GPU is shared and has room, the other is left by somebody; whole ones have the better score."""
    old = job("old", "q", on=("n1",), fraction="0.25")
    old["pods"][0]["metadata"]["labels"] = {"runai-gpu-group": "g0"}
    going = job("going", "q", on=("n1",))
    going["pods"][0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spread = {"tiers": [{"plugins": [{"name": name} for name in ("predicates", "proportion", "gpuspread")]}]}
    case = cluster(
        *(node("n1", gpu=2), queue("q", quota=4), old, going, job("new", "q", minute=1, fraction="0.25")),
        actions="allocate",
        conf=spread,
    )
    assert decided(case, compat)["new-0"] == does


@pytest.mark.parametrize(("compat", "does"), [(None, "Pipelined n1"), ("kai", "Pending")])
def test_a_job_that_runs_in_part_in_a_domain_grows_by_what_victims_leave(compat: str | None, does: str) -> None:
    """It runs with two GPUs and wants a third; two can be freed."""
    case = cluster(
        *(node("n1", gpu=4, zone="a", host="n1"), node("n2", zone="b", host="n2"), LEVELS, queue("q", quota=4)),
        *(job(f"low{n}", "q", on=("n1",), priority="low", minute=n) for n in range(2)),
        job("grows", "q", on=("n1", "n1"), pods=3, least=1, minute=2, spec=IN_A_ZONE),
        actions="allocate, preempt",
    )
    got = decided(case, compat)
    assert got["grows-2"] == does
    assert Counter(got.values())["Releasing n1"] == (does != "Pending")
