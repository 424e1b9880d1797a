"""The manifests that we ship: the server takes every field, and the scheduler takes what they tell it."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube_bed import ACCOUNT, ROOT, Bed, Refusal, free_port, until
from kube_world import GROUPS, World, all_bound

MANIFEST = ROOT / "deploy" / "manifests" / "scheduler.yaml"


def documents() -> dict[str, dict[str, object]]:
    return {d["kind"]: d for d in yaml.safe_load_all(MANIFEST.read_text())}


def config_map(name: str) -> dict[str, Any]:
    """Return a ConfigMap of the manifests."""
    found = [d for d in yaml.safe_load_all(MANIFEST.read_text()) if d["kind"] == "ConfigMap"]
    return next(d for d in found if d["metadata"]["name"] == name)


def test_the_server_takes_every_field_of_the_manifests(bed: Bed) -> None:
    for document in documents().values():
        version, namespace = str(document["apiVersion"]), "pumice-system"
        prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
        plural = f"{str(document['kind']).lower()}s"
        where = f"{prefix}/namespaces/{namespace}/{plural}?dryRun=All&fieldValidation=Strict"
        assert bed.call("POST", where, document)["kind"] == document["kind"]


@pytest.fixture
def conf_map(bed: Bed) -> Iterator[str]:
    """The path of the conf, as the manifest makes it."""
    made = bed.create(config_map("pumice-scheduler-conf"))["metadata"]
    path = f"/api/v1/namespaces/{made['namespace']}/configmaps/{made['name']}"
    yield path
    with suppress(Refusal):
        bed.call("DELETE", path)


def flags() -> list[str]:
    """The command line of the manifest, on ports that are free."""
    container = documents()["Deployment"]["spec"]["template"]["spec"]["containers"][0]  # type: ignore[index]
    assert container["args"] == ["run", "--config=/etc/pumice/settings/settings.yaml"]
    settings = yaml.safe_load(config_map("pumice-scheduler-settings")["data"]["settings.yaml"])
    del settings["apiVersion"], settings["kind"]
    return [
        *(f"{path}={json.dumps(value)}" for path, value in settings.items()),
        "--listen-address=127.0.0.1:0",
        "--healthz-address=127.0.0.1:0",
    ]


def test_the_scheduler_runs_with_the_conf_and_the_flags_of_the_manifest(world: World, conf_map: str) -> None:
    world.node("n1")
    world.gang("g", 2)
    scheduler = world.scheduler(*flags())
    all_bound(world, "g-0", "g-1")
    assert "warning" not in scheduler.log.lower()
    assert scheduler.stop() == 0


def test_a_changed_config_map_is_followed_with_the_rights_that_we_ship(world: World, bed: Bed, conf_map: str) -> None:
    def write(text: str) -> None:
        bed.call("PATCH", conf_map, {"data": {"scheduler.conf": text}})

    good = config_map("pumice-scheduler-conf")["data"]["scheduler.conf"]
    write("actions: nonsense")
    world.node("n1")
    world.gang("g", 2)
    scheduler = world.scheduler(*flags())
    events = "/api/v1/namespaces/pumice-system/events?fieldSelector=reason=ConfNotUsed"
    until(lambda: bed.call("GET", events)["items"], 30, "the bad conf is told as an event")
    assert (world.bound(), "nonsense" in scheduler.log) == ({}, True)
    write(good)
    all_bound(world, "g-0", "g-1")
    write(good.replace("enqueue, allocate, preempt, backfill", "enqueue"))
    until(lambda: scheduler.log.count("from the next cycle on") == 2, 20, "the second conf is in use")
    world.gang("h", 1)
    bed.call("DELETE", conf_map)
    until(lambda: "it was deleted" in scheduler.log, 20, "the map is missed")
    assert (set(world.bound()), scheduler.stop()) == ({"g-0", "g-1"}, 0)


def test_what_is_measured_can_be_scraped_and_goes_with_the_job(world: World, bed: Bed, conf_map: str) -> None:
    port = free_port()

    def scraped() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    world.node("n1")
    world.gang("small", 2)
    world.gang("big", 2, cpu="8")
    scheduler = world.scheduler(*flags(), f"--listen-address=127.0.0.1:{port}")
    all_bound(world, "small-0", "small-1")
    until(lambda: 'stage="Bound"} 2.0' in scraped(), 20, "both binds are measured")
    text = scraped()
    labels = f'job_name="small",job_namespace="{world.namespace}",queue="default"'
    for line in (
        f"volcano_e2e_job_scheduling_duration{{{labels}}} ",
        f'volcano_unschedule_task_count{{job_id="big",job_ns="{world.namespace}"}} 2.0',
        'pumice_writes_total{intent="bind",result="done"} 2.0',
        'volcano_queue_allocated_milli_cpu{queue_name="default"} 2000.0',
        'pumice_lists{kind="Pod"} 1.0',
        "pumice_leading 1.0",
        "pumice_conf_good 1.0",
        "process_resident_memory_bytes ",
    ):
        assert f"\n{line}" in text, line
    for name in world.pods():
        world.delete(name)
    bed.call("DELETE", f"{GROUPS}/namespaces/{world.namespace}/podgroups")
    until(lambda: world.namespace not in scraped(), 40, "the series of the jobs are gone")
    assert scheduler.stop() == 0


@pytest.mark.parametrize(
    ("verb", "resource", "namespace", "name", "allowed"),
    [
        ("get", "configmaps", "pumice-system", "pumice-scheduler-conf", True),
        ("watch", "configmaps", "pumice-system", "pumice-scheduler-conf", True),
        ("update", "configmaps", "pumice-system", "pumice-scheduler-conf", False),
        ("get", "configmaps", "pumice-system", "another", False),
        ("list", "configmaps", "pumice-system", "", False),
        ("get", "configmaps", "default", "pumice-scheduler-conf", False),
        ("get", "secrets", "pumice-system", "", False),
        ("list", "secrets", "", "", False),
        ("list", "pods", "", "", True),
        ("create", "pods", "default", "", False),
        ("delete", "pods", "default", "", False),
        ("create", "pods/binding", "default", "", True),
        ("update", "nodes", "", "n1", False),
        ("update", "coordination.k8s.io/leases", "pumice-system", "pumice", True),
        ("update", "coordination.k8s.io/leases", "pumice-system", "another", False),
        ("update", "coordination.k8s.io/leases", "kube-system", "pumice", False),
    ],
)
def test_the_scheduler_may_do_what_it_needs_and_no_more(
    bed: Bed, verb: str, resource: str, namespace: str, name: str, allowed: bool
) -> None:
    group, _, plural = resource.rpartition("/") if "." in resource else ("", "", resource)
    plural, _, sub = plural.partition("/")
    asked = {"verb": verb, "group": group, "resource": plural, "subresource": sub, "namespace": namespace, "name": name}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": ACCOUNT, "groups": ["system:serviceaccounts"], "resourceAttributes": asked},
    }
    answer = bed.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert answer["status"]["allowed"] is allowed


def test_the_conf_of_the_manifest_passes_the_check(tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(config_map("pumice-scheduler-conf")["data"]["scheduler.conf"])
    pumice = Path(sys.executable).parent / "pumice"
    done = subprocess.run([str(pumice), "conf", "check", str(conf)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_queues_and_groups_that_break_a_rule_are_refused_by_the_crds(bed: Bed) -> None:
    def refused(document: dict[str, object]) -> bool:
        try:
            bed.create(document)
        except Refusal as no:
            return no.code == 422
        return False

    version = "scheduling.volcano.sh/v1beta1"
    assert refused({"apiVersion": version, "kind": "Queue", "metadata": {"name": "bad"}, "spec": {"weight": 0}})
    amount = {"minResources": {"cpu": "a lot"}}
    meta = {"name": "bad", "namespace": "default"}
    assert refused({"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": amount})
