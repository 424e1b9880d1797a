"""The controllers on a real API server, with exactly the rights that we ship; `pumice run` binds what they make."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube_bed import ACCOUNT, ROOT, Bed, free_port, until
from kube_jobs import Place, grant_rights
from kube_world import GROUPS, World

LEASE = "/apis/coordination.k8s.io/v1/namespaces/pumice-system/leases/pumice-controllers"
PREEMPT = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: proportion
"""


def kept_going(world: World, done: Callable[[], bool]) -> Callable[[], bool]:
    """Whether it is done; until then the kubelets do their part."""

    def look() -> bool:
        world.kubelet()
        return done()

    return look


@pytest.fixture(scope="module", autouse=True)
def rights(bed: Bed) -> None:
    """The account of the controllers may do what the manifest says."""
    grant_rights(bed)


@pytest.fixture
def place(world: World) -> Iterator[Place]:
    made = Place(world)
    try:
        yield made
    finally:
        made.clean()


def test_a_job_gets_its_pods_runs_completes_and_is_removed_after_its_time(place: Place) -> None:
    world = place.world
    world.node("n1", cpu="4")
    controllers, scheduler = place.controllers(), world.scheduler("--no-leader-elect")
    made = place.job(
        "train", {"master": 1, "worker": 2}, plugins={"env": [], "svc": [], "ssh": []}, ttlSecondsAfterFinished=2
    )
    uid = made["metadata"]["uid"]
    place.reaches("train", "Running")
    assert sorted(world.bound()) == ["train-master-0", "train-worker-0", "train-worker-1"]
    group = world.group(f"train-{uid}")
    assert group["metadata"]["labels"]["team"] == "red"
    assert group["metadata"]["annotations"]["volcano.sh/sla-waiting-time"] == "1h"
    assert group["spec"]["minMember"] == 3
    assert group["spec"]["minTaskMember"] == {"master": 1, "worker": 2}
    assert group["spec"]["minResources"]["cpu"] == "3"
    pod = world.pods()["train-worker-1"]
    assert pod["metadata"]["ownerReferences"][0]["uid"] == uid
    assert pod["metadata"]["labels"]["volcano.sh/task-spec"] == "worker"
    assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == f"train-{uid}"
    assert {"name": "VC_TASK_INDEX", "value": "1"} in pod["spec"]["containers"][0]["env"]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("train-worker-1", "train")
    service = place.bed.call("GET", f"/api/v1/namespaces/{world.namespace}/services/train")
    assert service["spec"]["clusterIP"] == "None"
    assert service["metadata"]["ownerReferences"][0]["uid"] == uid
    hosts = next(v["configMap"]["name"] for v in pod["spec"]["volumes"] if "configMap" in v)
    found = place.bed.call("GET", f"/api/v1/namespaces/{world.namespace}/configmaps/{hosts}")
    assert found["data"]["worker.host"] == "train-worker-0.train\ntrain-worker-1.train"
    said = until(lambda: [e for e in place.events() if e["reason"] == "Unsupported"], 20, "what is missing is said")
    assert "'ssh'" in said[0]["message"]
    place.ends("Succeeded", *world.bound())
    status = place.reaches("train", "Completed")
    assert status["succeeded"] == 3
    assert [c["status"] for c in status["conditions"]] == ["Pending", "Running", "Completed"]
    until(lambda: not place.bed.call("GET", place.groups)["items"], 20, "the PodGroup is gone")
    until(lambda: place.phase("train") == "Gone", 20, "the job is gone")
    assert controllers.stop() == 0
    assert "forbidden" not in controllers.log.lower() + scheduler.log.lower()


def test_a_failed_pod_restarts_the_job_until_its_retries_are_used_up(place: Place) -> None:
    world = place.world
    world.node("n1", cpu="4")
    place.controllers()
    world.scheduler("--no-leader-elect")
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    place.job("fragile", {"w": 2}, policies=policies, maxRetry=2)
    place.reaches("fragile", "Running")
    first = place.uids()
    place.ends("Failed", "fragile-w-0")
    until(lambda: place.status("fragile").get("retryCount") == 1, 20, "the job was restarted")
    place.reaches("fragile", "Running")
    assert not set(first.values()) & set(place.uids().values())
    assert place.status("fragile")["version"] == 1
    place.ends("Failed", "fragile-w-1")
    status = place.reaches("fragile", "Failed")
    assert status["retryCount"] == 2
    until(lambda: place.status("fragile").get("failed") == 1, 20, "the failed pod stays to be looked at")
    until(kept_going(world, lambda: [*world.pods()] == ["fragile-w-1"]), 20, "the others are gone")


