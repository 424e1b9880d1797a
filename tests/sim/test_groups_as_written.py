"""What a PodGroup, a vcjob or an annotation says of topology holds in a simulation too."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.model.api import NetworkTopology
from pumice.model.kai import KaiPodGroup
from pumice.model.native import NativePodGroup
from pumice.sim.controller import group_of
from pumice.sim.job_manifests import read_manifests

HARD = "{mode: hard, highestTierAllowed: 1}"
POD = "containers: [{name: c, resources: {requests: {cpu: 1}}}]"
NOTES = "{volcano.sh/network-topology-mode: hard, volcano.sh/network-topology-highest-tier: '1'}"
WRITTEN = {
    "PodGroup": f"""
kind: PodGroup
metadata: {{name: g}}
spec:
  minMember: 1
  networkTopology: {HARD}
  subGroupPolicy: [{{name: s, matchLabelKeys: [x], networkTopology: {HARD}}}]
---
kind: Pod
metadata: {{name: p, annotations: {{scheduling.k8s.io/group-name: g}}}}
spec: {{{POD}}}
""",
    "vcjob": f"""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: g}}
spec: {{networkTopology: {HARD}, tasks: [{{name: w, replicas: 1, template: {{spec: {{{POD}}}}}}}]}}
""",
    "batch job": f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: g, annotations: {NOTES}}}
spec: {{template: {{spec: {{{POD}}}}}}}
""",
    "bare pod": f"kind: Pod\nmetadata: {{name: g, annotations: {NOTES}}}\nspec: {{{POD}}}\n",
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_topology_is_kept(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.yaml").write_text(WRITTEN[kind])
    [job] = read_manifests(tmp_path / "a.yaml").jobs
    made = group_of(job, 5.0)
    assert made.spec.network_topology == NetworkTopology(mode="hard", highest_tier_allowed=1)
    assert (made.key, made.spec.min_member, made.spec.queue, made.status.phase) == (
        "default/g",
        1,
        "default",
        "Pending",
    )
    assert bool(made.spec.sub_group_policy) == (kind == "PodGroup")
    assert made.spec.min_resources == {"cpu": 1}


@pytest.mark.parametrize(
    ("version", "spec", "cls"),
    [
        ("scheduling.k8s.io/v1alpha2", "schedulingPolicy: {gang: {minCount: 1}}", NativePodGroup),
        ("scheduling.run.ai/v2alpha2", "minMember: 1", KaiPodGroup),
    ],
)
def test_a_group_stays_of_its_kind(tmp_path: Path, version: str, spec: str, cls: type) -> None:
    text = f"apiVersion: {version}\nkind: PodGroup\nmetadata: {{name: g}}\nspec: {{{spec}}}\n"
    pod = f"kind: Pod\nmetadata: {{name: p}}\nspec: {{schedulingGroup: {{podGroupName: g}}, {POD}}}\n"
    (tmp_path / "a.yaml").write_text(f"{text}---\n{pod}")
    [job] = read_manifests(tmp_path / "a.yaml").jobs
    assert type(group_of(job, 5.0)) is cls


def test_a_job_is_in_the_queue_that_its_workload_names(tmp_path: Path) -> None:
    """As the scheduler has it: the report counted it in the default one."""
    version = "apiVersion: scheduling.k8s.io/v1alpha2"
    above = f"{version}\nkind: Workload\nmetadata: {{name: w, annotations: {{scheduling.volcano.sh/queue-name: q}}}}\n"
    ref = "podGroupTemplateRef: {workload: {workloadName: w, podGroupTemplateName: t}}"
    text = f"{version}\nkind: PodGroup\nmetadata: {{name: g}}\nspec: {{{ref}, schedulingPolicy: {{basic: {{}}}}}}\n"
    pod = f"kind: Pod\nmetadata: {{name: p}}\nspec: {{schedulingGroup: {{podGroupName: g}}, {POD}}}\n"
    (tmp_path / "a.yaml").write_text("---\n".join((above, text, pod)))
    [job] = read_manifests(tmp_path / "a.yaml").jobs
    assert job.queue == "q"
