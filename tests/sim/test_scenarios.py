"""Scenario files: what they mean, and what is said when they break a rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.errors import InvalidInput
from pumice.framework.registry import default_registry
from pumice.model.api import NodeObject, QueueObject
from pumice.scheduler.assembly import catalogue_of
from pumice.sim.job_manifests import read_manifests
from pumice.sim.recorder import MODEL_LABEL
from pumice.sim.scenario import SimScenario, plugin_directory, read_scenario

SMALL = """\
cluster:
  nodes: [{count: 2, cpu: 8, memory: 32Gi, gpu: 4}]
workload:
  generators:
  - {name: g, arrivals: {every: 1m, count: 3}, duration: 5m, gpu: 1}
"""


def read(tmp_path: Path, text: str) -> SimScenario:
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return read_scenario(path, catalogue_of(default_registry()))


def test_a_small_scenario_has_defaults(tmp_path: Path) -> None:
    scenario = read(tmp_path, SMALL)
    assert (scenario.name, scenario.setting.seed, list(scenario.configurations)) == ("s", 0, ["default"])
    assert [o.metadata.name for o in scenario.setting.objects] == ["node-0", "node-1"]
    assert len(list(scenario.workload())) == 3


def test_the_workload_is_the_same_each_time_and_another_with_another_seed(tmp_path: Path) -> None:
    scenario = read(tmp_path, SMALL)
    first = [(j.name, j.submit_s) for j in scenario.workload()]
    assert [(j.name, j.submit_s) for j in scenario.workload()] == first
    assert [(j.name, j.submit_s) for j in scenario.with_seed(9).workload()] != first


def test_nodes_have_labels_taints_and_a_model(tmp_path: Path) -> None:
    text = SMALL.replace("gpu: 4}", "gpu: 4, model: A100, labels: {zone: a}, taints: ['gpu=yes:NoSchedule']}")
    node = read(tmp_path, text).setting.objects[0]
    assert isinstance(node, NodeObject)
    assert (node.metadata.labels or {})[MODEL_LABEL] == "A100"
    assert (node.metadata.labels or {})["zone"] == "a"
    assert [(t.key, t.value, t.effect) for t in node.spec.taints or ()] == [("gpu", "yes", "NoSchedule")]


def test_queues_take_the_fields_of_a_queue(tmp_path: Path) -> None:
    scenario = read(tmp_path, SMALL + "queues:\n- {name: a, weight: 3, capability: {nvidia.com/gpu: 4}}\n")
    queue = next(o for o in scenario.setting.objects if isinstance(o, QueueObject))
    assert (queue.spec.weight, queue.spec.capability, queue.status.state) == (3, {"nvidia.com/gpu": 4}, "Open")


def test_a_trace_can_be_cut_compressed_and_sent_to_one_queue(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job,submit_s,duration_s,tasks,cpu,queue\na,10,5,4,1,x\nb,30,5,,2,y\nc,99,5,,,z\n")
    text = SMALL.split("workload")[0] + (
        "workload:\n  trace: {file: t.csv, window: [0, 50], compress: 2, rebase: true, queue: all, onePod: true}\n"
    )
    jobs = list(read(tmp_path, text).workload())
    assert [(j.name, j.submit_s, j.queue, j.tasks) for j in jobs] == [("a", 0, "all", 1), ("b", 10, "all", 1)]
    assert jobs[0].kinds[0].demand.cpu_milli == 4000


def test_workloads_are_merged_in_the_order_of_submission(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job,submit_s,duration_s\na,0,5\nb,90,5\nc,3000,5\n")
    times = [j.submit_s for j in read(tmp_path, SMALL + "  trace: {file: t.csv}\n").workload()]
    assert len(times) == 6
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("old", "new", "place", "said"),
    [
        ("cluster:", "clutser:", "1:1", "unknown key 'clutser'; did you mean 'cluster'?"),
        ("gpu: 4", "gpus: 4", "2:44", "cluster.nodes[0].gpus: unknown key 'gpus'; did you mean 'gpu'?"),
        ("count: 2", "count: many", "2:19", "cluster.nodes[0].count: must be a whole number of at least 1"),
        ("memory: 32Gi", "memory: 32Gx", "2:38", "cluster.nodes[0].memory: "),
        ("duration: 5m", "duration: 5x", "5:58", "there is no unit 'x'"),
        ("duration: 5m", "duration: {lognormal: {median: 1h, p90: 5m}}", "5:70", "median must be above 0 and at most"),
        ("every: 1m, count: 3", "every: 1m", "5:25", "needs until or count"),
        ("every: 1m", "every: 0", "5:33", "must be a number above 0"),
        ("name: g, ", "", "5:5", "workload.generators[0]: needs the key 'name'"),
        ("gpu: 1}", "gpu: {choise: {1: 1}}}", "5:67", "must have one key: choice, uniform, exponential, lognormal"),
        (SMALL, SMALL + "horizon: [1]\n", "6:10", "horizon: must be a duration"),
        (SMALL, SMALL + "seed: 1\nseed: 2\n", "7:1", "the key 'seed' stands here a second time"),
        (SMALL, SMALL + "delays: {bindFailures: 2}\n", "6:9", "bindFailures must be a probability"),
        (SMALL, SMALL + "faults:\n  planned: [{at: 1h, fail: n9}]\n", "7:28", "node 'n9' is not in the cluster"),
        (SMALL, SMALL + "faults:\n  planned: [{at: 1h}]\n", "7:13", "must have one of fail, drain, cordon, return"),
        (SMALL, SMALL + "configurations: {}\n", "6:17", "needs at least one configuration"),
        (SMALL, "cluster: {\n", "2:1", "not YAML"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_column(tmp_path: Path, old: str, new: str, place: str, said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read(tmp_path, SMALL.replace(old, new))
    assert str(error.value).startswith(f"{tmp_path / 's.yaml'}:{place}: ")
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("configurations: {a: no.conf}\n", "configurations.a: must be default, helm, a file"),
        ("configurations: {a: {actions: alocate}}\n", "did you mean 'allocate'?"),
        ("  trace: {file: t.csv}\n", "t.csv:3: duration_s: must be a number of seconds"),
    ],
)
def test_a_mistake_in_a_file_that_is_named_is_told(tmp_path: Path, more: str, said: str) -> None:
    (tmp_path / "t.csv").write_text("job,submit_s,duration_s\na,1,2\nb,1,soon\n")
    with pytest.raises(Exception) as error:  # noqa: PT011 (each case has its own error)
        read(tmp_path, SMALL + more)
    assert said in str(error.value)


def test_the_directory_of_plugins_is_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "scenarios").mkdir()
    path = tmp_path / "scenarios" / "s.yaml"
    path.write_text(SMALL + "pluginsDir: ../plugins\n")
    assert plugin_directory(path) == tmp_path / "scenarios" / "../plugins"


# -- manifests ------------------------------------------------------------------------------------------------------
VCJOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: train
  annotations: {sim.pumice.dev/run-time: 10m, team: vision}
  labels: {app: train}
spec:
  minAvailable: 3
  queue: research
  policies: [{event: PodEvicted, action: RestartJob}]
  tasks:
  - {name: ps, replicas: 1, template: {spec: {containers: [{name: c, resources: {requests: {cpu: "2"}}}]}}}
  - name: worker
    replicas: 2
    policies: [{events: [TaskCompleted], action: CompleteJob}]
    template: {spec: {containers: [{name: c, resources: {requests: {cpu: "1", nvidia.com/gpu: 1}}}]}}
"""


