"""What an explanation says is true, and no part of it contradicts another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pumice import Event, EventHandler, Node, Plugin, Queue, Scope, Session, Task, Unfit, Verdict, reject
from pumice.answers.why import WhyAnswer
from pumice.cli.text import show_why
from pumice.config import from_data
from pumice.framework.explaining.explain import Explanation, Stage, explain
from pumice.framework.registry import Registry
from pumice.model.api import PodSpec, Toleration, decode
from pumice.model.limit import Bound
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.testing import Scenario, queue

Named = str | type[Plugin] | tuple[str, dict[str, Any]]
GPU = "nvidia.com/gpu"


def why(scenario: Scenario, job: str, *plugins: Named, actions: str = "enqueue, allocate, backfill") -> Explanation:
    """Run one cycle and explain a job of namespace ``default``."""
    registry = Registry()
    listed: list[dict[str, Any]] = []
    for plugin in plugins or ("gang", "predicates"):
        if isinstance(plugin, tuple):
            listed.append({"name": plugin[0], "arguments": plugin[1]})
        elif isinstance(plugin, str):
            listed.append({"name": plugin})
        else:
            registry.register(plugin.name, plugin)
            listed.append({"name": plugin.name})
    found: list[Explanation] = []
    conf = from_data({"actions": actions, "tiers": [{"plugins": listed}]}, catalogue_of(registry)).conf

    def inspect(ssn: Session) -> None:
        found.append(explain(ssn, ssn.state.jobs[f"default/{job}"]))

    run_cycle(scenario.state, assemble(conf, registry), scenario.runtime, inspect=inspect)
    return found[0]


# -- room that is made ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sharing", [(), ("proportion",), ("capacity",)], ids=lambda names: "".join(names) or "none")
@pytest.mark.parametrize("action", ["preempt", "gangpreempt", "reclaim", "gangreclaim"])
def test_a_job_for_which_others_were_evicted_is_told_that_it_waits_for_them(
    action: str, sharing: tuple[str, ...]
) -> None:
    """Whoever refused it did so before, its queue or the nodes: they are not in its way any more."""
    theirs = "a" if action in ("preempt", "gangpreempt") else "b"
    deserved = {"cpu": 4 if theirs == "a" else 2}
    scenario = Scenario(queue("a", deserved=deserved), queue("b", deserved={"cpu": 2})).node("n1", cpu=4)
    for n in range(4):
        scenario.job(f"low{n}", on="n1", queue=theirs, priority=1)
    scenario.job("high", tasks=2, queue="a", priority=10)
    found = why(scenario, "high", "priority", "gang", "predicates", *sharing, actions=f"enqueue, allocate, {action}")
    assert found.tasks == {"Pipelined": 2}
    assert (found.stage, found.code) == (Stage.READY, "GangNotReady")
    assert found.text == "room is being made for it on n1"
    assert (found.limits, found.reasons, found.nearest) == ([], [], None)
    assert found.unblock == ["the pods that are being removed from its nodes are gone"]


# -- nobody placed or refused it -------------------------------------------------------------------------------------
@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("actions", ["enqueue, allocate, backfill", "enqueue, allocate", "enqueue, easybackfill"])
def test_a_job_whose_pods_break_a_rule_is_told_which(scenario: Scenario, actions: str, tasks: int) -> None:
    scenario.node("n1", cpu=8).job("a", tasks=tasks, cpu=-1)
    found = why(scenario, "a", actions=actions)
    others = f", and {tasks - 1} other pods" if tasks > 1 else ""
    assert found.text == f"pod a-0 cannot be used: request cpu: must not be negative, got -1000{others}"
    assert (found.code, found.unblock) == ("Invalid", ["mend its pods"])


def test_gates_are_named_with_who_can_open_them(scenario: Scenario) -> None:
    gates = ({"name": "quota"}, {"name": "images"})
    scenario.node("n1").job("a", spec=msgspec.convert({"schedulingGates": gates, "containers": []}, PodSpec))
    found = why(scenario, "a")
    assert found.text == "its pods have scheduling gates: images, quota"
    assert found.unblock == ["whoever set the gates takes them away"]


# -- nodes ----------------------------------------------------------------------------------------------------------
def test_tasks_that_have_a_node_are_told_apart_from_the_one_that_has_none(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).node("n2", cpu=4).node("n3", cpu=3).job("a", tasks=3, cpu=4)
    found = why(scenario, "a")
    assert found.room_for == 2
    assert found.text.startswith("2 of 3 pods have a node. a-2 fits on none of 3 nodes: ")
    assert found.unblock == ["1 more cpu on n3, for the task that has no node yet"]


def test_room_for_one_task_is_not_said_to_be_enough_for_two(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).node("n2", cpu=3).job("a", tasks=3, cpu=4)
    found = why(scenario, "a")
    assert found.room_for == 1
    assert found.unblock == ["1 more cpu on n2, for the next of 2 tasks that have no node yet"]


@pytest.mark.parametrize(("tasks", "whom"), [(1, ""), (2, ", for the first of the 2 tasks that it needs")])
def test_what_one_task_lacks_is_not_said_to_be_all_that_the_job_lacks(tasks: int, whom: str) -> None:
    scenario = Scenario(queue("default")).node("n1", cpu=2).job("runs", tasks=2, on="n1").job("a", tasks=tasks)
    assert why(scenario, "a", actions="enqueue, allocate, preempt").unblock == [
        f"1 more cpu free on one node{whom}; n1 comes nearest"
    ]


def test_a_gang_of_which_nothing_fits_is_told_that_it_fits_no_node(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).job("old", cpu=3, on="n1").job("a", tasks=3, cpu=2)
    found = why(scenario, "a")
    assert (found.room_for, found.text) == (0, "fits on none of 1 nodes: 1 Insufficient cpu")


def test_room_that_the_job_itself_may_not_use_twice_is_no_room(scenario: Scenario) -> None:
    """Its tasks shun each other: three nodes' worth of room on one node is room for one of them."""
    terms = [{"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}]
    shy = decode(
        "Pod", {"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}}
    )
    scenario.node("n1", cpu=9, labels={"kubernetes.io/hostname": "n1"})
    scenario.job("a", tasks=3, cpu=2, spec=shy.spec, task_labels={"app": "a"})  # type: ignore[attr-defined]
    found = why(scenario, "a")
    assert (found.stage, found.room_for) == (Stage.NODES, 1)
    assert found.text.startswith("1 of 3 pods have a node")
    assert (found.nearest, found.unblock) == (None, [])


def test_eviction_could_help_only_where_a_node_is_large_enough_and_nobody_objects(scenario: Scenario) -> None:
    scenario.node("large", cpu=8).node("small", cpu=3).node("tainted", cpu=8, taints=["dedicated=x:NoSchedule"])
    tolerant = PodSpec(tolerations=(Toleration(operator="Exists"),))
    for name in ("large", "small", "tainted"):
        scenario.job(f"on-{name}", cpu=2, on=name, spec=tolerant)
    scenario.job("a", cpu=8)
    found = why(scenario, "a")
    assert [(r.text, r.nodes, r.helps_on, r.eviction_helps) for r in found.reasons] == [
        ("Insufficient cpu", 3, 1, True)
    ]
    assert found.large_enough == sum(r.helps_on for r in found.reasons) == 1
    assert "evicting could free 1 node; add preempt or reclaim to the conf" in found.unblock


def test_nobody_to_evict_is_no_help(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).job("a", cpu=2)
    scenario.job("fixed", cpu=3, on="n1", task_annotations={"volcano.sh/preemptable": "false"})
    found = why(scenario, "a")
    assert (found.reasons[0].eviction_helps, found.large_enough) == (False, 0)


@pytest.mark.parametrize(
    ("conf", "stops"),
    [
        (("gang", "proportion"), "queue resource quota insufficient"),
        (("gang", "capacity"), "queue resource quota insufficient"),
        (("gang", "overcommit"), "resource in cluster is overused"),
        (("gang", "predicates"), "queue resource quota insufficient"),
    ],
)
def test_a_pod_larger_than_every_node_is_told_so_first(scenario: Scenario, conf: tuple[str, ...], stops: str) -> None:
    scenario.node("n1", cpu=8, gpu=4).queue("q", capability={GPU: 2, "cpu": 8})
    scenario.job("a", cpu=1, gpu=9, queue="q", min_resources={GPU: 9, "cpu": 1})
    found = why(scenario, "a", *conf)
    assert (found.stage, found.code) == (Stage.NODES, "CanNeverFit")
    assert found.text.startswith(f"can never fit: a-0 asks for 9 {GPU}, and no node has more than 4")
    assert f"; besides: {stops}" in found.text
    assert found.unblock == ["a larger node, or a smaller request"]


def test_no_node_may_have_all_that_a_pod_asks_for_though_some_have_each(scenario: Scenario) -> None:
    scenario.node("thick", cpu=64).node("gpus", cpu=8, gpu=8).job("a", cpu=32, gpu=1)
    assert why(scenario, "a").text == f"can never fit: a-0 asks for 32 cpu and 1 {GPU}, and no node has all of it"


def test_a_job_that_can_do_without_its_largest_pod_is_not_told_that_it_can_never_fit(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).job("old", cpu=4, on="n1")
    scenario.job("a", tasks=2, min_available=1, cpu=2).pod("a-9", group="a", cpu=99)
    found = why(scenario, "a")
    assert (found.stage, found.code) == (Stage.NODES, "NoNodeFits")


def test_a_cluster_without_nodes_says_that_there_are_none(scenario: Scenario) -> None:
    scenario.job("a", tasks=1, cpu=1)
    found = why(scenario, "a")
    assert (found.code, found.text, found.unblock) == ("NoNodeFits", "there are no nodes", ["nodes"])


# -- served, and waiting --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("tasks", "least", "text"),
    [(3, 3, "3 of 3 required tasks have a place"), (4, 3, "3 of 3 required tasks have a place, and 1 more")],
)
def test_a_served_job_has_as_many_required_tasks_as_it_requires(
    scenario: Scenario, capsys: pytest.CaptureFixture[str], tasks: int, least: int, text: str
) -> None:
    scenario.node("n1", cpu=8).job("a", tasks=tasks, min_available=least, cpu=1, on="n1")
    found = why(scenario, "a")
    assert (found.stage, found.text) == (Stage.SERVED, text)
    show_why(WhyAnswer(explanation=found, now=0.0), whole=True)
    out = capsys.readouterr().out
    assert text in out
    assert "stopped at" not in out


@pytest.mark.parametrize("least", [0, 1, 2])
@pytest.mark.parametrize("plugins", [("gang", "predicates"), ("predicates",)])
def test_a_job_whose_pods_ask_for_nothing_and_fit_nowhere_waits(
    scenario: Scenario, least: int, plugins: tuple[str, ...]
) -> None:
    scenario.node("n1", cpu=4)
    scenario.job("a", tasks=2, min_available=least, cpu=0, spec=PodSpec(node_selector={"pool": "gold"}))
    found = why(scenario, "a", *plugins)
    text = "node(s) didn't match Pod's node affinity/selector"
    assert (found.stage, found.code) == (Stage.NODES, "NoNodeFits")
    assert [(r.text, r.nodes) for r in found.reasons] == [(text, 1)]
    assert (found.position, found.waiting) == (1, 1)


def test_its_pod_group_does_not_say_that_it_is_scheduled(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4)
    scenario.job("a", tasks=2, cpu=0, spec=PodSpec(node_selector={"pool": "gold"}))
    told = [
        (c["type"], c["reason"])
        for i in scenario.run(plugins=["gang", "predicates"]).updates
        for c in getattr(i, "status", {}).get("conditions", [])
    ]
    assert told == [("Unschedulable", "NotEnoughResources")]


def test_pods_that_ask_for_nothing_wait_for_an_action_that_places_such(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).job("a", cpu=0)
    found = why(scenario, "a", actions="enqueue, allocate")
    assert (found.stage, found.code) == (Stage.UNSEEN, "NotTried")
    assert "backfill" in found.text


def test_a_job_that_waits_to_be_let_in_has_a_place_in_the_line(
    scenario: Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario.node("n1", cpu=2)
    for name in ("a", "b"):
        scenario.job(name, tasks=0, min_available=2, min_resources={"cpu": 40}, phase="Pending")
    found = why(scenario, "b", "gang", "overcommit")
    assert (found.stage, found.position, found.waiting, found.let_in) == (Stage.ENQUEUE, 2, 2, False)
    show_why(WhyAnswer(explanation=found, now=0.0), whole=True)
    out = capsys.readouterr().out
    assert "position 2 of 2 in queue default, not yet admitted" in out
    assert "none yet; needs 2 together" in out


def test_a_gang_whose_pods_are_not_there_is_told_how_many_are(scenario: Scenario) -> None:
    scenario.node("n1", cpu=8).job("a", tasks=1, min_available=3, cpu=1)
    told = [
        (c["reason"], c["message"])
        for i in scenario.run(plugins=["gang"]).updates
        for c in getattr(i, "status", {}).get("conditions", [])
    ]
    assert told == [("NotEnoughTasks", "1 of the 3 pods that it needs together exist")]


# -- numbers beside every limit -------------------------------------------------------------------------------------
def shared(weight: int, capability: int) -> Scenario:
    """Two queues want all of 24 GPUs; *weight* and *capability* are of one of them, which runs 12 and wants 10 more."""
    s = Scenario()
    for n in range(3):
        s.node(f"n{n}", cpu=99, gpu=8)
    s.queue("mine", weight=weight, capability={GPU: capability, "cpu": 99}).queue("other", weight=3)
    s.job("first", tasks=6, gpu=2, cpu=1, queue="mine", on=[f"n{n // 4}" for n in range(6)])
    s.job("a", tasks=5, gpu=2, cpu=1, queue="mine").job("rival", tasks=12, gpu=2, cpu=1, queue="other")
    return s


def test_a_share_by_weight_is_told_as_such_however_high_the_capability() -> None:
    for capability in (20, 40):
        found = why(shared(2, capability), "a", "gang", "proportion")
        (at,) = found.limits
        assert (at.of, at.resource, at.holds, at.bound, at.asks) == ("queue mine", GPU, 12, Bound.SHARE, 10)
        assert at.may_have == pytest.approx(24 * 2 / 5)
        assert at.detail == "weight 2 of 5"
        assert "raise the weight of queue mine" in found.unblock[0]
        assert "capability" not in found.unblock[0]


def test_a_capability_is_told_as_such_however_high_the_weight() -> None:
    found = why(shared(90, 16), "a", "gang", "proportion")
    (at,) = found.limits
    assert (at.holds, at.may_have, at.bound, at.asks) == (12, 16, Bound.CAPABILITY, 10)
    assert found.unblock == ["wait until other work of queue mine ends, or raise the capability of queue mine"]


def test_with_both_raised_the_job_is_served() -> None:
    assert why(shared(90, 40), "a", "gang", "proportion").stage is Stage.SERVED


def test_what_a_gang_was_given_while_it_was_tried_is_asked_for_and_not_held(scenario: Scenario) -> None:
    scenario.node("n1", cpu=9).queue("q", capability={"cpu": 5}).job("a", tasks=6, cpu=1, queue="q")
    for plugin in ("proportion", "capacity"):
        (at,) = why(scenario, "a", "gang", plugin).limits
        assert (at.holds, at.may_have, at.asks) == (0, 5, 6)


def test_a_queue_above_it_is_named(scenario: Scenario) -> None:
    scenario.node("n1", cpu=99).queue("root", parent="").queue("up", parent="root", capability={"cpu": 4})
    scenario.queue("q1", parent="up").queue("q2", parent="up")
    scenario.job("first", tasks=3, cpu=1, queue="q1", on="n1").job("a", tasks=2, cpu=1, queue="q2")
    registry = Registry()
    data = {
        "actions": "enqueue, allocate",
        "tiers": [{"plugins": [{"name": "gang"}, {"name": "capacity", "enableHierarchy": True}]}],
    }
    found: list[Explanation] = []
    run_cycle(
        scenario.state,
        assemble(from_data(data, catalogue_of(registry)).conf, registry),
        scenario.runtime,
        inspect=lambda ssn: found.append(explain(ssn, ssn.jobs["default/a"])),
    )
    (at,) = found[0].limits
    assert (at.of, at.holds, at.may_have, at.bound, at.asks) == ("queue up", 3, 4, Bound.CAPABILITY, 2)
    assert found[0].unblock == ["wait until other work of queue up ends, or raise the capability of queue up"]


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
@pytest.mark.parametrize(("reserved", "most"), [(60, 4), (64, 0), (100, 0)])
def test_what_is_guaranteed_to_others_is_told_as_such(
    scenario: Scenario, plugin: str, reserved: int, most: int
) -> None:
    """Though the cluster has enough: more than it has may be guaranteed, and then there is nothing for the rest."""
    bad = {"metadata": {"name": "bad"}, "spec": {"weight": 1, "guarantee": {"resource": {"cpu": reserved}}}}
    scenario.node("n1", cpu=64).add(decode("Queue", bad)).job("a", cpu=6, min_resources={"cpu": 6}, phase="Pending")
    found = why(scenario, "a", "gang", plugin)
    (at,) = found.limits
    assert (at.bound, at.may_have) == (Bound.GUARANTEES, most)
    waits = "wait until other work of queue default ends, " if most else ""
    assert found.unblock == [f"{waits}more nodes with cpu, or smaller guarantees of other queues"]


def test_overcommit_says_its_numbers_and_names_who_holds_the_budget(scenario: Scenario) -> None:
    scenario.node("n1", cpu=10).job("runs", tasks=4, cpu=1, on="n1", min_resources={"cpu": 4})
    for n, cpu in enumerate((1, 3, 2, 1)):
        scenario.job(f"in{n}", cpu=20, min_resources={"cpu": cpu}, phase="Inqueue")
    scenario.job("a", cpu=2, min_resources={"cpu": 2}, phase="Pending")
    found = why(scenario, "a", "gang", "overcommit", actions="enqueue")
    (at,) = found.limits
    assert (at.of, at.holds, at.promised, at.may_have, at.asks) == ("the cluster", 4, 7, 12, 2)
    assert (at.bound, at.detail) == (Bound.OVERCOMMIT, "10 × 1.2")
    assert found.unblock == [
        "jobs that hold cpu end: default/runs (4), default/in1 (3, let in and not yet placed), "
        "default/in2 (2, let in and not yet placed) and 2 more; or more nodes, a higher overcommit-factor, or a "
        "smaller minResources"
    ]
    assert "queue" not in found.unblock[0]


def test_a_quota_of_the_namespace_says_its_numbers(scenario: Scenario) -> None:
    scenario.node("n1", cpu=10).add(
        decode(
            "ResourceQuota",
            {
                "metadata": {"name": "small", "namespace": "default"},
                "status": {"hard": {"cpu": "5"}, "used": {"cpu": "4"}},
            },
        )
    )
    scenario.job("a", cpu=2, min_resources={"cpu": 2}, phase="Pending")
    found = why(scenario, "a", "gang", "resourcequota")
    (at,) = found.limits
    assert (at.of, at.holds, at.may_have, at.asks) == ("ResourceQuota default/small", 4, 5, 2)
    assert found.unblock == [
        "wait until other work of the namespace ends, or raise the spec.hard of ResourceQuota default/small"
    ]


def test_a_queue_that_is_full_says_so_for_whoever_comes_next(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).queue("q").queue("r")
    scenario.job("first", tasks=2, cpu=1, queue="q", on="n1").job("rival", tasks=4, cpu=1, queue="r")
    scenario.job("a", tasks=1, cpu=1, queue="q")
    found = why(scenario, "a", "gang", "proportion")
    assert found.stage is Stage.QUEUE
    (at,) = found.limits
    assert (at.holds, at.may_have, at.asks, at.bound) == (2, 2, 1, Bound.SHARE)


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_a_closed_queue_is_said_to_be_closed_and_no_number_is_made_up(scenario: Scenario, plugin: str) -> None:
    opened = queue("q")
    closed = msgspec.structs.replace(opened, status=msgspec.structs.replace(opened.status, state="Closed"))
    scenario.node("n1", cpu=4).add(closed).job("a", cpu=1, queue="q", phase="Pending")
    found = why(scenario, "a", "gang", plugin)
    assert (found.text, found.limits) == ("queue q is Closed", [])
    assert found.unblock == ["queue q is opened, or another queue"]


# -- the refuser's own words ----------------------------------------------------------------------------------------
def refuser(register: Callable[[Session], None]) -> type[Plugin]:
    class Refuser(Plugin):
        name = "refuser"

        def on_session_open(self, ssn: Session) -> None:
            register(ssn)

    return Refuser


NO = reject("no licence left", "NoLicence", advice="a licence is given back")
AT = {
    "enqueue": lambda ssn: ssn.add_job_enqueueable_fn("refuser", lambda job: NO),
    "valid": lambda ssn: ssn.add_job_valid_fn("refuser", lambda job: NO),
    "queue": lambda ssn: ssn.add_allocatable_fn("refuser", lambda queue, task: NO),
    "ready": lambda ssn: ssn.add_job_ready_fn("refuser", lambda job: NO),
}


@pytest.mark.parametrize("stage", AT)
def test_who_refuses_is_quoted_with_his_advice_and_his_word_and_nothing_is_added(
    scenario: Scenario, stage: str
) -> None:
    scenario.node("n1", cpu=4).job("a", tasks=2, cpu=1, phase="Pending", min_resources={"cpu": 2})
    found = why(scenario, "a", "gang", refuser(AT[stage]))
    assert (found.stage, found.code, found.text, found.plugin) == (stage, "NoLicence", "no licence left", "refuser")
    assert found.unblock == ["a licence is given back"]


@pytest.mark.parametrize("stage", AT)
def test_where_he_advises_nothing_nothing_is_advised(scenario: Scenario, stage: str, monkeypatch: Any) -> None:
    monkeypatch.setitem(globals(), "NO", reject("no licence left"))
    scenario.node("n1", cpu=4).job("a", tasks=2, cpu=1, phase="Pending", min_resources={"cpu": 2})
    found = why(scenario, "a", "gang", refuser(AT[stage]))
    assert (found.code, found.text, found.unblock) == (Stage(stage).code, "no licence left", [])


def test_a_queue_that_a_plugin_calls_overused_is_refused_in_its_words(scenario: Scenario) -> None:
    def over(queue: Queue) -> Verdict:
        return Verdict(True, "the GPU database is down", advice="mend it")

    scenario.node("n1", cpu=4).job("a", cpu=1)
    found = why(scenario, "a", "gang", refuser(lambda ssn: ssn.add_overused_fn("refuser", over)))
    assert (found.stage, found.text, found.plugin) == (Stage.QUEUE, "the GPU database is down", "refuser")
    assert found.unblock == ["mend it"]


@pytest.mark.parametrize("tasks", [1, 3])
def test_what_an_event_handler_objected_is_what_is_read(scenario: Scenario, tasks: int) -> None:
    def objects(event: Event) -> None:
        event.err = "no licence left"

    handler = EventHandler(allocate=objects, plugin="refuser")
    scenario.node("n1", cpu=4).job("a", tasks=tasks, cpu=1)
    found = why(scenario, "a", "gang", refuser(lambda ssn: ssn.add_event_handler(handler)))
    assert (found.stage, found.code, found.plugin) == (Stage.OBJECTION, "PlacementRefused", "refuser")
    assert found.text == f"a-{tasks - 1} on n1: no licence left"
    assert found.unblock == []


def test_advice_that_fails_is_left_out(scenario: Scenario) -> None:
    def exits() -> str:
        raise SystemExit(3)

    no = reject("no licence left", advice=exits)
    scenario.node("n1", cpu=4).job("a", cpu=1)
    found = why(scenario, "a", refuser(lambda ssn: ssn.add_job_valid_fn("refuser", lambda job: no)))
    assert (found.text, found.unblock) == ("no licence left", [])


def test_strict_order_is_told_with_who_is_waited_for(scenario: Scenario) -> None:
    scenario.node("n1", cpu=4).queue("q", dequeue_strategy="fifo")
    scenario.job("first", cpu=3, tasks=2, queue="q", priority=9).job("a", cpu=1, queue="q")
    found = why(scenario, "a", "priority", "gang")
    assert found.text == "waits behind default/first (strict FIFO)"
    assert found.unblock == ["default/first starts or is withdrawn, or another dequeueStrategy of queue q than fifo"]


@pytest.mark.parametrize("stage", Stage)
def test_every_stage_can_be_shown(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    found = Explanation("ns/a", "q", "Inqueue", stage, stage.code, "because", "x", 1, 2, True, 1, {"Pending": 1})
    show_why(WhyAnswer(explanation=found, now=0.0), whole=True)
    assert "because" in capsys.readouterr().out


@pytest.mark.parametrize("scope", list(Scope), ids=lambda scope: scope.value)
def test_no_task_is_said_to_have_a_node_that_a_plugin_keeps_it_from(scenario: Scenario, scope: Scope) -> None:
    """Room for two of three by amounts is no room where a predicate of any scope refuses the nodes."""

    class Keeper(Plugin):
        name = "keeper"

        def on_session_open(self, ssn: Session) -> None:
            ssn.add_predicate_fn(self.name, self.refuse, scope=scope)

        def refuse(self, task: Task, node: Node) -> None:
            if node.name == "n1":
                raise Unfit("kept for others")

    scenario.node("n1", cpu=4).node("n2", cpu=4).job("a", tasks=3, cpu=4)
    found = why(scenario, "a", "gang", "predicates", Keeper)
    assert found.room_for == 1
    assert found.text.startswith("1 of 3 pods have a node. a-1 fits on none of 2 nodes: ")
    assert {(r.text, r.nodes) for r in found.reasons} == {("kept for others", 1), ("Insufficient cpu", 1)}