def test_an_exit_code_and_an_eviction_have_policies_of_their_own(place: Place) -> None:
    world = place.world
    world.node("n1", cpu="4")
    place.controllers()
    world.scheduler("--no-leader-elect")
    policies = [{"exitCode": 3, "action": "RestartPod"}, {"event": "PodEvicted", "action": "AbortJob"}]
    place.job("choosy", {"w": 3}, minAvailable=2, policies=policies)
    place.reaches("choosy", "Running")
    before = place.uids()
    place.ends("Failed", "choosy-w-1", code=3)
    until(
        kept_going(world, lambda: place.uids().get("choosy-w-1", before["choosy-w-1"]) != before["choosy-w-1"]),
        20,
        "one pod is new",
    )
    place.reaches("choosy", "Running")
    assert {n: u for n, u in place.uids().items() if n != "choosy-w-1"} == {
        n: u for n, u in before.items() if n != "choosy-w-1"
    }
    world.delete("choosy-w-2")
    place.reaches("choosy", "Aborted")
    assert not world.pods()
    place.command("ResumeJob", "Job", "choosy")
    place.reaches("choosy", "Running")
    assert not place.commands()


def test_a_job_that_breaks_a_rule_is_told_so_and_gets_nothing(place: Place) -> None:
    place.controllers()
    place.job("bad", {"w": 1}, minAvailable=5, policies=[{"event": "PodFailed", "action": "Panic"}])
    until(lambda: place.status("bad")["state"].get("reason") == "InvalidSpec", 30, "the status says so")
    message = place.status("bad")["state"]["message"]
    assert "minAvailable: must be at most the number of pods (1), got 5" in message
    assert "'Panic'" in message
    assert not place.world.pods()


def test_tasks_wait_for_those_that_they_depend_on(place: Place) -> None:
    world = place.world
    world.node("n1", cpu="4")
    place.controllers()
    world.scheduler("--no-leader-elect")
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    tasks = [
        {"name": "ps", "replicas": 1, "template": template},
        {"name": "w", "replicas": 2, "minAvailable": 0, "template": template, "dependsOn": {"name": ["ps"]}},
    ]
    place.job("ordered", {}, tasks=tasks, minAvailable=1)
    until(lambda: "ordered-ps-0" in world.bound(), 40, "the first task is bound")
    time.sleep(0.5)
    assert [*world.pods()] == ["ordered-ps-0"]
    world.kubelet()
    until(lambda: len(world.bound()) == 3, 40, "the second task is bound")


