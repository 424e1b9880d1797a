"""What KAI's pages show, with their fields and values, gives what they say; what is not read is one clear line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_runs import Pumice

SHARD = "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nmetadata: {name: default}\n"
OPEN = {"quota": 0, "limit": -1, "overQuotaWeight": 1}


def queue(name: str, parent: str = "default-parent-queue", **amounts: Mapping[str, float]) -> dict[str, Any]:
    spec: dict[str, Any] = {"resources": {key: amounts.get(key, OPEN) for key in ("cpu", "memory", "gpu")}}
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def node(name: str, gpus: int, **labels: str) -> dict[str, Any]:
    offers = {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    named = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    all_labels = {"nvidia.com/gpu.memory": "40000", "kubernetes.io/hostname": name, **named}
    status = {"allocatable": offers, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": all_labels}, "status": status}


def priority(name: str, value: int) -> dict[str, Any]:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**head, "metadata": {"name": name}, "value": value}


INSTALLED = [
    *(queue("default-parent-queue", ""), queue("default-queue")),
    *(priority(name, value) for name, value in (("train", 50), ("build-preemptible", 75), ("build", 100))),
    priority("inference", 125),
]
"""What is there once KAI is installed."""


class Cluster:
    """Nodes and queues, over which one cycle of a default shard is run with what a page shows."""

    def __init__(self, pumice: Pumice, folder: Path) -> None:
        self._pumice, self._folder = pumice, folder
        (folder / "shard.yaml").write_text(SHARD)

    def cycle(self, shown: str, *there: dict[str, Any]) -> Any:
        objects = [*INSTALLED, *(there or (node("g1", 8),)), *yaml.safe_load_all(shown)]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        (self._folder / "all.json").write_text(text)
        return self._pumice(
            "cycle", self._folder / "all.json", "--conf", self._folder / "shard.yaml", "-o", "json"
        ).data

    def why(self, job: str) -> str:
        return self._pumice("why", job, self._folder / "all.json", "--conf", self._folder / "shard.yaml").out


@pytest.fixture
def cluster(pumice: Pumice, tmp_path: Path) -> Cluster:
    return Cluster(pumice, tmp_path)


def pods(*names: str, notes: str = "{}", asks: str = "{cpu: 500m}", labels: str = "", **spec: str) -> str:
    """Pods of ``default-queue``, or of the queue that *labels* name."""
    labels = labels or "{kai.scheduler/queue: default-queue}"
    more = "".join(f", {key}: {value}" for key, value in spec.items())
    return "\n---\n".join(
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, annotations: {notes}, labels: {labels}}},\n"
        f" spec: {{schedulerName: kai-scheduler, containers: [{{name: main, resources: {{limits: {asks}}}}}]{more}}}}}"
        for name in names
    )


def batch_job(
    name: str, count: int, *, notes: str = "{}", inside: str = "{}", labels: str = "", own: str = "{}", asks: str = ""
) -> str:
    labels = labels or "{kai.scheduler/queue: default-queue}"
    asks = asks or "{nvidia.com/gpu: 1, memory: 1Gi}"
    return (
        f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: {name}, annotations: {notes}, labels: {own}}},\n"
        f" spec: {{parallelism: {count}, completions: {count}, template: {{metadata: {{annotations: {inside}, "
        f"labels: {labels}}},\n  spec: {{schedulerName: kai-scheduler, containers: [{{name: main, "
        f"resources: {{limits: {asks}}}}}]}}}}}}}}"
    )


# -- quickstart, GPU sharing ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("asks", ["{cpu: 100m, memory: 250M}", "{nvidia.com/gpu: 1}"])
def test_the_pods_of_the_quickstart_start_in_the_default_queue(cluster: Cluster, asks: str) -> None:
    assert cluster.cycle(pods("first", asks=asks))["binds"] == {"default/first": "g1"}
    assert "queue default-queue" in cluster.why("default/podgroup-first")


def test_pods_that_name_no_queue_are_in_kais_default_queue(cluster: Cluster) -> None:
    assert cluster.cycle(pods("first", labels="{}"))["binds"] == {"default/first": "g1"}


@pytest.mark.parametrize(
    "notes",
    [
        "{gpu-fraction: '0.5'}",
        "{gpu-memory: '2000'}",
        "{gpu-fraction: '0.5', gpu-fraction-container-name: gpu-workload}",
    ],
)
def test_pods_share_a_gpu(cluster: Cluster, notes: str) -> None:
    found = cluster.cycle(pods("one", "two", notes=notes, asks="{memory: 1Gi}"), node("g1", 1))
    assert found["binds"] == {"default/one": "g1", "default/two": "g1"}


# -- batch --------------------------------------------------------------------------------------------------------
def test_the_pods_of_a_job_start_one_by_one(cluster: Cluster) -> None:
    assert len(cluster.cycle(batch_job("plain", 6), node("g1", 4))["binds"]) == 4


@pytest.mark.parametrize(("gpus", "placed"), [(1, 0), (2, 2), (8, 6)])
def test_a_job_with_a_minimum_starts_with_so_many_pods(cluster: Cluster, gpus: int, placed: int) -> None:
    found = cluster.cycle(batch_job("hpo", 6, notes="{kai.scheduler/batch-min-member: '2'}"), node("g1", gpus))
    assert len(found["binds"]) == placed


@pytest.mark.parametrize("where", ["own", "labels"])
def test_the_label_of_a_job_or_of_its_pods_names_the_queue(cluster: Cluster, where: str) -> None:
    """The owner's label counts first; the limit of the right queue holds."""
    small = queue("small", gpu={"quota": 1, "limit": 1, "overQuotaWeight": 1})
    shown = batch_job("some", 3, **{where: "{kai.scheduler/queue: small}"})
    found = cluster.cycle(shown, node("g1", 8), small)
    assert len(found["binds"]) == 1
    assert "queue small" in cluster.why("default/some")


