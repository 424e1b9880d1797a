"""A shadow on a real API server: with an account that may only read, beside a scheduler that runs."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube_bed import ROOT, Refusal, until
from kube_world import World

from pumice.kube.kinds import RESOURCES

pytestmark = pytest.mark.timeout(300)
VENV = Path(sys.executable).parent
RIGHTS = ROOT / "deploy" / "manifests" / "shadow-rbac.yaml"
PACKED = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: binpack}]
"""
SPREAD = PACKED.replace("{name: binpack}", "{name: nodeorder, arguments: {leastrequested.weight: 10}}")


def test_the_account_reads_everything_that_is_watched_and_writes_nothing() -> None:
    role = next(doc for doc in yaml.safe_load_all(RIGHTS.read_text()) if doc["kind"] == "ClusterRole")
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    allowed = {(g, r) for rule in role["rules"] for g in rule["apiGroups"] for r in rule["resources"]}
    for resource in RESOURCES.values():
        group = resource.prefix.split("/")[2] if resource.prefix.startswith("/apis/") else ""
        assert (group, resource.plural) in allowed


def account(world: World) -> Path:
    """The account that we ship, with a token."""
    bed = world.bed
    for document in yaml.safe_load_all(RIGHTS.read_text()):
        try:
            bed.create(document)
        except Refusal as exc:
            assert exc.code == 409
    path = "/api/v1/namespaces/pumice-system/serviceaccounts/pumice-shadow/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    return bed.kubeconfig("shadow", bed.call("POST", path, body)["status"]["token"])


@pytest.mark.smoke
def test_a_shadow_says_what_it_would_do_otherwise_and_cannot_write(world: World, tmp_path: Path) -> None:
    reader = account(world)
    token = yaml.safe_load(reader.read_text())["users"][0]["user"]["token"]
    for name in ("n1", "n2"):
        world.node(name, cpu="8")
    running, candidate = tmp_path / "running.conf", tmp_path / "candidate.conf"
    running.write_text(SPREAD)
    candidate.write_text(PACKED)
    world.scheduler("--leader-elect=false", f"--scheduler-conf={running}")
    world.gang("first", 2)
    until(lambda: len(world.bound()) == 2, 60, "the first gang is bound")
    command = [VENV / "pumice", "shadow", f"--conf={candidate}", f"--kubeconfig={reader}", "--scheduler-name=pumice"]
    page = tmp_path / "shadow.html"
    with subprocess.Popen(
        [*map(str, command), "--duration=60s", f"--report={page}", "-o", "json", "--period=500ms"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as shadow:
        assert shadow.stderr is not None
        said = shadow.stderr.readline()
        assert "the candidate decides from now on" in said
        world.gang("second", 2)
        until(lambda: len(world.bound()) == 4, 60, "the second gang is bound")
        world.gang("third", 20)  # nobody can place it
        until(lambda: shadow.poll() is not None or len(world.pods()) == 24, 30, "it waits")
        shadow.terminate()
        out, err = shadow.communicate(timeout=60)
    assert shadow.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    assert found["beside"] == "pumice"
    assert sum(found["total"]["jobs"].values()) == 1, "what was there before is not compared"
    placed = found["recent"][0]
    assert (placed["job"], placed["verdict"], placed["pods"]) == (f"{world.namespace}/second", "elsewhere", 2)
    assert found["waiting"] == []
    assert "refus" not in err.lower() + out.lower()
    assert "shadow report" in page.read_text()
    assert len(world.bound()) == 4

    request = urllib.request.Request(
        f"{world.bed.url}/api/v1/namespaces/{world.namespace}/pods/third-0",
        headers={"Authorization": f"Bearer {token}"},
        method="DELETE",
    )
    context = ssl.create_default_context(cafile=str(world.bed.folder / "ca.crt"))
    with pytest.raises(urllib.error.HTTPError) as no:
        urllib.request.urlopen(request, context=context)
    with no.value:
        assert no.value.code == 403
