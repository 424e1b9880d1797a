"""The scheduler on a real API server, with exactly the rights that we ship."""

from __future__ import annotations

from pathlib import Path

import pytest
from kube_bed import ACCOUNT, Bed, until
from kube_world import World, all_bound

LEASE = "/apis/coordination.k8s.io/v1/namespaces/pumice-system/leases/pumice"
SHORT = ("--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms")
PREEMPT = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


def priority_class(bed: Bed, name: str, value: int) -> None:
    bed.create(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    )


def held(bed: Bed) -> dict[str, str]:
    queue = bed.call("GET", "/apis/scheduling.volcano.sh/v1beta1/queues/default")
    allocated: dict[str, str] = queue.get("status", {}).get("allocated", {})
    return allocated


@pytest.mark.smoke
def test_a_gang_is_bound_whole_with_the_rights_that_we_ship(world: World) -> None:
    world.node("n1", cpu="2")
    world.node("n2", cpu="2")
    world.gang("fits", 4)
    scheduler = world.scheduler()
    all_bound(world, "fits-0", "fits-1", "fits-2", "fits-3")
    assert sorted(world.bound().values()) == ["n1", "n1", "n2", "n2"]
    until(lambda: world.group("fits").get("status", {}).get("phase") == "Running", 20, "the group says Running")
    world.kubelet()
    until(lambda: world.group("fits")["status"].get("running") == 4, 20, "the group counts its running pods")
    until(lambda: held(world.bed).get("cpu") == "4", 20, "the queue says what it holds")
    assert world.bed.call("GET", LEASE)["spec"]["holderIdentity"].startswith(world.namespace)
    assert scheduler.stop() == 0
    assert world.bed.call("GET", LEASE)["spec"]["holderIdentity"] == ""
    assert "forbidden" not in scheduler.log.lower()
    assert "is not to be read" not in scheduler.log


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("verb", "group", "resource"),
    [
        *(("get", "", "secrets"), ("list", "", "secrets"), ("get", "", "configmaps")),
        *(("create", "", "pods"), ("delete", "", "pods"), ("patch", "", "pods"), ("patch", "", "nodes")),
        *(
            ("get", "", "nodes"),
            ("get", "", "namespaces"),
            ("get", "", "resourcequotas"),
            ("patch", "", "resourcequotas"),
        ),
        *(("get", "scheduling.volcano.sh", "podgroups"), ("patch", "scheduling.volcano.sh", "queues")),
        *(("delete", "scheduling.volcano.sh", "queues"), ("update", "scheduling.volcano.sh", "podgroups")),
    ],
)
def test_the_rights_that_we_ship_stop_at_what_is_needed(bed: Bed, verb: str, group: str, resource: str) -> None:
    asked = {"verb": verb, "group": group, "resource": resource, "namespace": "default"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {"user": ACCOUNT, "resourceAttributes": asked},
    }
    assert bed.create(review)["status"]["allowed"] is False


def test_a_gang_that_does_not_fit_waits_whole_and_is_told_why(world: World) -> None:
    world.node("n1", cpu="3")
    world.gang("big", 4)
    scheduler = world.scheduler("--no-leader-elect")

    def told() -> bool:
        conditions = world.group("big").get("status", {}).get("conditions", [])
        return any(c["type"] == "Unschedulable" and c["lastTransitionTime"] for c in conditions)

    until(told, 40, "the group has a condition")
    assert world.bound() == {}
    world.node("n2", cpu="1")
    all_bound(world, "big-0", "big-1", "big-2", "big-3")
    assert "forbidden" not in scheduler.log.lower()


