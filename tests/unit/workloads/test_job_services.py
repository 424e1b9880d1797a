"""The job plugin ``svc``: pods find each other by name."""

from __future__ import annotations

from typing import Any

import pytest
from workload_jobs import spec_of

from pumice.workloads.vcjob import host_files, host_variables, pod_body, roles_of, service_bodies

TASKS: list[dict[str, Any]] = [
    {"name": "ps", "replicas": 1, "template": {"spec": {"hostname": "main", "containers": [{"name": "c"}]}}},
    {"name": "big-worker", "replicas": 2, "template": {"spec": {"containers": [{"name": "c"}]}}},
]


def test_every_task_has_a_list_of_its_hosts() -> None:
    roles = roles_of(spec_of(TASKS))
    assert host_variables("j", roles) == {
        "VC_PS_HOSTS": "main.j",
        "VC_PS_NUM": "1",
        "VC_BIG_WORKER_HOSTS": "j-big-worker-0.j,j-big-worker-1.j",
        "VC_BIG_WORKER_NUM": "2",
    }
    assert host_files("j", roles) == {"ps.host": "main.j", "big_worker.host": "j-big-worker-0.j\nj-big-worker-1.j"}


def test_a_pod_has_a_name_in_the_domain_of_its_job_and_the_list_of_this_state_of_the_job() -> None:
    spec = spec_of(TASKS, plugins={"svc": []})
    meta = {"name": "j", "namespace": "ns", "uid": "12345678-abcd", "generation": 3}
    made = pod_body(meta, spec, roles_of(spec)[1], 1, version=0, group="g", scheduler="s")["spec"]
    assert (made["hostname"], made["subdomain"]) == ("j-big-worker-1", "j")
    assert made["volumes"] == [{"name": "vcjob-hosts", "configMap": {"name": "j-svc-12345678-3"}}]
    container = made["containers"][0]
    assert container["volumeMounts"] == [{"name": "vcjob-hosts", "mountPath": "/etc/volcano"}]
    assert [v["name"] for v in container["env"]] == [
        *("VC_PS_HOSTS", "VC_PS_NUM", "VC_BIG_WORKER_HOSTS", "VC_BIG_WORKER_NUM")
    ]
    key = {"name": "j-svc-12345678-3", "key": "VC_PS_HOSTS"}
    assert container["env"][0]["valueFrom"] == {"configMapKeyRef": key}


@pytest.mark.parametrize(
    ("arguments", "kinds", "published"),
    [
        ([], {"ConfigMap", "Service", "NetworkPolicy"}, False),
        (["--disable-network-policy=true"], {"ConfigMap", "Service"}, False),
        (["--disable-network-policy=false"], {"ConfigMap", "Service", "NetworkPolicy"}, False),
        (["--publish-not-ready-addresses", "--disable-network-policy"], {"ConfigMap", "Service"}, True),
    ],
)
def test_the_arguments_of_the_plugin_say_what_is_made(arguments: list[str], kinds: set[str], published: bool) -> None:
    spec = spec_of(TASKS, plugins={"svc": arguments})
    bodies = service_bodies("j", "ns", spec, roles_of(spec), "hosts")
    assert set(bodies) == kinds
    assert bodies["Service"]["spec"]["publishNotReadyAddresses"] is published
    assert bodies["Service"]["spec"]["clusterIP"] == "None"
    assert bodies["Service"]["spec"]["selector"] == {"volcano.sh/job-name": "j", "volcano.sh/job-namespace": "ns"}