def test_bare_pods_and_pods_of_a_batch_job_get_a_group_and_are_bound(place: Place) -> None:
    world = place.world
    world.node("n1", cpu="4")
    controllers = place.controllers()
    world.scheduler("--no-leader-elect")
    world.pod("bare", "")
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "500m"}}}
    spec = {"schedulerName": "pumice", "restartPolicy": "Never", "containers": [container]}
    batch = place.bed.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "sweep",
                "namespace": world.namespace,
                "annotations": {"scheduling.volcano.sh/group-min-member": "2", "volcano.sh/sla-waiting-time": "2h"},
            },
            "spec": {"parallelism": 2, "completions": 2, "template": {"spec": spec}},
        }
    )
    uid = batch["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "sweep", "uid": uid, "controller": True}
    for n in range(2):  # as the cluster's own job controller makes them
        meta = {"name": f"sweep-{n}", "namespace": world.namespace, "ownerReferences": [owner]}
        place.bed.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    until(lambda: len(world.bound()) == 3, 40, "all are bound")
    group = world.group(f"podgroup-{uid}")
    assert group["spec"]["minMember"] == 2
    assert group["spec"]["minResources"]["cpu"] == "1"
    assert group["metadata"]["annotations"]["volcano.sh/sla-waiting-time"] == "2h"
    assert group["metadata"]["ownerReferences"][0]["uid"] == uid
    bare = world.pods()["bare"]
    alone = world.group(f"podgroup-{bare['metadata']['uid']}")
    assert alone["spec"]["minMember"] == 1
    assert alone["metadata"]["ownerReferences"][0]["kind"] == "Pod"
    assert len(place.bed.call("GET", place.groups)["items"]) == 2
    assert "forbidden" not in controllers.log.lower()


def test_a_queue_counts_its_groups_closes_when_it_is_empty_and_opens_again(place: Place) -> None:
    world = place.world
    name = f"q-{world.namespace}"[:60].rstrip("-")
    child = f"{name}-c"
    for queue, parent in ((name, ""), (child, name)):
        spec = {"weight": 1, **({"parent": parent} if parent else {})}
        body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": queue}}
        place.bed.create({**body, "spec": spec})

    def state(queue: str) -> dict[str, Any]:
        found: dict[str, Any] = place.bed.call("GET", f"{GROUPS}/queues/{queue}").get("status", {})
        return found

    place.controllers()
    until(lambda: (state(name).get("state"), state(child).get("state")) == ("Open", "Open"), 30, "both are open")
    place.job("held", {"w": 1}, queue=child)
    until(lambda: state(child).get("pending") == 1, 20, "the group is counted")
    place.command("CloseQueue", "Queue", name)
    until(lambda: state(child).get("state") == "Closing", 20, "the child closes with its parent")
    assert state(name).get("state") == "Closing"
    place.command("AbortJob", "Job", "held")
    until(lambda: (state(name).get("state"), state(child).get("state")) == ("Closed", "Closed"), 20, "both are closed")
    assert not state(child).get("pending")
    place.command("OpenQueue", "Queue", name)
    until(lambda: (state(name).get("state"), state(child).get("state")) == ("Open", "Open"), 20, "both are open again")
    until(lambda: not place.commands(), 20, "commands are gone once they were obeyed")


def test_controllers_that_are_killed_go_on_where_they_were(place: Place) -> None:
    world = place.world
    world.node("n1", cpu="40")
    short = (
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=500ms",
    )
    first = place.controllers(*short)
    world.scheduler("--no-leader-elect")
    policies = [{"event": "PodEvicted", "action": "RestartJob"}, {"event": "PodFailed", "action": "RestartJob"}]
    place.job("long", {"w": 30}, policies=policies)
    until(lambda: len(world.pods()) >= 3, 40, "some pods are there")
    first.kill()
    second = place.controllers(*short)
    place.reaches("long", "Running", 60)
    assert len(world.pods()) == 30
    assert not place.status("long").get("retryCount"), place.status("long")
    before = place.uids()
    second.kill()
    place.ends("Failed", "long-w-7")
    world.delete("long-w-9")
    third = place.controllers(*short)
    until(lambda: place.status("long").get("retryCount") == 1, 40, "what happened meanwhile is answered once")
    third.kill()
    health = f"127.0.0.1:{free_port()}"
    metrics = f"127.0.0.1:{free_port()}"
    served = ("--enable-healthz", f"--healthz-address={health}", "--enable-metrics", f"--listen-address={metrics}")
    last = place.controllers(*short, *served)
    place.reaches("long", "Running", 60)
    with urllib.request.urlopen(f"http://{health}/readyz", timeout=10) as answer:
        assert answer.read() == b"ok"
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=10) as answer:
        lines = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[0] != "#")
    assert lines["pumice_controllers_leading"] == "1.0"
    assert float(lines['pumice_controller_reconciles_total{controller="job",result="done"}']) > 0
    assert float(lines['pumice_controller_last_success_timestamp_seconds{controller="job"}']) > 0
    assert place.status("long")["retryCount"] == 1
    assert not set(before.values()) & set(place.uids().values())
    assert last.stop() == 0
    assert place.bed.call("GET", LEASE)["spec"]["holderIdentity"] == "", "the lease was given back"


@pytest.mark.parametrize(
    ("verb", "group", "resource"),
    [
        *(
            ("get", "", "secrets"),
            ("get", "", "configmaps"),
            ("create", "", "pods/exec"),
            ("create", "", "pods/binding"),
        ),
        *(("patch", "", "pods/status"), ("patch", "", "nodes"), ("delete", "", "services"), ("list", "batch", "jobs")),
        *(("create", "batch.volcano.sh", "jobs"), ("update", "batch.volcano.sh", "jobs")),
        *(("delete", "scheduling.volcano.sh", "queues"), ("patch", "scheduling.volcano.sh", "podgroups/status")),
    ],
)
def test_the_rights_of_the_controllers_stop_at_what_is_needed(bed: Bed, verb: str, group: str, resource: str) -> None:
    name, _, sub = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": name, "subresource": sub, "namespace": "default"}
    user = ACCOUNT.replace("-scheduler", "-controllers")
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}}
    found = bed.create({**review, "spec": {"user": user, "resourceAttributes": asked}})
    assert found["status"]["allowed"] is False


def test_pods_of_others_are_left_alone(place: Place) -> None:
    world = place.world
    world.node("n1")
    place.controllers()
    world.scheduler("--no-leader-elect")
    world.pod("taken-w-0", "somebody")
    uid = place.uids()["taken-w-0"]
    place.job("taken", {"w": 1})
    until(lambda: [e for e in place.events() if "is not of this job" in e["message"]], 30, "the conflict is told")
    place.command("TerminateJob", "Job", "taken")
    place.reaches("taken", "Terminated")
    assert place.uids() == {"taken-w-0": uid}


