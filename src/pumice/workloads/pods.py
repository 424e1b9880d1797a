"""The pods of a vcjob: what they are called, what they carry, what is changed in their template."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pumice.model import keys
from pumice.model.task import GROUP_ANNOTATION, ROLE_KEY
from pumice.workloads.services import address, map_name, wants_service
from pumice.workloads.vcjob import Role, VcJobSpec, pod_name, roles_of

JOB_NAME, JOB_NAMESPACE = keys.JOB_NAME, keys.JOB_NAMESPACE
JOB_VERSION, TASK_INDEX = keys.JOB_VERSION, keys.TASK_INDEX
QUEUE_NAME, TEMPLATE_UID = keys.QUEUE_NAME, keys.TEMPLATE_UID
_PREEMPTABLE = keys.PREEMPTABLE_KEY
_NUMA_POLICY = keys.NUMA_POLICY
_FROM_JOB = (
    *(_PREEMPTABLE, keys.REVOCABLE_ZONE),
    *(keys.JDB_MIN_AVAILABLE, keys.JDB_MAX_UNAVAILABLE),
)
INDEX_VARIABLES = ("VC_TASK_INDEX", "VK_TASK_INDEX")
"""Environment variables that the job plugin ``env`` sets."""


def identity_labels(job: str, namespace: str, role: str) -> dict[str, str]:
    """Labels by which pods of a job and of its tasks are found."""
    return {JOB_NAME: job, JOB_NAMESPACE: namespace, ROLE_KEY: role}


def pod_body(
    meta: Mapping[str, Any], spec: VcJobSpec, role: Role, index: int, *, version: int, group: str, scheduler: str
) -> dict[str, Any]:
    """One pod of a job as it is sent to the server, without its owner.

    *meta* is the job's metadata as data, with name and namespace at least; *scheduler* is for templates and jobs
    that name none.
    """
    name, namespace = meta["name"], meta["namespace"]
    template = copy.deepcopy(role.task.template)
    given = template.get("metadata") or {}
    noted = {key: value for key, value in (meta.get("annotations") or {}).items() if key in _FROM_JOB}
    annotations = {
        **(given.get("annotations") or {}),
        **noted,
        ROLE_KEY: role.name,
        GROUP_ANNOTATION: group,
        JOB_NAME: name,
        JOB_VERSION: str(version),
        QUEUE_NAME: spec.queue or "default",
        TASK_INDEX: str(index),
        TEMPLATE_UID: f"{name}-{role.name}",
    }
    if role.task.topology_policy:
        annotations[_NUMA_POLICY] = role.task.topology_policy
    labels = {
        **(given.get("labels") or {}),
        **{key: value for key, value in (meta.get("labels") or {}).items() if key == _PREEMPTABLE},
        **identity_labels(name, namespace, role.name),
        QUEUE_NAME: spec.queue or "default",
        TASK_INDEX: str(index),
    }
    made = template.get("spec") or {}
    made["schedulerName"] = made.get("schedulerName") or spec.scheduler_name or scheduler
    _mount(made, spec)
    if "env" in (spec.plugins or {}):
        _number(made, index)
    if wants_service(spec):
        hosts = map_name(name, meta.get("uid") or "", int(meta.get("generation") or 0))
        address(made, name, pod_name(name, role.name, index), roles_of(spec), hosts)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(name, role.name, index),
            "namespace": namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": made,
    }


def _mount(made: dict[str, Any], spec: VcJobSpec) -> None:
    for number, volume in enumerate(spec.volumes or ()):
        name = f"vcjob-volume-{number}"
        claim = {"name": name, "persistentVolumeClaim": {"claimName": volume.volume_claim_name}}
        made["volumes"] = [*(made.get("volumes") or ()), claim]
        for container in made.get("containers") or ():
            mount = {"name": name, "mountPath": volume.mount_path}
            container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def _number(made: dict[str, Any], index: int) -> None:
    """What the job plugin ``env`` does: every container knows which pod of its task it is in."""
    for container in (*(made.get("initContainers") or ()), *(made.get("containers") or ())):
        others = [v for v in container.get("env") or () if v.get("name") not in INDEX_VARIABLES]
        container["env"] = [*others, *({"name": name, "value": str(index)} for name in INDEX_VARIABLES)]
