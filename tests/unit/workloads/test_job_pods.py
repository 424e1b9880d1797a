"""The pods of a job as they are sent to the server."""

from __future__ import annotations

from typing import Any

from workload_jobs import spec_of

from pumice.workloads.vcjob import pod_body, roles_of

META = {
    "name": "train",
    "namespace": "ml",
    "labels": {"volcano.sh/preemptable": "true", "team": "red"},
    "annotations": {"volcano.sh/revocable-zone": "rz1", "other": "x"},
}


def body(task: dict[str, Any] | None = None, index: int = 2, **fields: Any) -> dict[str, Any]:
    spec = spec_of([{"name": "w", "replicas": 3, **(task or {})}], **fields)
    return pod_body(META, spec, roles_of(spec)[0], index, version=4, group="train-uid", scheduler="pumice")


def test_a_pod_says_where_it_belongs() -> None:
    made = body(queue="research")
    meta = made["metadata"]
    assert (meta["name"], meta["namespace"]) == ("train-w-2", "ml")
    assert meta["labels"] == {
        "volcano.sh/preemptable": "true",
        "volcano.sh/job-name": "train",
        "volcano.sh/job-namespace": "ml",
        "volcano.sh/task-spec": "w",
        "volcano.sh/task-index": "2",
        "volcano.sh/queue-name": "research",
    }
    assert meta["annotations"] == {
        "volcano.sh/revocable-zone": "rz1",
        "volcano.sh/task-spec": "w",
        "scheduling.k8s.io/group-name": "train-uid",
        "volcano.sh/job-name": "train",
        "volcano.sh/job-version": "4",
        "volcano.sh/queue-name": "research",
        "volcano.sh/task-index": "2",
        "volcano.sh/template-uid": "train-w",
    }


def test_what_the_template_says_stays_also_where_we_know_nothing_of_it() -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"shareProcessNamespace": True, "containers": [{"name": "c"}]},
    }
    made = body({"template": template})
    assert made["metadata"]["labels"]["a"] == "b"
    assert made["spec"]["shareProcessNamespace"] is True
    assert "env" not in made["spec"]["containers"][0]
    assert template == {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"shareProcessNamespace": True, "containers": [{"name": "c"}]},
    }


def test_the_scheduler_is_the_templates_else_the_jobs_else_ours() -> None:
    assert body({"template": {"spec": {"schedulerName": "own"}}}, schedulerName="job")["spec"]["schedulerName"] == "own"
    assert body(schedulerName="job")["spec"]["schedulerName"] == "job"
    assert body()["spec"]["schedulerName"] == "pumice"


def test_the_plugin_env_tells_every_container_its_index() -> None:
    template = {
        "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}]}
    }
    made = body({"template": template}, plugins={"env": []})["spec"]
    index = [{"name": "VC_TASK_INDEX", "value": "2"}, {"name": "VK_TASK_INDEX", "value": "2"}]
    assert made["initContainers"][0]["env"] == index
    assert made["containers"][0]["env"] == [{"name": "A", "value": "1"}, *index]


def test_claims_of_the_job_are_mounted_in_every_container() -> None:
    template = {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}
    made = body({"template": template}, volumes=[{"mountPath": "/data", "volumeClaimName": "data"}])["spec"]
    assert made["volumes"] == [{"name": "vcjob-volume-0", "persistentVolumeClaim": {"claimName": "data"}}]
    assert [c["volumeMounts"] for c in made["containers"]] == [[{"name": "vcjob-volume-0", "mountPath": "/data"}]] * 2


def test_the_numa_policy_of_a_task_goes_to_its_pods() -> None:
    made = body({"topologyPolicy": "restricted"})
    assert made["metadata"]["annotations"]["volcano.sh/numa-topology-policy"] == "restricted"