def test_a_job_is_completed_after_the_api_server_died_in_the_middle(place: Place) -> None:
    world = place.world
    world.node("n1", cpu="100")
    controllers = place.controllers()
    world.scheduler("--no-leader-elect")
    place.job("wide", {"w": 50}, policies=[{"event": "*", "action": "RestartJob"}])
    until(lambda: len(world.pods()) >= 5, 40, "some pods are there")
    place.bed.stop_server(kill=True)
    place.bed.start_server()
    place.reaches("wide", "Running", 60)
    until(kept_going(world, lambda: place.status("wide").get("running") == 50), 40, "all run")
    assert not place.status("wide").get("retryCount")
    assert controllers.stop() == 0


def test_the_example_runs_and_its_master_ends_it(place: Place) -> None:
    world = place.world
    world.node("n1", cpu="4")
    place.controllers()
    world.scheduler("--no-leader-elect")
    document = yaml.safe_load((ROOT / "examples" / "kubernetes" / "vcjob.yaml").read_text())
    document["metadata"]["namespace"] = world.namespace
    place.bed.create(document)
    place.reaches("train", "Running")
    until(kept_going(world, lambda: place.status("train").get("running") == 3), 20, "all run")
    place.ends("Succeeded", "train-master-0")
    status = place.reaches("train", "Completed")
    assert status["conditions"][-2]["status"] == "Completing"
    until(kept_going(world, lambda: [*world.pods()] == ["train-master-0"]), 20, "the workers are gone")


@pytest.mark.usefixtures("kubelets")
def test_a_job_that_is_preempted_begins_again_and_completes(place: Place, tmp_path: Path) -> None:
    world = place.world
    conf = tmp_path / "scheduler.conf"
    conf.write_text(PREEMPT)
    for name, value in (("vcjob-low", 10), ("vcjob-high", 1000)):
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        place.bed.create({**kind, "value": value})
    world.node("n1", cpu="2")
    place.controllers()
    world.scheduler("--no-leader-elect", f"--scheduler-conf={conf}")

    def task(priority: str, replicas: int, seconds: int) -> list[dict[str, Any]]:
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        spec = {"restartPolicy": "Never", "priorityClassName": priority, "containers": [container]}
        notes = {"pumice.test/run-for": f"{seconds}s"}
        template = {"metadata": {"annotations": notes}, "spec": spec}
        return [{"name": "w", "replicas": replicas, "minAvailable": 1, "template": template}]

    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    place.job("low", {}, tasks=task("vcjob-low", 2, 8), priorityClassName="vcjob-low", policies=policies)
    until(lambda: place.status("low").get("running") == 2, 30, "the first job runs")
    place.job("high", {}, tasks=task("vcjob-high", 1, 1), priorityClassName="vcjob-high")
    until(lambda: place.phase("high") == "Completed", 60, "the second is done first")
    assert place.status("low")["retryCount"] >= 1
    until(lambda: place.phase("low") == "Completed", 60, "the first is done too")
    assert place.status("low")["succeeded"] == 2


def test_the_group_of_a_replica_set_goes_when_its_last_pod_went(place: Place) -> None:
    """Each rollout of a Deployment leaves a ReplicaSet without pods; its group would ask the queue for room."""
    world = place.world
    world.node("n1", cpu="4")
    controllers = place.controllers()
    world.scheduler("--no-leader-elect")
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    made = place.bed.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "web", "namespace": world.namespace},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        }
    )
    uid = made["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": True}
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    for name in ("web-0", "web-1"):
        meta = {"name": name, "namespace": world.namespace, "labels": {"app": "web"}, "ownerReferences": [owner]}
        spec = {"schedulerName": "pumice", "containers": [container]}
        place.bed.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    until(lambda: len(world.bound()) == 2, 40, "both are bound")
    assert [g["metadata"]["name"] for g in place.bed.call("GET", place.groups)["items"]] == [f"podgroup-{uid}"]
    world.delete("web-0")
    time.sleep(12)
    assert len(place.bed.call("GET", place.groups)["items"]) == 1, "it has a pod"
    world.delete("web-1")
    until(lambda: not place.bed.call("GET", place.groups)["items"], 30, "the group is gone")
    place.bed.call("DELETE", f"/apis/apps/v1/namespaces/{world.namespace}/replicasets/web")
    assert controllers.stop() == 0
    assert "forbidden" not in controllers.log.lower()
