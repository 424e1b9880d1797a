from __future__ import annotations

from typing import Any

import pytest

from pumice.errors import InvalidInput
from pumice.framework.compat import VOLCANO, Compat
from pumice.framework.plugin import Arguments, Plugin
from pumice.framework.session.session import Session
from pumice.model import api
from pumice.model.events import Seen
from pumice.model.reason import Code
from pumice.plugins.binpack import Binpack
from pumice.plugins.nodeorder import NodeOrder
from pumice.plugins.predicates import Predicates
from pumice.plugins.resource_strategy_fit import ResourceStrategyFit
from pumice.state.cluster import ClusterState

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
OFF = {
    f"{name}.weight": 0
    for name in (
        *("leastrequested", "mostrequested", "balancedresource", "nodeaffinity", "podaffinity", "tainttoleration"),
        *("imagelocality", "podtopologyspread"),
    )
}


def node(name: str, taints: list[Json] | None = None, images: list[Json] | None = None, **amounts: Any) -> Json:
    allocatable = {"cpu": "8", "memory": "8Gi", "pods": "110", **amounts}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"taints": taints or []},
        "status": {"allocatable": allocatable, "images": images or []},
    }


def pod(
    name: str, on: str = "", image: str = "", notes: Json | None = None, labels: Json | None = None, **more: Any
) -> Json:
    requests = more.pop("requests", {"cpu": "1", "memory": "1Gi"})
    where = {"nodeName": on} if on else {}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": notes or {}, "labels": labels or {}},
        "spec": {"containers": [{"name": "c", "image": image, "resources": {"requests": requests}}], **where, **more},
        "status": {"phase": "Running" if on else "Pending"},
    }


def opened(plugin: type[Plugin], arguments: Json, nodes: list[Json], pods: list[Json], **session: Any) -> Session:
    state = ClusterState()
    for kind, listed in (("Node", nodes), ("Pod", pods)):
        for data in listed:
            state.apply(Seen(api.decode(kind, data)))
    ssn = Session(state, **session)
    ssn.open_plugin(plugin(Arguments(arguments, owner=plugin.name)))
    assert not ssn.errors
    return ssn


def _as(compat: Compat | None) -> dict[str, Any]:
    return {"compat": compat} if compat else {}


def scores(ssn: Session, name: str) -> dict[str, float]:
    return ssn.batch_node_order(ssn.state.tasks[name], [n for _, n in sorted(ssn.nodes.items())])


# -- binpack --------------------------------------------------------------------------------------------------------
def test_binpack_weighs_further_resources_by_their_own_weight() -> None:
    arguments = {"binpack.weight": "2", "binpack.resources": GPU, f"binpack.resources.{GPU}": "3"}
    wanted = {"cpu": "4", "memory": "2Gi", GPU: "2"}
    ssn = opened(Binpack, arguments, [node("a", None, None, **{GPU: "8"}), node("b")], [pod("p", requests=wanted)])
    assert scores(ssn, "p") == {
        "a": pytest.approx(200 * (0.5 + 0.25 + 3 * 0.25) / 5),
        "b": pytest.approx(200 * (0.5 + 0.25) / 5),
    }


def test_binpack_gives_nothing_where_one_resource_would_not_fit() -> None:
    ssn = opened(Binpack, {}, [node("a")], [pod("r", on="a", requests={"cpu": "7500m"}), pod("p")])
    assert scores(ssn, "p") == {"a": 0.0}


def test_binpack_takes_a_negative_weight_as_one_and_weight_zero_as_off() -> None:
    objects = [node("a")], [pod("p")]
    plain = scores(opened(Binpack, {}, *objects), "p")
    assert scores(opened(Binpack, {"binpack.weight": -4, "binpack.cpu": -1}, *objects), "p") == plain
    assert scores(opened(Binpack, {"binpack.weight": 0}, *objects), "p") == {"a": 0.0}


def test_a_weight_that_is_no_number_is_an_error_that_names_it() -> None:
    with pytest.raises(InvalidInput, match=r"argument binpack.cpu: must be a whole number, got 'much'"):
        Binpack(Arguments({"binpack.cpu": "much"}))


