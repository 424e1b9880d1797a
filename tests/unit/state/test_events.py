"""Events in any order: what each one changes, and that nothing is lost when a thing is heard of before its parent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import force_setattr

from pumice.errors import IllegalMove
from pumice.model.api import AnyObject, decode
from pumice.model.events import BindFailed, EvictFailed, Gone, Seen
from pumice.model.status import TaskStatus
from pumice.state.cluster import ClusterState
from pumice.state.invariants import over_committed, violations
from pumice.testing import cluster, job, node, pod, priority_class, queue
from pumice.testing.world import flat

S = TaskStatus
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def state_of(*objects: Any, **options: Any) -> ClusterState:
    state = ClusterState(**options)
    tell(state, *objects)
    return state


def tell(state: ClusterState, *objects: Any) -> None:
    state.apply_all(Seen(obj) for obj in flat(objects))
    assert violations(state) == []


def terminating(obj: AnyObject) -> AnyObject:
    force_setattr(obj.metadata, "deletion_timestamp", WHEN)
    return obj


def resized(spec: int, actual: int, name: str = "r") -> AnyObject:
    """A running pod whose spec asks for one amount of cpu while its kubelet gives it another."""
    given = {"requests": {"cpu": actual}}
    told = {"name": "c", "resources": given, "allocatedResources": {"cpu": actual}}
    box = {"name": "c", "resources": {"requests": {"cpu": spec}}}
    meta = {"name": name, "namespace": "default", "uid": name}
    place = {"containers": [box], "nodeName": "n"}
    return decode("Pod", {"metadata": meta, "spec": place, "status": {"phase": "Running", "containerStatuses": [told]}})


def test_a_pod_that_shrinks_in_place_holds_its_room_until_its_kubelet_has_shrunk_it() -> None:
    state = state_of(node("n", cpu=4), resized(3, 3))
    held = []
    for spec, actual in ((1, 3), (1, 1), (4, 1), (4, 4)):
        tell(state, resized(spec, actual))
        held.append(state.nodes["n"].used["cpu"])
    assert held == [3, 1, 4, 4]


def test_pods_that_are_told_of_one_after_the_other_hold_what_each_is_given() -> None:
    state = state_of(node("n", cpu=8), [resized(1, actual, f"r{actual}") for actual in (1, 3, 2)])
    assert state.nodes["n"].used["cpu"] == 6


def test_a_pod_heard_of_before_its_node_is_counted_when_the_node_comes() -> None:
    state = state_of(pod("p", on="n1", cpu=2))
    task = state.tasks["default/p"]
    assert (task.status, task.node) == (S.RUNNING, None)
    assert state.orphans == {"n1": {"default/p": task}}
    tell(state, node("n1", cpu=4))
    assert task.node_name == "n1"
    assert state.nodes["n1"].idle.milli_cpu == 2000
    assert state.orphans == {}


def test_a_pod_heard_of_before_its_group_and_queue_joins_them_later() -> None:
    group, *pods = job("a", tasks=2, queue="late")
    state = state_of(*pods)
    assert set(state.jobs) == {"default/a"}
    assert state.session_jobs == {}
    tell(state, group)
    assert state.session_jobs == {}
    tell(state, queue("late"))
    assert set(state.session_jobs) == {"default/a"}
    assert state.queues["late"].pending.milli_cpu == 2000


def test_a_group_or_queue_that_leaves_takes_its_jobs_out_of_the_session() -> None:
    state = state_of(queue("default"), job("a", tasks=2), node("n1"))
    state.apply(Gone("Queue", "default"))
    assert state.session_jobs == {}
    tell(state, queue("default"))
    state.apply(Gone("PodGroup", "default/a"))
    assert state.session_jobs == {}
    assert "default/a" in state.jobs
    for name in ("a-0", "a-1"):
        state.apply(Gone("Pod", f"default/{name}"))
    assert state.jobs == {}
    assert violations(state) == []


def test_what_nobody_has_heard_of_may_leave() -> None:
    state = state_of(queue("default"))
    for kind, key in (("Pod", "a/b"), ("Node", "n"), ("PodGroup", "a/b"), ("Queue", "q"), ("HyperNode", "h")):
        state.apply(Gone(kind, key))
    assert state.problems == {}


def test_a_pod_of_the_same_name_and_another_uid_is_another_pod() -> None:
    state = state_of(queue("default"), node("n1"), job("a", on="n1"))
    again = pod("a-0", group="a", cpu=1)
    force_setattr(again.metadata, "uid", "second")
    tell(state, again)
    assert set(state.tasks) == {"second"}
    assert state.nodes["n1"].used.milli_cpu == 0


def test_a_pod_that_changes_what_it_asks_for_is_counted_anew() -> None:
    state = state_of(queue("default"), node("n1"), job("a", on="n1"))
    tell(state, pod("a-0", group="a", cpu=3, on="n1"))
    assert state.nodes["n1"].used.milli_cpu == 3000
    tell(state, pod("a-0", group="a", cpu=3, on="n1", phase="Succeeded"))
    assert state.nodes["n1"].used.milli_cpu == 0
    assert state.jobs["default/a"].count(S.SUCCEEDED) == 1


def test_a_row_is_used_again_and_starts_empty() -> None:
    state = state_of(cluster("3x8gpu"), pod("p", on="node-1", gpu=2))
    row = state.nodes["node-1"].row
    state.apply(Gone("Node", "node-1"))
    assert not state.table.valid[row]
    tell(state, node("fresh", cpu=2, gpu=1))
    fresh = state.nodes["fresh"]
    assert fresh.row == row
    assert (fresh.idle.milli_cpu, fresh.idle["nvidia.com/gpu"], fresh.used["nvidia.com/gpu"]) == (2000, 1, 0)
    assert int(state.table.pod_count[row]) == 0
    assert state.tasks["default/p"].node is None
    tell(state, node("node-1", gpu=8))
    assert state.nodes["node-1"].used["nvidia.com/gpu"] == 2


def test_many_nodes_and_many_resource_names_grow_the_table() -> None:
    names = {f"example.com/r{n}": 1 for n in range(20)}
    state = state_of(cluster("150x1cpu"), node("odd", resources=names), pod("p", on="odd", resources=names))
    assert state.table.size == 151
    assert state.nodes["odd"].idle["example.com/r7"] == 0
    assert state.nodes["node-000"].idle["example.com/r7"] == 0
    assert state.total_resources()["cpu"] == 150 + 32


def test_labels_asked_for_once_are_kept_up_to_date() -> None:
    state = state_of(node("n1", labels={"zone": "a"}), node("n2"))
    codes, values = state.table.label("zone")
    assert [int(codes[0]), int(codes[1])] == [values["a"], 0]
    tell(state, node("n1"), node("n2", labels={"zone": "b"}))
    codes, values = state.table.label("zone")
    assert [int(codes[0]), int(codes[1])] == [0, values["b"]]


def test_a_node_that_shrinks_below_its_use_is_over_committed_and_says_so() -> None:
    state = state_of(node("n1", cpu=4), pod("p", on="n1", cpu=3))
    tell(state, node("n1", cpu=1))
    assert state.nodes["n1"].idle.milli_cpu == -2000
    assert over_committed(state) == ["node n1: cpu is over-committed by 2000"]


@pytest.mark.parametrize(
    ("phase", "on", "deleted", "status"),
    [
        ("Pending", "", False, S.PENDING),
        ("Pending", "n1", False, S.BOUND),
        ("Pending", "n1", True, S.RELEASING),
        ("Pending", "", True, S.RELEASING),
        ("Running", "n1", False, S.RUNNING),
        ("Running", "n1", True, S.RELEASING),
        ("Succeeded", "n1", False, S.SUCCEEDED),
        ("Failed", "n1", True, S.FAILED),
        ("Odd", "n1", False, S.UNKNOWN),
    ],
)
def test_the_status_of_a_pod_follows_phase_node_and_deletion(
    phase: str, on: str, deleted: bool, status: TaskStatus
) -> None:
    obj: AnyObject = pod("p", phase=phase, on=on)
    state = state_of(node("n1"), terminating(obj) if deleted else obj)
    assert state.tasks["default/p"].status is status


def test_a_terminating_pod_holds_its_room_as_releasing() -> None:
    state = state_of(node("n1", cpu=4), terminating(pod("p", on="n1", cpu=3)))
    n1 = state.nodes["n1"]
    assert (n1.idle.milli_cpu, n1.used.milli_cpu, n1.releasing.milli_cpu) == (1000, 3000, 3000)
    assert n1.future_idle.milli_cpu == 4000


def test_pods_of_other_schedulers_take_room_and_belong_to_no_job() -> None:
    theirs = pod("theirs", group="a", on="n1", cpu=2, scheduler="default-scheduler")
    state = state_of(queue("default"), node("n1", cpu=4), job("a"), theirs, scheduler_names=["pumice"])
    assert state.nodes["n1"].idle.milli_cpu == 2000
    assert state.tasks["default/theirs"].job is None
    assert set(state.jobs["default/a"].tasks) == {"default/a-0"}


# -- assumed ------------------------------------------------------------------------------------------------------
def assumed() -> ClusterState:
    """A bind of a-0 to n1 and an eviction of b-0 were sent."""
    state = state_of(queue("default"), node("n1", cpu=4), job("a"), job("b", on="n1"))
    a, b = state.tasks["default/a-0"], state.tasks["default/b-0"]
    state.now = 100.0
    state.move(a, S.ALLOCATED, state.nodes["n1"])
    state.move(a, S.BINDING, state.nodes["n1"])
    state.assume(a)
    state.move(b, S.RELEASING, state.nodes["n1"], evicted=True)
    state.assume(b)
    state.end_session()
    return state


def test_an_assumed_bind_holds_its_room_until_the_pod_is_seen_bound() -> None:
    state = assumed()
    a = state.tasks["default/a-0"]
    tell(state, pod("a-0", group="a"))
    assert a.status is S.BINDING
    assert state.nodes["n1"].idle.milli_cpu == 2000
    tell(state, pod("a-0", group="a", on="n1"))
    assert a.status is S.RUNNING
    assert set(state.assumed) == {"default/b-0"}


def test_a_bind_that_failed_frees_its_room() -> None:
    state = assumed()
    state.apply(BindFailed("default/a-0", "default/a-0", "no"))
    assert state.tasks["default/a-0"].status is S.PENDING
    assert state.nodes["n1"].idle.milli_cpu == 3000
    state.apply(BindFailed("default/a-0", "default/a-0", "told twice"))
    assert violations(state) == []


def test_a_bind_that_failed_says_nothing_of_the_node_that_a_task_was_sent_to_since() -> None:
    state = assumed()
    state.apply(BindFailed("default/a-0", "default/a-0", "no", "n0"))
    assert state.tasks["default/a-0"].status is S.BINDING
    state.apply(BindFailed("default/a-0", "default/a-0", "no", "n1"))
    assert state.tasks["default/a-0"].status is S.PENDING


def test_an_eviction_that_failed_lets_the_task_run_on() -> None:
    state = assumed()
    b = state.tasks["default/b-0"]
    tell(state, pod("b-0", group="b", on="n1"))
    assert b.status is S.RELEASING
    state.apply(EvictFailed("default/b-0", "default/b-0", "budget"))
    assert b.status is S.RUNNING
    state.apply(EvictFailed("default/b-0", "default/b-0", "told twice"))
    assert violations(state) == []


def test_a_node_that_leaves_takes_assumed_binds_with_it() -> None:
    state = assumed()
    state.apply(Gone("Node", "n1"))
    assert state.tasks["default/a-0"].status is S.PENDING
    assert "default/a-0" not in state.assumed
    assert violations(state) == []


def test_a_move_that_the_table_does_not_allow_changes_nothing() -> None:
    state = state_of(queue("default"), node("n1"), job("a", on="n1"))
    with pytest.raises(IllegalMove, match="task default/a-0: cannot go from Running to Allocated"):
        state.move(state.tasks["default/a-0"], S.ALLOCATED, state.nodes["n1"])
    assert violations(state) == []
    assert state.tasks["default/a-0"].status is S.RUNNING


# -- what breaks a rule ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("amount", ["lots", "-1", "1e30", "1e100"])
def test_a_pod_with_an_impossible_quantity_is_a_problem_of_that_pod_alone(amount: str) -> None:
    state = state_of(queue("default"), node("n1"), job("a"), job("b", cpu=amount))
    assert set(state.problems) == {("Pod", "default/b-0")}
    assert amount in state.problems["Pod", "default/b-0"] or "negative" in state.problems["Pod", "default/b-0"]
    assert state.tasks["default/b-0"].invalid
    assert not state.tasks["default/a-0"].invalid
    tell(state, pod("b-0", group="b", cpu=1))
    assert state.problems == {}
    assert not state.tasks["default/b-0"].invalid
    state.apply(Gone("Pod", "default/b-0"))


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (lambda: node("n1", cpu="broken"), "quantity 'broken'"),
        (
            lambda: node("n1", annotations={"volcano.sh/oversubscription-cpu": "x"}),
            "oversubscription-cpu must be a number",
        ),
        (lambda: queue("q", capability={"cpu": "broken"}), "quantity 'broken'"),
        (lambda: job("a", min_available=-1)[0], "PodGroup default/a: minMember must not be negative, got -1"),
        (lambda: job("a", min_resources={"cpu": "x"})[0], "PodGroup default/a: minResources: quantity 'x'"),
        (
            lambda: decode(
                "ResourceQuota", {"metadata": {"name": "r", "namespace": "n"}, "spec": {"hard": {"cpu": "?"}}}
            ),
            "quantity '?'",
        ),
    ],
)
def test_an_object_that_breaks_a_rule_is_remembered_with_the_rule(bad: Any, text: str) -> None:
    state = state_of(queue("default"), node("good"))
    obj = bad()
    tell(state, obj)
    assert text in state.problems[obj.kind_name, obj.key]
    assert set(state.nodes) >= {"good"}
    state.apply(Gone(obj.kind_name, obj.key))
    assert state.problems == {}


def test_oversubscribed_amounts_are_added_to_what_a_node_offers() -> None:
    notes = {"volcano.sh/oversubscription-cpu": "500", "volcano.sh/oversubscription-memory": "1024"}
    state = state_of(node("n1", cpu=1, memory=1024, annotations=notes))
    assert (state.nodes["n1"].allocatable.milli_cpu, state.nodes["n1"].allocatable.memory) == (1500, 2048)


# -- priorities and the rest --------------------------------------------------------------------------------------
def test_a_priority_class_that_changes_nobody_s_priority_leaves_every_job_as_it_was() -> None:
    state = state_of(queue("default"), job("low", priority=1), job("high", priority=7), job("plain"))
    state.refresh()
    state.changed_jobs.clear()
    tell(state, priority_class("priority-7", 7), priority_class("unused", 9))
    assert not state.dirty
    tell(state, priority_class("priority-7", 8))
    assert list(state.dirty) == ["default/high"]
    assert state.jobs["default/high"].priority == 8


def test_a_priority_class_counts_whenever_it_comes() -> None:
    objects = job("a", priority=7)
    state = state_of(queue("default"), *[o for o in objects if o.kind_name != "PriorityClass"])
    a = state.jobs["default/a"]
    assert a.priority == 0
    tell(state, priority_class("fallback", 3, default=True))
    assert a.priority == 3
    tell(state, priority_class("priority-7", 7))
    assert a.priority == 7
    state.apply(Gone("PriorityClass", "priority-7"))
    assert a.priority == 3


def test_quotas_belong_to_their_namespace() -> None:
    quota = {"metadata": {"name": "r", "namespace": "blue"}, "spec": {"hard": {"cpu": 1}}}
    state = state_of(decode("ResourceQuota", quota))
    assert set(state.namespace("blue").quotas) == {"r"}
    state.apply(Gone("ResourceQuota", "blue/r"))
    assert state.namespace("blue").quotas == {}


def test_other_kinds_are_kept_and_their_changes_counted() -> None:
    state = state_of(decode("HyperNode", {"metadata": {"name": "h"}, "spec": {"tier": 1}}))
    assert set(state.kind("HyperNode")) == {"h"}
    assert state.versions["HyperNode"] == 1
    state.apply(Gone("HyperNode", "h"))
    assert state.kind("HyperNode") == {}
    assert state.versions["HyperNode"] == 2


def test_a_task_priority_may_be_overridden_by_annotation() -> None:
    state = state_of(
        pod("a", priority=5, annotations={"volcano.sh/task-priority": "-3"}),
        pod("b", priority=5, annotations={"volcano.sh/task-priority": "high"}),
        pod("c"),
    )
    assert [state.tasks[f"default/{n}"].priority for n in "abc"] == [-3, 5, 1]


def _as_seen(phase: str, *, on: str = "", deleted: bool = False) -> AnyObject:
    seen = pod("p", cpu=2, on=on)
    force_setattr(seen.status, "phase", phase)
    return terminating(seen) if deleted else seen


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("on", ["", "n1", "n2"])
@pytest.mark.parametrize("phase", ["", "Pending", "Running", "Unknown", "Odd", "Succeeded", "Failed"])
def test_a_bind_under_way_holds_its_room_until_the_pod_is_deleted_done_or_seen_on_a_node(
    phase: str, on: str, deleted: bool
) -> None:
    """Somebody wrote Running into a pod that had no node yet, and its room was given away while it was being bound."""
    state = state_of(node("n1", cpu=4), node("n2", cpu=4), pod("p", cpu=2))
    task = state.tasks["default/p"]
    state.move(task, S.ALLOCATED, state.nodes["n1"])
    state.confirm(task)
    tell(state, _as_seen(phase, on=on, deleted=deleted))
    over = on or phase in ("Succeeded", "Failed") or (deleted and phase in ("Pending", "Running"))
    assert bool(state.assumed) is not bool(over)
    if state.assumed:
        assert (task.status, task.node_name) == (S.BINDING, "n1")
        assert state.nodes["n1"].idle.milli_cpu == 2000


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("phase", ["", "Pending", "Running", "Unknown", "Odd", "Succeeded", "Failed"])
def test_an_eviction_under_way_lasts_until_the_pod_is_deleted_or_done(phase: str, deleted: bool) -> None:
    state = state_of(node("n1", cpu=4), pod("p", cpu=2, on="n1"))
    task = state.tasks["default/p"]
    state.move(task, S.RELEASING, state.nodes["n1"])
    state.assume(task)
    tell(state, _as_seen(phase, on="n1", deleted=deleted))
    over = phase in ("Succeeded", "Failed") or (deleted and phase in ("Pending", "Running"))
    assert bool(state.assumed) is not over
    if state.assumed:
        assert task.status is S.RELEASING


def test_a_state_that_nobody_decides_on_does_not_remember_what_came_and_went() -> None:
    """A replica that does not lead takes in everything and runs no cycle."""
    state = state_of(node("n1", cpu=4), queue("default"))
    for n in range(3000):
        group, *pods = job(f"j{n}", tasks=1, on="n1", cpu=1)
        tell_fast(state, group, *pods)
        state.apply(Gone("Pod", f"default/j{n}-0"))
        state.apply(Gone("PodGroup", f"default/j{n}"))
        state.rest()
    logs = (state.dirty, state.changed_jobs, state.backlog_changes, state.admission_changes or {})
    assert max(map(len, logs)) < 2000
    table = state.table
    assert max(len(log._rows) for log in (table.touched, table.changed)) < 10_000
    assert state.queues["default"].inqueue.amounts == {}
    assert violations(state) == []


def tell_fast(state: ClusterState, *objects: Any) -> None:
    state.apply_all(Seen(obj) for obj in flat(objects))


def test_jobs_that_are_there_when_a_replica_takes_over_are_all_looked_at() -> None:
    state = state_of(node("n1", cpu=4), queue("default"))
    for n in range(1500):
        tell_fast(state, *job(f"j{n}", tasks=1, cpu=1))
        state.rest()
    assert len(state.backlog_changes) == len(state.changed_jobs) == 1500