def test_a_vcjob_becomes_a_gang_of_its_tasks(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(VCJOB)
    (job,) = read_manifests(path, submit_s=60).jobs
    assert (job.key, job.submit_s, job.queue, job.min_available, job.run_s) == ("default/train", 60, "research", 3, 600)
    assert [name for kind in job.kinds for name in kind.names] == ["train-ps-0", "train-worker-0", "train-worker-1"]
    assert job.annotations is not None
    assert job.annotations["team"] == "vision"
    assert job.labels == {"app": "train"}
    assert job.min_resources == {"cpu": 4, "nvidia.com/gpu": 2}
    assert {event: r.value for event, r in job.reactions.items()} == {"PodEvicted": "RestartJob"}
    assert job.origin == f"{path}:1"


def test_a_batch_job_runs_so_many_pods_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: b}\n"
        "spec: {completions: 6, parallelism: 2, template: {spec: {containers: [{name: c}]}}}\n"
    )
    (job,) = read_manifests(path, run_s=30).jobs
    assert (job.tasks, job.parallelism, job.min_available, job.run_s) == (6, 2, 1, 30)


def test_pods_of_a_group_are_one_job_and_a_saved_one_runs_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "saved.yaml"
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s, annotations: {scheduling.k8s.io/group-name: pg}}\n"
    path.write_text(
        "kind: PodGroup\nmetadata: {name: pg}\nspec: {minMember: 2, queue: q}\n---\n"
        + pod % "a"
        + "spec: {nodeName: n1, containers: [{name: c}]}\nstatus: {phase: Running}\n---\n"
        + pod % "b"
        + "---\nkind: Pod\nmetadata: {name: lonely}\n"
    )
    group, lonely = read_manifests(path).jobs
    assert (group.name, group.queue, group.min_available, dict(group.placed)) == ("pg", "q", 2, {"a": "n1"})
    assert (lonely.name, lonely.min_available) == ("lonely", 1)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("minAvailable: 3", "minAvailable: 9", "jobs.yaml:1: Job 'train': minAvailable must be at most"),
        ("run-time: 10m", "run-time: soon", "jobs.yaml:1: Job 'train': annotation sim.pumice.dev/run-time: "),
        ("action: RestartJob", "action: Panic", "action must be one of RestartPod"),
        (
            "replicas: 2",
            "replicas: two",
            "jobs.yaml:1: Job 'train': tasks[1].replicas: must be a whole number, got text",
        ),
        ("spec:", "spec: [", "jobs.yaml:9:8: not YAML"),
    ],
)
def test_a_bad_manifest_is_told_with_file_and_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(VCJOB.replace(old, new, 1))
    with pytest.raises(InvalidInput) as error:
        read_manifests(path)
    assert said in str(error.value)