# -- nodeorder ------------------------------------------------------------------------------------------------------
def test_balance_looks_at_gpus_only_when_they_are_asked_for() -> None:
    nodes = [node("a", None, None, **{GPU: "2"}), node("b", None, None, **{GPU: "4"})]
    arguments = {**OFF, "balancedresource.weight": 1}
    with_gpu = pod("p", requests={"cpu": "4", "memory": "4Gi", GPU: "2"})
    assert scores(opened(NodeOrder, arguments, nodes, [with_gpu]), "p") == {"a": 63.0, "b": 75.0}
    without = pod("p", requests={"cpu": "4", "memory": "4Gi"})
    assert scores(opened(NodeOrder, arguments, nodes, [without]), "p") == {"a": 75.0, "b": 75.0}


def test_images_on_more_nodes_score_higher_and_untagged_means_latest() -> None:
    mib = 1024 * 1024
    here = [{"names": ["repo/app:latest"], "sizeBytes": 1000 * mib}]
    nodes = [node("a", images=here), node("b", images=here), node("c")]
    ssn = opened(NodeOrder, {**OFF, "imagelocality.weight": 1}, nodes, [pod("p", image="repo/app")])
    first, second = 1000 * mib // 3, 1000 * mib * 2 // 3
    low, high = 23 * mib, 1000 * mib
    assert scores(ssn, "p") == {
        "a": 100 * (first - low) // (high - low),
        "b": 100 * (second - low) // (high - low),
        "c": 0.0,
    }


def test_under_compat_scores_without_predicates_do_not_see_placements_of_the_cycle() -> None:
    objects = [node("a")], [pod("p"), pod("q")]
    for compat, seen in ((None, True), (VOLCANO, False)):
        ssn = opened(NodeOrder, {}, *objects, **_as(compat))
        before = scores(ssn, "q")
        ssn.statement().allocate(ssn.state.tasks["p"], ssn.nodes["a"])
        assert (scores(ssn, "q") != before) is seen


# -- predicates -----------------------------------------------------------------------------------------------------
def test_a_filter_can_be_turned_off_by_its_argument() -> None:
    tainted = [node("a", taints=[{"key": "k", "effect": "NoSchedule"}])]
    on = opened(Predicates, {}, tainted, [pod("p")])
    reason = on.search.objection(on.state.tasks["p"], on.nodes["a"])
    assert reason is not None
    assert (reason.text, reason.code) == ("node(s) had untolerated taint {k: }", Code.UNRESOLVABLE)
    off = opened(Predicates, {"predicate.TaintTolerationEnable": "false"}, tainted, [pod("p")])
    assert off.search.objection(off.state.tasks["p"], off.nodes["a"]) is None


def hostile(name: str, **more: Any) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod(name, labels={"app": "x"}, affinity=rules, **more)


def test_eviction_helps_against_anti_affinity_but_not_under_compat() -> None:
    for compat, helps in ((None, True), (VOLCANO, False)):
        ssn = opened(
            Predicates, {}, [node("a")], [hostile("r", on="a"), hostile("p")], **({"compat": compat} if compat else {})
        )
        task, there = ssn.state.tasks["p"], ssn.nodes["a"]
        reason = ssn.search.objection(task, there)
        assert reason is not None
        assert reason.evictable
        ssn.pre_predicate(task)
        ssn.statement().evict(ssn.state.tasks["r"], "test")
        assert (ssn.search.objection(task, there) is None) is helps
        ssn.pre_predicate(task)
        assert ssn.search.objection(task, there) is None


def test_anti_affinity_of_a_pod_placed_in_this_cycle_keeps_others_away_but_not_under_compat() -> None:
    for compat, kept_away in ((None, True), (VOLCANO, False)):
        ssn = opened(
            *(Predicates, {}, [node("a")], [hostile("p"), pod("q", labels={"app": "x"})]),
            **_as(compat),
        )
        ssn.statement().allocate(ssn.state.tasks["p"], ssn.nodes["a"])
        reason = ssn.search.objection(ssn.state.tasks["q"], ssn.nodes["a"])
        assert (reason is not None) is kept_away


