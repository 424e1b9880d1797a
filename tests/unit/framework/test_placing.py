"""Placing: shards, nominated nodes, what a commit tells the cluster, and jobs that go on without some task."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import force_setattr

from pumice import Arguments, Event, EventHandler, Node, Plugin, Session, Task, Unfit
from pumice.engine.choose import NodeChoice
from pumice.engine.diagnosis import FitError
from pumice.framework.compat import VOLCANO
from pumice.framework.placing.waiting_tasks import NodeSearch, rows_of
from pumice.framework.session.outcome import status_of
from pumice.framework.session.session import Shard
from pumice.framework.session.statement import Statement
from pumice.model.api import decode
from pumice.model.codes import ReasonCode
from pumice.model.intents import Bind, Evict, Nominate, StatusUpdate
from pumice.model.status import TaskStatus
from pumice.testing import Scenario, cluster, job, node, pod, queue, session, task_of

S = TaskStatus


def found(choice: NodeChoice | FitError) -> str:
    assert isinstance(choice, NodeChoice), str(choice)
    return choice.node.name


def test_a_hard_shard_is_never_left_and_a_soft_one_only_when_it_must_be() -> None:
    state = session(cluster("3x2cpu"), job("a", cpu=2), job("b", cpu=2, on="node-1")).state
    for hard, name in ((True, ""), (False, "node-0")):
        ssn = Session(state, shard=Shard(hard, frozenset({"node-1", "gone"})))
        choice = NodeSearch(ssn, remember=True).choose(task_of(ssn, "a-0"))
        if name:
            assert found(choice) == name
        else:
            assert str(choice) == "0/1 nodes are unavailable: 1 Insufficient cpu."
    ssn = Session(state, shard=Shard(False, frozenset({"node-2"})))
    assert found(NodeSearch(ssn, remember=True).choose(task_of(ssn, "a-0"))) == "node-2"
    domain = rows_of(ssn, [ssn.nodes["node-0"]])
    hard_ssn = Session(state, shard=Shard(True, frozenset({"node-0", "node-2"})))
    search = NodeSearch(hard_ssn, remember=True, domain=domain)
    assert found(search.choose(task_of(hard_ssn, "a-0"))) == "node-0"
    assert search.within is not None
    assert search.plan(task_of(hard_ssn, "a-0"), 2) == [hard_ssn.nodes["node-0"].row]


def nominated(name: str, to: str) -> Any:
    obj = pod(name, group="a")
    force_setattr(obj.status, "nominated_node_name", to)
    return obj


@pytest.mark.parametrize(("to", "lands"), [("node-1", "node-1"), ("node-2", "node-0"), ("nowhere", "node-0")])
def test_a_nominated_node_is_taken_if_it_will_do(to: str, lands: str) -> None:
    ssn = session(cluster("3x2cpu"), job("full", cpu=2, on="node-2"), job("a", tasks=0), nominated("a-0", to))
    assert found(NodeSearch(ssn, remember=False).choose(task_of(ssn, "a-0"))) == lands


def test_as_in_volcano_what_failed_for_one_task_of_a_role_is_not_tried_for_the_next() -> None:
    state = session(cluster("2x2cpu"), job("a", tasks=3, role="worker")).state
    asked: list[tuple[str, str]] = []

    class Notes(Plugin):
        name = "notes"

        def predicate(self, task: Task, node: Node) -> None:
            asked.append((task.name, node.name))
            if node.name == "node-0":
                raise Unfit("no")

    ssn = Session(state, compat=VOLCANO)
    ssn.open_plugin(Notes(Arguments()))
    search = NodeSearch(ssn, remember=True)
    assert found(search.choose(task_of(ssn, "a-0"))) == "node-1"
    asked.clear()
    assert found(search.choose(task_of(ssn, "a-1"))) == "node-1"
    assert asked[0] == ("a-1", "node-1")
    assert search.plan(task_of(ssn, "a-2"), 2) == []


# -- statements ---------------------------------------------------------------------------------------------------
def busy() -> tuple[Session, Statement]:
    ssn = session(node("n1", cpu=4), job("a", tasks=2), job("b", tasks=2, on="n1"), job("c", cpu=2))
    return ssn, ssn.statement()


def test_a_commit_tells_the_cluster_what_was_decided() -> None:
    ssn, statement = busy()
    ssn.add_bind_request_mutate_fn("p", lambda task, node: {"on": node})

    class Mine:
        name = "mine"

        def wants(self, task: Task) -> bool:
            return task.name == "a-0"

    ssn.register_binder("mine", Mine())
    a, b, c = (task_of(ssn, name) for name in ("a-0", "b-0", "c-0"))
    statement.allocate(a, ssn.nodes["n1"])
    statement.evict(b, "preempt", for_task=c)
    statement.pipeline(c, ssn.nodes["n1"], evicted=True)
    assert statement.has_evictions()
    statement.commit()
    assert ssn.outcome.intents == [
        Bind("default/a-0", "default/a-0", "n1", "default/a", {"on": "n1"}, "mine"),
        Evict("default/b-0", "default/b-0", "n1", "preempt", "default/b", "default/c", "default/c-0"),
        Nominate("default/c-0", "default/c-0", "n1"),
    ]
    assert (a.status, b.status, c.status) == (S.BINDING, S.RELEASING, S.PIPELINED)
    assert b.evicted
    assert set(ssn.state.assumed) == {"default/a-0", "default/b-0"}
    ssn.close()
    assert c.status is S.PENDING
    assert not b.evicted
    assert len(statement) == 0


def test_a_binder_without_wishes_binds_everything() -> None:
    ssn, statement = busy()
    ssn.register_binder("all", object())
    statement.allocate(task_of(ssn, "a-0"), ssn.nodes["n1"])
    statement.commit()
    assert [i.binder for i in ssn.outcome.intents if isinstance(i, Bind)] == ["all"]


def test_statements_can_be_joined_and_done_again() -> None:
    ssn, first = busy()
    second = ssn.statement()
    first.allocate(task_of(ssn, "a-0"), ssn.nodes["n1"])
    second.evict(task_of(ssn, "b-0"), "preempt")
    second.pipeline(task_of(ssn, "c-0"), ssn.nodes["n1"])
    first.merge(second)
    assert (len(first), len(second), first.promises()) == (3, 0, 1)
    saved = list(first.operations)
    first.discard()
    assert task_of(ssn, "b-0").status is S.RUNNING
    assert first.replay(saved)
    assert task_of(ssn, "a-0").status is S.ALLOCATED
    first.discard()
    ssn.add_event_handler(EventHandler(allocate=lambda event: setattr(event, "err", "no")))
    assert not first.replay(saved)
    assert len(first) == 0


def test_a_task_can_be_set_aside_for_a_moment() -> None:
    ssn, statement = busy()
    task = task_of(ssn, "a-0")
    statement.allocate(task, ssn.nodes["n1"])
    with statement.aside(task):
        assert ssn.nodes["n1"].idle.milli_cpu == 2000
    assert ssn.nodes["n1"].idle.milli_cpu == 1000
    assert task.status is S.ALLOCATED


def test_an_objection_in_the_middle_of_many_leaves_those_before_it() -> None:
    ssn, statement = busy()

    def object_to(event: Event) -> None:
        if event.task.name == "a-1":
            event.err = "no"

    ssn.add_event_handler(EventHandler(allocate=object_to, deallocate=lambda event: setattr(event, "err", "ignored")))
    tasks = [task_of(ssn, "a-0"), task_of(ssn, "a-1")]
    assert statement.allocate_many(tasks, [ssn.nodes["n1"]] * 2) == 1
    assert [t.status for t in tasks] == [S.ALLOCATED, S.PENDING]
    statement.discard()
    assert ssn.errors == []


# -- jobs that go on ---------------------------------------------------------------------------------------------
def roles(needs: int, minimums: dict[str, int], **counts: tuple[int, int]) -> list[Any]:
    """A PodGroup with roles: role -> (tasks, cpu of each)."""
    spec = {"minMember": needs, "minTaskMember": minimums, "queue": "default"}
    group = decode("PodGroup", {"metadata": {"name": "g", "namespace": "default"}, "spec": spec})
    pods = [pod(f"{r}-{n}", group="g", role=r, cpu=cpu) for r, (count, cpu) in counts.items() for n in range(count)]
    return [group, *pods]


@pytest.mark.parametrize(
    ("objects", "bound"),
    [
        (roles(2, {}, big=(1, 9), small=(2, 1)), {"small-0", "small-1"}),
        (roles(3, {}, big=(1, 9), small=(2, 1)), set()),
        (roles(2, {"big": 1, "small": 1}, big=(2, 9), small=(3, 1)), set()),
        (roles(2, {"big": 1, "small": 2}, big=(2, 9), small=(3, 1)), {"small-0", "small-1", "small-2"}),
        (roles(4, {"small": 2}, big=(2, 9), small=(3, 1)), set()),
    ],
)
def test_a_job_goes_on_without_a_task_that_fits_nowhere_if_it_can_still_start(
    scenario: Scenario, objects: list[Any], bound: set[str]
) -> None:
    scenario.node("n1", cpu=8).add(objects)
    cycle = scenario.run(plugins=["gang"])
    assert {p.removeprefix("default/") for p in cycle.binds} == bound


def test_behind_a_job_that_does_not_fit_a_fifo_queue_waits(scenario: Scenario) -> None:
    scenario.add(queue("strict", dequeue_strategy="fifo"), node("n1", cpu=2))
    scenario.job("big", queue="strict", cpu=4).job("small", queue="strict").job("other")
    cycle = scenario.run(plugins=["gang"])
    assert cycle.binds == {"default/other-0": "n1"}
    assert "waits behind default/big" in cycle.why("small").text


def test_a_queue_that_may_not_take_a_task_says_so(scenario: Scenario) -> None:
    class Full(Plugin):
        name = "full"

        def allocatable(self, queue: Any, task: Task) -> bool:
            return bool(queue.held.milli_cpu < 1000)

    scenario.node("n1").job("a", tasks=2, min_available=1)
    cycle = scenario.run(plugins=["gang", Full])
    assert len(cycle.binds) == 1
    assert cycle.why("a").reason == "queue default may not take it"
    assert cycle.why("a").plugin == "full"


def test_an_overused_queue_waits(scenario: Scenario) -> None:
    class Over(Plugin):
        name = "over"

        def overused(self, queue: Any) -> bool:
            return bool(queue.name == "default")

    scenario.add(node("n1"), queue("other")).job("a").job("b", queue="other")
    cycle = scenario.run(plugins=["gang", Over])
    assert cycle.binds == {"default/b-0": "n1"}
    assert cycle.why("a").reason == "queue default is above its share"


# -- closing -------------------------------------------------------------------------------------------------------
def test_a_group_shows_its_phase_and_why_it_waits(scenario: Scenario) -> None:
    scenario.node("n1", cpu=1).job("a").job("b", cpu=4)
    cycle = scenario.run(plugins=["gang"])
    updates = {u.key: u.status for u in cycle.updates if isinstance(u, StatusUpdate)}
    assert updates["default/a"]["conditions"][0]["type"] == "Scheduled"
    assert updates["default/b"]["conditions"][0]["reason"] == "NotEnoughResources"
    assert "Insufficient cpu" in updates["default/b"]["conditions"][0]["message"]
    scenario.run()
    assert scenario.job_of("a").phase == "Running"
    assert scenario.job_of("b").phase == "Inqueue"
    scenario.finish("a-0").run()
    assert scenario.job_of("a").phase == "Completed"
    scenario.run()
    assert [u for u in scenario.run().updates if isinstance(u, StatusUpdate)] == []


def test_a_group_with_contradicting_conditions_is_told_again_what_holds(scenario: Scenario) -> None:
    scenario.node("n1", cpu=2).job("a")
    scenario.run(plugins=["gang"])
    scenario.finish("a-0")
    group = scenario.job_of("a").group
    assert group is not None
    both = [{"type": t, "status": "True", "reason": ReasonCode.GANG_READY} for t in ("Scheduled", "Unschedulable")]
    data = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"minMember": 1, "queue": "default"}}
    scenario.add(decode("PodGroup", {**data, "status": {"phase": group.status.phase, "conditions": both}}))
    updates = {u.key: u.status for u in scenario.run(plugins=["gang"]).updates if isinstance(u, StatusUpdate)}
    assert [(c["type"], c["status"]) for c in updates["default/a"]["conditions"]] == [("Scheduled", "True")]


def test_a_running_job_that_cannot_be_served_is_unknown() -> None:
    ssn = session(node("n1"), job("a", tasks=2, on=["n1"]))
    a = ssn.jobs["default/a"]
    assert status_of(a, unschedulable=True)["phase"] == "Unknown"
    assert status_of(a, unschedulable=False) == {"phase": "Pending", "running": 1, "failed": 0, "succeeded": 0}


def test_a_job_for_which_room_was_freed_stays_let_in() -> None:
    ssn = session(node("n1"), job("a", tasks=2, phase="Completed"))
    a = ssn.jobs["default/a"]
    assert status_of(a, unschedulable=False)["phase"] == "Pending"
    assert status_of(a, unschedulable=False, nominated={"default/a-1"})["phase"] == "Inqueue"
    assert status_of(a, unschedulable=False, nominated={"default/b-1"})["phase"] == "Pending"


def test_a_condition_is_written_once_per_type() -> None:
    ssn = session(node("n1"), job("a"))
    a = ssn.jobs["default/a"]
    ssn.outcome.set_condition(a, "Odd", "True", ReasonCode.UNSCHEDULABLE, "one")
    ssn.outcome.set_condition(a, "Odd", "True", ReasonCode.NO_NODE_FITS, "two")
    assert [c["reason"] for c in ssn.outcome.conditions["default/a"]] == [ReasonCode.NO_NODE_FITS]
    assert ssn.total.milli_cpu == 32000
    assert ssn.now == 0.0