EXTERNAL = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: external-batch-job}
spec: {minMember: 2, queue: default-queue, subGroups: [{name: workers, minMember: 2}]}
---
"""
SKIP = "{kai.scheduler/skip-podgrouper: 'true'}"


@pytest.mark.parametrize(("gpus", "placed"), [(1, 0), (2, 2)])
def test_a_job_joins_a_pod_group_that_is_there(cluster: Cluster, gpus: int, placed: int) -> None:
    job = batch_job(
        "external",
        2,
        notes=SKIP,
        inside="{pod-group-name: external-batch-job}",
        labels="{kai.scheduler/subgroup-name: workers}",
    )
    found = cluster.cycle(EXTERNAL + job, node("g1", gpus))
    assert len(found["binds"]) == placed
    assert found["warnings"] == []


def test_a_job_that_is_passed_by_and_names_no_group_is_told_so(cluster: Cluster) -> None:
    found = cluster.cycle(batch_job("nowhere", 1, notes=SKIP))
    assert found["binds"] == {}
    assert found["warnings"] == [
        "1 pod was left out, with kai.scheduler/skip-podgrouper and without a PodGroup (pod-group-name): "
        "default/nowhere-pod-0"
    ]


def test_jobs_share_a_gang_whose_parts_have_topologies_of_their_own(cluster: Cluster) -> None:
    """Three pods in one rack domain, three in one zone domain, all six or none."""
    head, below = "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\n", "{nodeLabel: kubernetes.io/hostname}"
    shown = "\n---\n".join(
        (
            f"{head}metadata: {{name: rack}}\nspec: {{levels: [{{nodeLabel: r}}, {below}]}}",
            f"{head}metadata: {{name: zone}}\nspec: {{levels: [{{nodeLabel: z}}, {below}]}}",
            """apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: pipeline}