# -- resource-strategy-fit ------------------------------------------------------------------------------------------
def test_the_longest_prefix_decides_unless_the_whole_name_is_listed() -> None:
    resources = {
        "nvidia.com/*": {"type": "LeastAllocated", "weight": 1},
        "*": {"type": "LeastAllocated", "weight": 7},
        GPU: {"type": "MostAllocated", "weight": 1},
    }
    wanted = {"nvidia.com/gpu": "1", "nvidia.com/mig": "1"}
    arguments = {"resourceStrategyFitWeight": 1, "resources": {**resources, "pods": {"weight": 0}}}
    ssn = opened(
        *(ResourceStrategyFit, arguments),
        [node("a", None, None, **{GPU: "4", "nvidia.com/mig": "4"})],
        [pod("p", requests=wanted)],
    )
    assert scores(ssn, "p") == {"a": pytest.approx(100 * (0.25 + 0.75) / 2)}


def test_a_pod_chooses_its_own_strategy_by_annotations() -> None:
    kind, weight = "volcano.sh/resource-strategy-scoring-type", "volcano.sh/resource-strategy-weight"
    pods = [
        pod("own", notes={kind: "MostAllocated", weight: '{"cpu": 1}'}, requests={"cpu": "2"}),
        pod("bad", notes={kind: "MostAllocated", weight: "cpu"}, requests={"cpu": "2"}),
        pod("none", requests={"cpu": "2"}),
    ]
    ssn = opened(ResourceStrategyFit, {"resourceStrategyFitWeight": 1}, [node("a")], pods)
    assert [scores(ssn, name)["a"] for name in ("own", "bad", "none")] == [25.0, 75.0, 75.0]


def test_tasks_that_ask_for_no_scarce_resource_prefer_nodes_without_it() -> None:
    sra = {"enable": True, "resources": GPU, "weight": 2, "resourceWeight": {GPU: 5}}
    arguments = {"resourceStrategyFitWeight": 0, "sra": sra}
    ssn = opened(ResourceStrategyFit, arguments, [node("a", None, None, **{GPU: "4"}), node("b")], [pod("p")])
    assert scores(ssn, "p") == {"a": 0.0, "b": 200.0}


def test_cpu_and_memory_are_kept_for_idle_devices() -> None:
    rates = {f"{GPU}.cpu": 1, f"{GPU}.memory": 1}
    arguments = {"proportional": {"enable": True, "resources": GPU, "resourceProportion": rates}}
    nodes = [node("a", None, None, **{GPU: "7"}), node("b", None, None, **{GPU: "8"}), node("c")]
    ssn = opened(ResourceStrategyFit, arguments, nodes, [pod("p"), pod("g", requests={"cpu": "8", GPU: "1"})])
    reasons = {n: ssn.search.objection(ssn.state.tasks["p"], found) for n, found in sorted(ssn.nodes.items())}
    assert reasons["a"] is None
    assert reasons["c"] is None
    assert reasons["b"] is not None
    assert reasons["b"].code is Code.UNRESOLVABLE
    assert reasons["b"].text == f"proportional of resource {GPU} check failed"
    assert ssn.search.objection(ssn.state.tasks["g"], ssn.nodes["b"]) is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"resources": 3}, "argument resources: must be a mapping, got 3"),
        ({"resources": {"cpu": {"type": "Most"}}}, "resources.cpu.type: must be MostAllocated or LeastAllocated"),
        ({"resources": {"cpu": {"weight": "x"}}}, "resources.cpu.weight: must be a whole number, got 'x'"),
        (
            {"proportional": {"enable": True, "resources": GPU, "resourceProportion": {f"{GPU}.cpu": "x"}}},
            "resourceProportion.nvidia.com/gpu.cpu: must be a number, got 'x'",
        ),
    ],
)
def test_a_wrong_argument_is_an_error_that_names_it(arguments: Json, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ResourceStrategyFit(Arguments(arguments))
    assert text in str(caught.value)