@pytest.mark.smoke
def test_a_more_important_gang_evicts_and_takes_the_room(world: World, tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(PREEMPT)
    priority_class(world.bed, "kube-low", 10)
    priority_class(world.bed, "kube-high", 1000)
    world.node("n1", cpu="2")
    world.gang("low", 2, minimum=1, priority="kube-low")
    scheduler = world.scheduler("--no-leader-elect", f"--scheduler-conf={conf}")
    all_bound(world, "low-0", "low-1")
    world.kubelet()
    world.gang("high", 1, priority="kube-high")

    def step() -> bool:
        world.kubelet()
        return "high-0" in world.bound()

    until(step, 40, "the important pod is bound")
    assert len([name for name in world.pods() if name.startswith("low")]) == 1
    assert "forbidden" not in scheduler.log.lower()


@pytest.mark.smoke
def test_scheduling_goes_on_after_the_api_server_was_killed_and_started_again(world: World) -> None:
    world.node("n1", cpu="4")
    scheduler = world.scheduler("--no-leader-elect")
    world.gang("before", 2)
    all_bound(world, "before-0", "before-1")
    world.bed.stop_server(kill=True)
    world.bed.start_server()
    world.gang("after", 2)
    all_bound(world, "after-0", "after-1")
    assert set(world.bound().values()) == {"n1"}
    assert scheduler.stop() == 0


def test_only_nodes_with_a_chosen_label_are_used(world: World) -> None:
    world.node("a-web", cpu="8", pool="web")
    world.node("b-batch", cpu="2", pool="batch")
    world.scheduler("--no-leader-elect", "--node-selector=pool:batch")
    world.gang("g", 2)
    all_bound(world, "g-0", "g-1")
    assert set(world.bound().values()) == {"b-batch"}


def test_a_second_replica_waits_and_takes_over_when_the_first_ends(world: World) -> None:
    world.node("n1")
    first = world.scheduler(*SHORT)
    until(lambda: "leads" in first.log, 40, "the first leads")
    second = world.scheduler(*SHORT)
    world.gang("one", 1)
    all_bound(world, "one-0")
    assert "leads" not in second.log
    first.kill()
    world.gang("two", 1)
    all_bound(world, "two-0")
    assert "leads" in second.log


def test_a_leader_that_slept_through_its_lease_ends_and_no_pod_is_bound_twice(world: World) -> None:
    world.node("n1", cpu="4")
    first = world.scheduler(*SHORT)
    until(lambda: "leads" in first.log, 40, "the first leads")
    second = world.scheduler(*SHORT)
    first.freeze()
    world.gang("g", 4)
    all_bound(world, "g-0", "g-1", "g-2", "g-3")
    assert "leads" in second.log
    before = {name: pod["metadata"]["resourceVersion"] for name, pod in world.pods().items()}
    first.thaw()
    assert first.wait(20) == 1
    assert {name: pod["metadata"]["resourceVersion"] for name, pod in world.pods().items()} == before


def test_a_gang_whose_binding_the_api_servers_death_interrupts_is_completed(world: World) -> None:
    for i in range(4):
        world.node(f"n{i}", cpu="50")
    world.scheduler("--no-leader-elect", "bindsInFlight=1")
    world.gang("g", 200)
    done = until(lambda: len(world.bound()) >= 2 and world.bound(), 40, "some are bound")
    world.bed.stop_server(kill=True)
    assert len(done) < 200
    world.bed.start_server()
    names = [f"g-{i}" for i in range(200)]
    all_bound(world, *names)
    nodes = list(world.bound().values())
    assert {node: nodes.count(node) for node in set(nodes)} == {f"n{i}": 50 for i in range(4)}


def test_a_scheduler_that_is_killed_in_the_middle_of_a_gang_finishes_it_when_started_again(world: World) -> None:
    for i in range(4):
        world.node(f"n{i}", cpu="50")
    first = world.scheduler("--no-leader-elect", "bindsInFlight=1")
    world.gang("g", 200)
    until(lambda: len(world.bound()) >= 2, 40, "some are bound")
    first.kill()
    done = world.bound()
    assert 2 <= len(done) < 200
    world.scheduler("--no-leader-elect")
    all_bound(world, *(f"g-{i}" for i in range(200)))
    nodes = list(world.bound().values())
    assert {node: nodes.count(node) for node in set(nodes)} == {f"n{i}": 50 for i in range(4)}
    assert {name: world.bound()[name] for name in done} == done


def test_another_schedulers_pods_count_and_the_room_is_not_given_twice(world: World) -> None:
    world.node("n1", cpu="4")
    world.scheduler("--no-leader-elect")
    world.gang("g", 1, cpu="1")
    all_bound(world, "g-0")
    for i in range(2):
        world.pod(f"foreign-{i}", "", cpu="1")
        body = {"metadata": {"name": f"foreign-{i}"}, "target": {"kind": "Node", "name": "n1"}}
        world.bed.call("POST", world.path(f"foreign-{i}", "binding"), body)
    world.gang("two", 2, cpu="1")
    world.gang("one", 1, cpu="1")
    all_bound(world, "one-0")
    assert sorted(world.bound()) == ["foreign-0", "foreign-1", "g-0", "one-0"]


CAPACITY = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: capacity
"""


@pytest.mark.smoke
def test_what_is_not_let_in_and_what_belongs_to_no_group_say_why(world: World, tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(CAPACITY)
    queue = f"small-{world.namespace}"
    spec = {"weight": 1, "capability": {"cpu": "1"}}
    made = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": queue}, "spec": spec}
    world.bed.create(made)
    world.node("n1", cpu="4")
    world.scheduler(f"--scheduler-conf={conf}")
    world.gang("big", 2, queue=queue, resources=True)
    world.pod("lost", "nowhere")

    def conditions() -> dict[str, dict[str, str]]:
        return {c["type"]: c for c in world.group("big").get("status", {}).get("conditions", ())}

    def events(name: str) -> list[str]:
        found = world.bed.call("GET", f"/api/v1/namespaces/{world.namespace}/events")["items"]
        return [e["reason"] for e in found if e["involvedObject"]["name"] == name]

    until(lambda: conditions().get("Admitted", {}).get("status") == "False", 20, "the group says that it is not let in")
    assert conditions()["Admitted"]["message"].startswith(f"not let into queue {queue} (capacity): ")
    until(lambda: "Unschedulable" in events("big"), 20, "there is an event about the group")
    until(lambda: "NoPodGroup" in events("lost"), 30, "there is an event about the pod")

    def scheduled() -> dict[str, str]:
        found = world.pods()["big-0"]["status"].get("conditions", ())
        return next((c for c in found if c["type"] == "PodScheduled"), {})

    until(lambda: scheduled().get("reason") == "NotLetIn", 20, "its pods say so too, and call no autoscaler")
    assert "cpu" in scheduled()["message"]
    path = f"/apis/scheduling.volcano.sh/v1beta1/queues/{queue}"
    world.bed.call("PATCH", path, {"spec": {"capability": {"cpu": "2"}}}, patch="merge")
    all_bound(world, "big-0", "big-1")
    until(lambda: conditions()["Admitted"]["status"] == "True", 20, "the group says that it was let in")
