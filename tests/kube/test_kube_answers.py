"""Live answers, for users of different rights: through the scheduler's door, and without it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kube_bed import Bed, free_port, until
from kube_world import World

pytestmark = pytest.mark.timeout(300)  # a process for each question, on a machine that may be busy

VENV = Path(sys.executable).parent
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: new, namespace: {namespace}}}
spec:
  minAvailable: 2
  schedulerName: pumice
  tasks:
  - name: w
    replicas: 2
    template: {{spec: {{containers: [{{name: c, image: x, resources: {{requests: {{cpu: 1}}}}}}]}}}}
"""


def pumice(*words: object, user: Path, program: str = "pumice") -> subprocess.CompletedProcess[str]:
    command = [str(VENV / program), *map(str, words), f"--kubeconfig={user}"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def answer(*words: object, user: Path, program: str = "pumice") -> Any:
    ran = pumice(*words, "-o", "json", user=user, program=program)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def let(bed: Bed, user: str, namespace: str) -> None:
    """Give a user what people have in their own namespace."""
    api = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["get", "list", "create"]},
        {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list", "create"]},
    ]
    meta = {"name": f"{user}-works", "namespace": namespace}
    bed.create({"apiVersion": f"{api}/v1", "kind": "Role", "metadata": meta, "rules": rules})
    bed.create(
        {
            "apiVersion": f"{api}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": f"{user}-works"},
            "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
        }
    )


@pytest.fixture
def rival(bed: Bed) -> Any:
    made = World(bed, "rival")
    yield made
    made.clean()