spec:
  queue: default-queue
  minSubGroup: 2
  subGroups:
  - {name: in-rack, minMember: 3, topologyConstraint: {topology: rack, requiredTopologyLevel: r}}
  - {name: in-zone, minMember: 3, topologyConstraint: {topology: zone, requiredTopologyLevel: z}}""",
            *(
                batch_job(
                    name,
                    3,
                    notes=SKIP,
                    inside="{pod-group-name: pipeline}",
                    labels=f"{{kai.scheduler/subgroup-name: {name}}}",
                    asks="{nvidia.com/gpu: 4}",
                )
                for name in ("in-rack", "in-zone")
            ),
        )
    )
    nodes = [node(f"n{n}", 8, r=f"r{n % 2}", z=f"z{n // 2}") for n in range(4)]
    binds = cluster.cycle(shown, *nodes)["binds"]
    assert len(binds) == 6
    assert len({int(at[1]) % 2 for pod, at in binds.items() if "in-rack" in pod}) == 1
    assert len({int(at[1]) // 2 for pod, at in binds.items() if "in-zone" in pod}) == 1
    assert cluster.cycle(shown, *nodes[:2])["binds"] == {}


@pytest.mark.parametrize("kind", ["PyTorchJob", "RayJob", "JobSet", "MPIJob", "SparkApplication", "Deployment"])
def test_kinds_of_which_a_controller_makes_pods_are_named_with_what_to_do(cluster: Cluster, kind: str) -> None:
    found = cluster.cycle(f"{{apiVersion: x/v1, kind: {kind}, metadata: {{name: a}}, spec: {{}}}}")
    assert found["warnings"] == [
        f"pods of {kind} are made by a controller, so these objects were left out; give the pods and PodGroups that it "
        "made (kubectl get pods,podgroups -o yaml)"
    ]


def test_a_shard_among_manifests_is_said_to_be_a_configuration(cluster: Cluster) -> None:
    said = "SchedulingShard is a configuration and was left out; pass a SchedulingShard with --conf"
    assert cluster.cycle(SHARD)["warnings"] == [said]


# -- topology -----------------------------------------------------------------------------------------------------
def test_a_job_is_placed_in_the_fuller_zone_on_two_racks(cluster: Cluster) -> None:
    """Zone A has five GPUs in racks of 2, 1, 1, 1; zone B has six in racks of 2. The Job asks for one zone."""
    zones = {"a": (2, 1, 1, 1), "b": (2, 2, 2)}
    nodes = [
        node(f"{zone}{rack + 1}-{n + 1}", 1, topology_kubernetes_io__zone=zone, rack=f"{zone}{rack + 1}")
        for zone, racks in zones.items()
        for rack, size in enumerate(racks)
        for n in range(size)
    ]
    levels = "[{nodeLabel: topology.kubernetes.io/zone}, {nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]"
    shown = (
        "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: net}\n"
        f"spec: {{levels: {levels}}}\n---\n"
        + batch_job(
            "training",
            3,
            notes="{kai.scheduler/topology: net, kai.scheduler/topology-required-placement: "
            "topology.kubernetes.io/zone, kai.scheduler/topology-preferred-placement: rack, "
            "kai.scheduler/batch-min-member: '3'}",
        )
    )
    racks = Counter(at[:2] for at in cluster.cycle(shown, *nodes)["binds"].values())
    assert sorted(racks.values()) == [1, 2]
    assert racks["a1"] == 2


def test_a_level_is_named_by_its_alias(cluster: Cluster) -> None:
    shown = "\n---\n".join(
        (
            "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: network}\n"
            "spec: {levels: [{nodeLabel: accelerator/rack, alias: rack}, {nodeLabel: kubernetes.io/hostname}]}",
            "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: aliased}\nspec: {queue: "
            "default-queue, minMember: 3, topologyConstraint: {topology: network, requiredTopologyLevel: rack}}",
            batch_job("aliased", 3, notes=SKIP, inside="{pod-group-name: aliased}"),
        )
    )
    nodes = [node(f"n{n}", 1 + n // 2, accelerator__rack=f"r{n // 2}") for n in range(4)]
    assert set(cluster.cycle(shown, *nodes)["binds"].values()) == {"n2", "n3"}


# -- priority, preemption delay, staleness ---------------------------------------------------------------------------
ONE_GPU = {"quota": 1, "limit": 1, "overQuotaWeight": 1}
TEST_QUEUE = (queue("test-parent", "", gpu=ONE_GPU), queue("test", "test-parent", gpu=ONE_GPU))


def test_the_label_of_a_pod_names_its_priority_class(cluster: Cluster) -> None:
    """The train pod runs in a queue of one GPU; the build pod takes its place."""
    train = pods("train", labels="{kai.scheduler/queue: test}", asks="{nvidia.com/gpu: 1}", nodeName="g1")
    running = yaml.safe_load(train)
    running["status"] = {"phase": "Running"}
    running["metadata"]["annotations"] = {"pod-group-name": "train"}
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"minMember": 1, "queue": "test", "priorityClassName": "train"},
    }
    for label, evicted in (("build", ["default/train"]), ("train", [])):
        shown = pods(
            "build",
            labels=f"{{kai.scheduler/queue: test, priorityClassName: {label}}}",
            asks="{nvidia.com/gpu: 1}",
        )
        found = cluster.cycle(shown, node("g1", 1), *TEST_QUEUE, group, running)
        assert [each["pod"] for each in found["evictions"]] == evicted
    delayed = shown.replace("annotations: {}", "annotations: {kai.scheduler/preemption-delay: 2m}")
    delayed = delayed.replace("priorityClassName: train", "priorityClassName: build")
    assert cluster.cycle(delayed, node("g1", 1), *TEST_QUEUE, group, running)["evictions"] == []


def test_a_pod_of_low_priority_may_take_more_than_the_quota_and_one_of_high_may_not(cluster: Cluster) -> None:
    none = queue("none", gpu={"quota": 0, "limit": -1, "overQuotaWeight": 1})
    for label, placed in (("train", 1), ("build", 0)):
        labels = f"{{kai.scheduler/queue: none, priorityClassName: {label}}}"
        shown = pods("one", labels=labels, asks="{nvidia.com/gpu: 1}")
        assert len(cluster.cycle(shown, node("g1", 1), none)["binds"]) == placed
        said = f"{{kai.scheduler/queue: none, priorityClassName: {label}, kai.scheduler/preemptibility: preemptible}}"
        shown = pods("one", labels=said, asks="{nvidia.com/gpu: 1}")
        assert len(cluster.cycle(shown, node("g1", 1), none)["binds"]) == 1


# -- shards -------------------------------------------------------------------------------------------------------
def test_a_job_goes_to_the_shard_that_its_label_names(cluster: Cluster, tmp_path: Path) -> None:
    pool = {"kai_scheduler__node-pool": "foo"}
    labels = "{kai.scheduler/queue: foo-queue, kai.scheduler/node-pool: foo}"
    queues = [queue("foo-parent", ""), queue("foo-queue", "foo-parent")]
    for each in queues:
        each["metadata"]["labels"] = {"kai.scheduler/node-pool": "foo"}
    there = (node("g1", 8), node("g2", 8, **pool), *queues)
    shown = pods("gpu-pod", labels=labels, asks="{nvidia.com/gpu: 1}")
    assert cluster.cycle(shown, *there)["binds"] == {}
    (tmp_path / "shard.yaml").write_text(f"{SHARD}spec: {{partitionLabelValue: foo}}\n")
    assert cluster.cycle(shown, *there)["binds"] == {"default/gpu-pod": "g2"}
