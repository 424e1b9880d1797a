"""Kubernetes objects: decoding names what is wrong, and what plugins see of tasks, jobs, nodes and queues."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.engine.rows import ImaginedNode
from pumice.errors import InvalidInput
from pumice.model.api import KINDS, decode, to_data
from pumice.model.events import Seen
from pumice.model.job import parse_bool, sub_job_of
from pumice.model.reason import PASS, Code, Reason, Unfit, reason_id, reason_of, reject
from pumice.model.resources import Resources
from pumice.model.status import MOVES, JobPhase, TaskStatus
from pumice.state.cluster import ClusterState
from pumice.testing import cluster, job, node, pod, queue, session, task_of

S = TaskStatus


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"kind 'Deployment': not one of CSIDriver, .*Pod"):
        decode("Deployment", {})


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("Pod", {"metadata": {"name": "p"}, "spec": {"nodeName": 5}}, r"Pod 'p': .*spec.nodeName"),
        ("PodGroup", {"metadata": {"name": "g"}, "spec": {"minMember": "x"}}, r"PodGroup 'g': .*minMember"),
        ("Queue", {"metadata": [], "spec": {}}, r"Queue '\?': "),
        ("Node", {"spec": {"unschedulable": "yes"}}, r"Node '\?': .*unschedulable"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(kind: str, data: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        decode(kind, data)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_decodes_from_almost_nothing(kind: str) -> None:
    obj = decode(kind, {"metadata": {"name": "x", "namespace": "n"}, "unknown": 1})
    assert obj.key == "n/x"
    assert to_data(obj)["metadata"] == {"name": "x", "namespace": "n"}


def test_what_an_api_server_leaves_out_or_sends_as_null_is_empty() -> None:
    obj = decode("Pod", {"metadata": {"name": "p", "labels": None}, "spec": {"containers": None, "tolerations": None}})
    assert obj.key == "/p"
    assert session(obj).state.tasks["/p"].labels == {}


def test_a_task_shows_what_its_pod_says() -> None:
    ssn = session(node("n1"), job("a-b", tasks=2, gpu=1, role="worker", priority=4, task_labels={"x": "y"}, on=["n1"]))
    running, waiting = task_of(ssn, "a-b-0"), task_of(ssn, "a-b-1")
    assert (running.key, running.name, running.namespace) == ("default/a-b-0", "a-b-0", "default")
    assert (running.role, running.priority, running.labels) == ("worker", 4, {"x": "y"})
    assert (running.node_name, waiting.node_name) == ("n1", "")
    assert running.requires_gpu
    assert not running.best_effort
    assert (running.order, waiting.order) == (0, 1)
    assert running.job is waiting.job
    assert repr(running) == "<Task default/a-b-0 Running on n1>"
    assert repr(waiting) == "<Task default/a-b-1 Pending>"


@pytest.mark.parametrize(
    ("name", "order"), [("a-0", None), ("a-b-7", 7), ("a-b-x", None), ("plain", None), ("a-b-٣", None)]
)
def test_the_index_of_a_pod_is_the_number_at_the_end_of_a_name_of_three_parts(name: str, order: int | None) -> None:
    assert task_of(session(pod(name)), name).order == order


def test_a_gate_other_than_the_queues_holds_a_task() -> None:
    gates = [{"name": "scheduling.volcano.sh/queue-allocation-gate"}, {"name": "mine"}]
    held = decode("Pod", {"metadata": {"name": "p", "namespace": "default"}, "spec": {"schedulingGates": gates}})
    free = decode("Pod", {"metadata": {"name": "q", "namespace": "default"}, "spec": {"schedulingGates": gates[:1]}})
    ssn = session(held, free)
    assert task_of(ssn, "p").gated
    assert not task_of(ssn, "q").gated
    assert task_of(ssn, "q").gates == ("scheduling.volcano.sh/queue-allocation-gate",)


@pytest.mark.parametrize(
    ("labels", "annotations", "tasks", "preemptible"),
    [
        ({}, {}, {}, True),
        ({}, {"volcano.sh/preemptable": "false"}, {}, False),
        ({"volcano.sh/preemptable": "false"}, {}, {}, False),
        ({"kai.scheduler/preemptibility": "preemptible"}, {}, {"volcano.sh/preemptable": "false"}, True),
        ({"kai.scheduler/preemptibility": "non-preemptible"}, {}, {}, False),
        ({}, {}, {"volcano.sh/preemptable": "false"}, False),
        ({}, {"volcano.sh/preemptable": "true"}, {"volcano.sh/preemptable": "false"}, True),
    ],
)
def test_a_job_is_preemptible_as_it_says_else_as_its_tasks_say(
    labels: dict[str, str], annotations: dict[str, str], tasks: dict[str, str], preemptible: bool
) -> None:
    ssn = session(job("a", labels=labels, annotations=annotations, task_labels=tasks))
    assert ssn.jobs["default/a"].preemptible is preemptible


QUEUE, SAYS = "kai.scheduler/queue", "kai.scheduler/preemptibility"


@pytest.mark.parametrize(
    ("priority", "labels", "task_labels", "preemptible"),
    [
        (99, {QUEUE: "team"}, {}, True),
        (100, {QUEUE: "team"}, {}, False),
        (125, {QUEUE: "team"}, {}, False),
        (None, {QUEUE: "team"}, {}, True),
        (125, {}, {QUEUE: "team"}, False),
        (125, {}, {}, True),  # not KAI's: its tasks decide
        (125, {QUEUE: "team", SAYS: "preemptible"}, {}, True),
        (125, {}, {QUEUE: "team", SAYS: "preemptible"}, True),
        (50, {QUEUE: "team", SAYS: "non-preemptible"}, {}, False),
        (50, {}, {SAYS: "non-preemptible"}, False),
        (125, {SAYS: "perhaps"}, {}, False),  # neither of its words: as if it said nothing
        (50, {SAYS: "perhaps"}, {}, True),
        (125, {QUEUE: "team", "volcano.sh/preemptable": "true"}, {}, True),
        (50, {QUEUE: "team"}, {"volcano.sh/preemptable": "false"}, False),
    ],
)
def test_a_job_with_kais_labels_is_preemptible_by_kais_rule(
    priority: int | None, labels: dict[str, str], task_labels: dict[str, str], preemptible: bool
) -> None:
    ssn = session(job("a", tasks=2, priority=priority, labels=labels, task_labels=task_labels))
    assert ssn.jobs["default/a"].preemptible is preemptible


def test_the_counts_of_a_gang() -> None:
    ssn = session(node("n1"), job("a", tasks=4, min_available=3, on=["n1", "n1"]), job("e", tasks=2, cpu=0))
    a, e = ssn.jobs["default/a"], ssn.jobs["default/e"]
    assert (a.ready_count, a.waiting_count, a.valid_count, a.allocated_count()) == (2, 0, 4, 2)
    assert (a.is_ready, a.is_pipelined, a.is_starving, a.is_pending) == (False, False, True, False)
    assert (e.is_ready, e.pending_best_effort_count, e.is_starving, e.is_pending) == (True, 2, True, True)
    with_one = ssn.statement()
    with_one.pipeline(task_of(ssn, "a-2"), ssn.nodes["n1"])
    assert (a.waiting_count, a.is_pipelined, a.is_ready) == (1, True, False)
    assert a.count(S.RUNNING, S.PIPELINED) == 3
    assert set(a.with_status(S.PENDING)) == {"default/a-3"}
    assert repr(a) == "<Job default/a Running 4 tasks>"
    assert a.total_request == Resources.of(cpu=4, pods=4)
    assert (a.allocated.milli_cpu, a.held.milli_cpu) == (2000, 3000)


def grouped(minimums: dict[str, int], needs: int, **roles: int) -> Any:
    group = decode(
        "PodGroup",
        {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": needs, "minTaskMember": minimums}},
    )
    pods = [pod(f"{r}-{n}", group="g", role=r) for r, count in roles.items() for n in range(count)]
    return session(node("n1"), group, *pods)


def test_every_role_needs_its_minimum() -> None:
    ssn = grouped({"ps": 1, "worker": 2}, 3, ps=1, worker=2)
    g = ssn.jobs["default/g"]
    assert (g.roles_valid(), g.roles_ready(), g.roles_pipelined()) == (True, False, False)
    statement = ssn.statement()
    for name in ("ps-0", "worker-0"):
        statement.allocate(task_of(ssn, name), ssn.nodes["n1"])
    statement.pipeline(task_of(ssn, "worker-1"), ssn.nodes["n1"])
    assert (g.roles_ready(), g.roles_pipelined()) == (False, True)
    assert (g.role_ready_count("worker"), g.role_ready_count("none")) == (1, 0)
    assert not grouped({"ps": 1, "worker": 2}, 3, worker=3).jobs["default/g"].roles_valid()
    assert not grouped({"worker": 2}, 2, worker=1).jobs["default/g"].roles_valid()


def test_roles_do_not_count_where_the_job_needs_fewer_than_they_add_up_to() -> None:
    assert grouped({"worker": 2, "ps": 2}, 1, worker=1).jobs["default/g"].roles_valid()
    assert grouped({"none": 0}, 0, worker=1).jobs["default/g"].roles_valid()


def test_a_policy_sets_tasks_apart_by_their_labels() -> None:
    policy = {
        "name": "slice",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "matchLabelKeys": ["part"],
        "subGroupSize": 2,
        "minSubGroups": 2,
    }
    spec = {"minMember": 2, "subGroupPolicy": [policy]}
    group = decode("PodGroup", {"metadata": {"name": "g", "namespace": "default"}, "spec": spec})
    long = "p" * 200
    parts = {"p-0": "0", "p-1": "0", "p-2": "1", "p-3": "x", "p-4": long}
    pods = [pod(n, group="g", labels={"app": "x", "part": part}) for n, part in parts.items()]
    ssn = session(node("n1"), group, *pods, pod("rest", group="g"), pod("bare", group="g", labels={"app": "x"}))
    g = ssn.jobs["default/g"]
    sizes = {uid.removeprefix("default/g"): len(s.tasks) for uid, s in g.sub_jobs.items()}
    assert sizes["/slice-0"] == 2
    assert (sizes["/slice-1"], sizes["/slice-x"], sizes[""]) == (1, 1, 2)
    assert sub_job_of(g, task_of(ssn, "p-4"))[0].startswith("default/g/slice-")
    assert len(sub_job_of(g, task_of(ssn, "p-4"))[0]) < 40
    first = g.sub_jobs["default/g/slice-0"]
    assert (first.min_available, first.is_default, first.group, first.priority) == (2, False, "default/g/slice", 1)
    assert g.sub_jobs["default/g"].is_default
    assert (g.sub_jobs_valid(half=True), g.sub_jobs_valid()) == (True, False)
    assert (g.sub_jobs_ready(), g.sub_jobs_pipelined()) == (False, False)
    assert repr(first) == "<SubJob default/g/slice-0>"
    statement = ssn.statement()
    for name in ("p-0", "p-1"):
        statement.pipeline(task_of(ssn, name), ssn.nodes["n1"])
    assert (first.is_ready, first.is_pipelined, g.sub_jobs_pipelined()) == (False, True, False)


@pytest.mark.parametrize(("priorities", "highest"), [((-10, -5), 0), ((-10, 3), 3), ((0, 0), 0), ((7, 2), 7)])
def test_a_sub_job_has_the_highest_priority_of_its_tasks_and_at_least_0(
    priorities: tuple[int, int], highest: int
) -> None:
    spec = {"minMember": 1, "subGroupPolicy": [{"name": "part", "matchLabelKeys": ["part"], "subGroupSize": 2}]}
    group = decode("PodGroup", {"metadata": {"name": "g", "namespace": "default"}, "spec": spec})
    pods = [pod(f"p-{n}", group="g", priority=p, labels={"part": "0"}) for n, p in enumerate(priorities)]
    assert session(node("n1"), group, *pods).jobs["default/g"].sub_jobs["default/g/part-0"].priority == highest


def test_the_elastic_part_is_what_a_job_holds_beyond_its_minimum() -> None:
    ssn = session(node("n1"), job("a", tasks=3, min_resources={"cpu": 2}, on="n1"))
    assert ssn.jobs["default/a"].elastic().milli_cpu == 1000
    assert ssn.queues["default"].elastic.milli_cpu == 1000


def test_what_gated_tasks_ask_for_is_not_still_to_come() -> None:
    gated = decode(
        "Pod",
        {
            "metadata": {"name": "a-9", "namespace": "default", "annotations": {"scheduling.k8s.io/group-name": "a"}},
            "spec": {
                "schedulingGates": [{"name": "x"}],
                "containers": [{"name": "c", "resources": {"requests": {"cpu": 2}}}],
            },
            "status": {"phase": "Pending"},
        },
    )
    ssn = session(job("a", tasks=2), gated)
    assert ssn.jobs["default/a"].without_gated(Resources.of(cpu=3)) == Resources.of(cpu=1)
    assert ssn.jobs["default/a"].without_gated(Resources.of(cpu=1)) == Resources.of(cpu=0)


def test_a_node_shows_its_row() -> None:
    ssn = session(cluster("1x4gpu"), job("a", gpu=3, memory="1Gi", on="node-0"))
    n = ssn.nodes["node-0"]
    assert (n.gpus, n.idle_gpus, n.gpu_utilization, n.has_available_gpus()) == (4, 1, 0.75, True)
    assert n.used == Resources.of(cpu=1, memory="1Gi", gpu=3, pods=1)
    assert n.capacity.milli_cpu == 32000
    assert n.pipelined.is_empty
    assert n.idle.get(999, 7) == 7
    assert (n.unschedulable, repr(n)) == (False, "<Node node-0>")
    assert session(node("n")).nodes["n"].gpu_utilization == 0.0


def test_amounts_of_a_node_that_a_plugin_keeps_follow_the_table_when_it_grows() -> None:
    state = ClusterState()
    state.apply_all(Seen(obj) for obj in [queue("default"), node("first", cpu=4)])
    used, offered = state.nodes["first"].used, state.nodes["first"].allocatable
    state.apply_all(Seen(node(f"node-{n:03}", cpu=4)) for n in range(200))
    state.apply_all(Seen(obj) for obj in job("a", cpu=3, on="first"))
    state.refresh()
    assert (used.milli_cpu, offered["cpu"], state.nodes["first"].idle.milli_cpu) == (3000, 4, 1000)


@pytest.mark.parametrize(
    ("gpus", "fractions", "idle", "taken"),
    [
        (1, ["0.5"], 0, 0.5),
        (1, ["0.5", "0.25"], 0, 0.75),
        (2, ["0.5", "0.5"], 1, 0.5),
        (2, ["0.5", "0.75"], 0, 0.625),
        (4, [], 4, 0.0),
    ],
)
def test_a_gpu_that_is_shared_is_not_free(gpus: int, fractions: list[str], idle: int, taken: float) -> None:
    pods = [pod(f"p{n}", on="n", annotations={"gpu-fraction": f}) for n, f in enumerate(fractions)]
    n = session(node("n", gpu=gpus), *pods).nodes["n"]
    assert (n.gpus, n.idle_gpus, n.gpu_utilization) == (gpus, idle, taken)
    assert n.has_available_gpus() is (idle > 0)


def test_a_node_with_imagined_tasks_shows_what_they_would_take_of_its_gpus() -> None:
    half = pod("half", annotations={"gpu-fraction": "0.5"})
    ssn = session(node("n", gpu=2), half, pod("whole", gpu=1))
    n = ssn.nodes["n"]
    for name, extra, idle, taken in (("half", 1, 1, 0.25), ("half", 3, 0, 0.75), ("whole", 1, 1, 0.5)):
        imagined = ImaginedNode(n, ssn.state.task_by_key[f"default/{name}"], extra)
        assert (imagined.idle_gpus, imagined.gpu_utilization) == (idle, taken)


def test_a_queue_shows_its_object() -> None:
    ssn = session(queue("root"), queue("a", weight=3, priority=2, parent="root", reclaimable=False), queue("b"))
    a, b, root = (ssn.queues[n] for n in ("a", "b", "root"))
    assert (a.weight, a.priority, a.parent, a.reclaimable, a.state) == (3, 2, "root", False, "Open")
    assert (b.parent, b.reclaimable, b.dequeue_strategy, root.parent) == ("root", True, "traverse", "")
    assert (a.uid, repr(a)) == ("a", "<Queue a>")
    assert a.inqueue.is_empty
    assert a.held.is_empty


def test_reasons_are_numbers_until_somebody_asks() -> None:
    number = reason_id("mine", "no", Code.UNRESOLVABLE)
    assert reason_id("mine", "no", Code.UNRESOLVABLE) == number
    assert reason_of(number) == Reason("mine", "no", Code.UNRESOLVABLE)
    assert not reason_of(number).evictable
    assert Reason("mine", "no").evictable
    assert (Unfit("x").code, Unfit("x", code=Code.ERROR).code) == (Code.UNSCHEDULABLE, Code.ERROR)
    assert PASS
    assert not reject("no")


def test_every_move_but_completion_can_be_undone() -> None:
    one_way = {(S.ALLOCATED, S.BINDING), (S.PIPELINED, S.ALLOCATED), (S.BINDING, S.PENDING)}
    assert {(b, a) for a, b in MOVES} - MOVES <= {(b, a) for a, b in one_way}
    assert [s.bit for s in S][:4] == [1, 2, 4, 8]
    assert S.PIPELINED.title == "Pipelined"
    assert JobPhase.INQUEUE == "Inqueue"


@pytest.mark.parametrize(("text", "truth"), [("true", True), ("1", True), ("T", True), ("yes", False), ("", False)])
def test_truth_is_written_as_in_go(text: str, truth: bool) -> None:
    assert parse_bool(text) is truth
