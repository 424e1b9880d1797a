"""A cluster that was saved with ``kubectl get … -o yaml`` can be played on."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.sim.run import Simulation
from pumice.sim.scenario import read_scenario

SCENARIO = """\
horizon: 2h
cluster: {manifests: [cluster.yaml]}
workload:
  generators: [{name: more, arrivals: {every: 1m, count: 3}, duration: 5m, cpu: 1}]
"""
CLUSTER = """\
apiVersion: v1
kind: List
metadata: {resourceVersion: ""}
items:
- apiVersion: v1
  kind: Node
  metadata: {name: n1, uid: u1, creationTimestamp: "2026-01-05T08:05:00Z"}
  status:
    allocatable: {cpu: "8", memory: 32Gi, pods: "110"}
    conditions: [{type: Ready, status: "True"}]
- apiVersion: v1
  kind: Node
  metadata: {name: cordoned, uid: u2}
  spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}
  status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
- apiVersion: v1
  kind: Pod
  metadata:
    name: proxy
    namespace: kube-system
    ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: proxy, uid: u3, controller: true}]
  spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 500m}}}]}
  status: {phase: Running}
- apiVersion: v1
  kind: Pod
  metadata: {name: orphan, namespace: default}
  spec: {nodeName: gone, containers: [{name: c}]}
  status: {phase: Running}
- apiVersion: v1
  kind: Pod
  metadata: {name: done, namespace: default}
  spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 4}}}]}
  status: {phase: Succeeded}
- apiVersion: v1
  kind: Pod
  metadata: {name: leaving, namespace: default, deletionTimestamp: "2026-01-05T09:00:00Z"}
  spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 4}}}]}
  status: {phase: Running}
- apiVersion: scheduling.volcano.sh/v1beta1
  kind: Queue
  metadata: {name: ml}
  spec: {weight: 1}
  status: {state: Open}
- apiVersion: scheduling.volcano.sh/v1beta1
  kind: PodGroup
  metadata: {name: train, namespace: ml, creationTimestamp: "2026-01-05T08:05:00Z"}
  spec: {minMember: 2, queue: ml}
  status: {phase: Inqueue}
- apiVersion: v1
  kind: Pod
  metadata: {name: train-0, namespace: ml, annotations: {scheduling.k8s.io/group-name: train}}
  spec: {schedulerName: volcano, containers: [{name: c, resources: {requests: {cpu: 3}}}]}
  status: {phase: Pending}
- apiVersion: v1
  kind: Pod
  metadata: {name: train-1, namespace: ml, annotations: {scheduling.k8s.io/group-name: train}}
  spec: {schedulerName: volcano, containers: [{name: c, resources: {requests: {cpu: 3}}}]}
  status: {phase: Pending}
- apiVersion: v1
  kind: Service
  metadata: {name: web, namespace: default}
"""


def test_what_runs_goes_on_what_waits_is_placed_and_the_dead_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    registry = default_registry()
    scenario = read_scenario(tmp_path / "s.yaml", catalogue_of(registry))
    assert [text.rpartition("/cluster.yaml:")[2] for text in scenario.setting.warnings[:2]] == [
        "manifests: ignored, for a scheduler does not read them: Service",
        "24: pod default/orphan runs on node 'gone', which is not there: left out",
    ]
    log = StringIO()
    run = Simulation(scenario.setting, assemble(scenario.configurations["default"], registry), log=log)
    record = run.run(scenario.workload())
    assert not run.failure
    stays = {(pod.name, pod.node, pod.outcome) for pod in record.pods}
    assert ("proxy", "n1", "running") in stays
    assert {("train-0", "n1", "running"), ("train-1", "n1", "running")} <= stays
    assert sum(name.startswith("more") and outcome == "completed" for name, _, outcome in stays) == 3
    assert {node for _, node, _ in stays} == {"n1"}
    assert not any(name in ("done", "leaving", "orphan") for name, _, _ in stays)
