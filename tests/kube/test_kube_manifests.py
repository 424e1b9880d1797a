"""The manifests that we ship: the server takes every field, and the scheduler takes what they tell it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml
from kube_bed import ROOT, Bed, Refusal
from kube_world import World, all_bound

MANIFEST = ROOT / "deploy" / "manifests" / "scheduler.yaml"


def documents() -> dict[str, dict[str, object]]:
    return {d["kind"]: d for d in yaml.safe_load_all(MANIFEST.read_text())}


def test_the_server_takes_every_field_of_the_manifests(bed: Bed) -> None:
    for document in documents().values():
        version, namespace = str(document["apiVersion"]), "pumice-system"
        prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
        plural = f"{str(document['kind']).lower()}s"
        where = f"{prefix}/namespaces/{namespace}/{plural}?dryRun=All&fieldValidation=Strict"
        assert bed.call("POST", where, document)["kind"] == document["kind"]


def test_the_scheduler_runs_with_the_conf_and_the_flags_of_the_manifest(world: World, tmp_path: Path) -> None:
    given = documents()
    conf = tmp_path / "scheduler.conf"
    conf.write_text(given["ConfigMap"]["data"]["scheduler.conf"])  # type: ignore[index]
    container = given["Deployment"]["spec"]["template"]["spec"]["containers"][0]  # type: ignore[index]
    flags = [arg.replace("/etc/pumice/scheduler.conf", str(conf)) for arg in container["args"]]
    ports = {"--listen-address": "127.0.0.1:0", "--healthz-address": "127.0.0.1:0"}
    world.node("n1")
    world.gang("g", 2)
    scheduler = world.scheduler(*flags, *(f"{k}={v}" for k, v in ports.items()))
    all_bound(world, "g-0", "g-1")
    assert "warning" not in scheduler.log.lower()
    assert scheduler.stop() == 0


def test_the_conf_of_the_manifest_passes_the_check(tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(documents()["ConfigMap"]["data"]["scheduler.conf"])  # type: ignore[index]
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