@pytest.mark.smoke
def test_a_user_is_told_of_his_own_jobs_and_nothing_of_others(world: World, rival: World, tmp_path: Path) -> None:
    bed, alice, bob = world.bed, world.bed.tenants["alice"], world.bed.tenants["bob"]
    let(bed, "alice", world.namespace)
    let(bed, "bob", rival.namespace)
    world.node("secret-node", cpu="4")
    rival.gang("rival", 3)
    port = free_port()
    world.grant("reviews")
    world.scheduler(f"answers.address=127.0.0.1:{port}", "--leader-elect=false")
    until(lambda: len(rival.bound()) == 3, 60, "the other's pods are bound")
    world.gang("mine", 3)
    door = f"--server=http://127.0.0.1:{port}"
    mine = f"{world.namespace}/mine"

    def waits() -> Any:
        ran = pumice("why", mine, door, "-o", "json", user=alice)
        return ran.returncode == 0 and json.loads(ran.stdout)

    told = until(waits, 30, "the scheduler answers")
    assert told["source"] == "scheduler"
    assert told["explanation"]["position"] == 1
    assert told["explanation"]["stage"] != "served"
    text = json.dumps(told)
    for secret in (rival.namespace, "secret-node"):
        assert secret not in text
    assert told["standing"] is None

    whole = answer("why", mine, door, user=bed.admin)
    assert whole["unseen"] == []
    assert {s["resource"]: s["allocated"] for s in whole["standing"]["shares"]}["cpu"] == 3

    when = answer("why", mine, door, user=alice)["when"]
    assert (when["job"], when["verdict"], when["place"]) == (mine, "unknown", 1)
    assert "20" in when["unknown"], "a start is told only where forecasts of the queue held"
    assert "likely start" in pumice("why", mine, door, user=alice).stdout
    assert rival.namespace not in json.dumps(when)

    denied = pumice("why", mine, door, user=bob)
    assert (denied.returncode, denied.stdout) == (1, "")
    assert "bob may not get podgroups.scheduling.volcano.sh" in denied.stderr

    file = tmp_path / "job.yaml"
    file.write_text(JOB.format(namespace=world.namespace))
    tried = answer("what-if", "-f", file, door, user=alice)
    assert tried["jobs"][0]["job"] == f"{world.namespace}/new"
    assert tried["jobs"][0]["starts"] is False
    refused = pumice("what-if", "-f", file, door, user=bob)
    assert "bob may not create podgroups.scheduling.volcano.sh" in refused.stderr
    assert set(world.pods()) == {"mine-0", "mine-1", "mine-2"}, "nothing was written"

    supposed = answer("what-if", "--more=1xsecret-node", f"--job={mine}", door, user=bed.admin)
    assert (supposed["job"]["before"]["fate"], supposed["job"]["after"]["fate"]) == ("waits", "starts")
    assert "1 more node like secret-node" in pumice("what-if", "--more=1xsecret-node", door, user=bed.admin).stdout
    for user in (alice, bob):
        assert "may not get queues" in pumice("what-if", "--more=1xsecret-node", door, user=user).stderr

    # jobs and queues are listed as the user may, and the scheduler says how a queue stands to whoever may get queues
    assert [j["job"] for j in answer("status", "-n", world.namespace, user=alice)] == [mine]
    assert len(answer("status", "job", mine, user=alice)["tasks"]) == 3
    assert "podgroups" in pumice("status", "-A", user=alice).stderr
    assert "queues" in pumice("status", "queue", user=alice).stderr
    assert "alice may not get queues" in pumice("status", "queue", "default", door, user=alice).stderr
    assert "default" in {q["queue"] for q in answer("status", "queue", user=bed.admin)}
    assert answer("status", "queue", "default", door, user=bed.admin)["jobs"] >= 2
    assert answer("status", "queue", "default", user=bed.admin)["queue"] == "default"
    assert {n["name"] for n in answer("status", "node", user=bed.admin)} >= {"secret-node"}
    assert "nodes" in pumice("status", "node", user=alice).stderr

    # the address from the ConfigMap that everybody who is signed in may read
    meta = {"name": "pumice-answers", "namespace": "kube-public"}
    bed.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"server": door[9:]}})
    api = "rbac.authorization.k8s.io"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["pumice-answers"], "verbs": ["get"]}
    bed.create({"apiVersion": f"{api}/v1", "kind": "Role", "metadata": meta, "rules": [rule]})
    role = {"apiGroup": api, "kind": "Role", "name": "pumice-answers"}
    subject = {"apiGroup": api, "kind": "Group", "name": "system:authenticated"}
    bed.create(
        {"apiVersion": f"{api}/v1", "kind": "RoleBinding", "metadata": meta, "roleRef": role, "subjects": [subject]}
    )
    try:
        found = answer("why", "mine", "-n", world.namespace, user=alice, program="kubectl-pumice")
        assert found["source"] == "scheduler"
        shown = pumice("why", mine, user=alice).stdout
        assert "waits for" in shown
        assert "Not seen" in shown
    finally:
        bed.call("DELETE", "/api/v1/namespaces/kube-public/configmaps/pumice-answers")


def test_without_a_door_the_jobs_own_objects_say_what_they_know(world: World) -> None:
    bed, alice = world.bed, world.bed.tenants["alice"]
    let(bed, "alice", world.namespace)
    world.node("n1", cpu="2")
    world.scheduler("--leader-elect=false")  # the lease of a scheduler that was killed lasts for a while
    world.gang("mine", 3)

    def reason() -> bool:
        pods = world.pods().values()
        return any(c.get("reason") for p in pods for c in p["status"].get("conditions", ()))

    until(reason, 60, "its pods say why they wait")
    told = answer("why", "mine", "-n", world.namespace, user=alice)
    assert told["source"] == "objects"
    assert told["explanation"]["code"] in ("NoNodeFits", "NotLetIn", "QueueRefused", "GangNotReady")
    assert told["explanation"]["text"]
    assert any("no scheduler says where it answers" in line for line in told["unseen"])
    assert any(line.startswith("queues: ") for line in told["unseen"])
    ran = pumice("why", "mine", "-n", world.namespace, user=bed.tenants["bob"])
    assert ran.returncode == 1
    assert "podgroups" in ran.stderr
