"""Kubernetes objects for neutral values: the one a value came with, else a small one made of what is known."""

from __future__ import annotations

from typing import Final

from pumice.extender.wire.amounts import to_quantities
from pumice.extender.wire.objects import Json, WireJob, WireNode, WireQueue, WireTask

_PHASES: Final = {"Running": "Running", "Releasing": "Running", "Succeeded": "Succeeded", "Failed": "Failed"}
_VERSION: Final = "v1beta1"


def pod_of(task: WireTask) -> Json:
    """The pod of *task*."""
    if task.pod is not None:
        return _bare(task.pod)
    spec: Json = {"containers": [{"name": "main", "resources": {"requests": to_quantities(task.requests)}}]}
    if task.node_name:
        spec["nodeName"] = task.node_name
    spec["priority"] = task.priority
    if task.gated:
        spec["schedulingGates"] = [{"name": "pumice.dev/gated"}]
    return {
        "metadata": _metadata(task.name, task.namespace, task.uid, task.creation, task.labels, task.annotations),
        "spec": spec,
        "status": {"phase": "Unknown" if task.status == "Unknown" else _PHASES.get(task.status, "Pending")},
    }


def node_of(node: WireNode) -> Json:
    """The Kubernetes node of *node*."""
    if node.node is not None:
        return _bare(node.node)
    spec: Json = {}
    if node.unschedulable:
        spec["unschedulable"] = True
    if node.taints:
        spec["taints"] = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints]
    status: Json = {}
    if node.capacity is not None:
        status["capacity"] = to_quantities(node.capacity)
    if node.allocatable:
        status["allocatable"] = to_quantities(node.allocatable)
    return {
        "metadata": _metadata(node.name, "", "", "", node.labels, node.annotations),
        "spec": spec,
        "status": status,
    }


def pod_group_of(job: WireJob) -> Json:
    """The pod group of *job*, ending in the API version that Volcano keeps with it."""
    if job.pod_group is not None:
        group = _bare(job.pod_group)
        return group if "Version" in group else {**group, "Version": _VERSION}
    spec: Json = {"minMember": job.min_available}
    if job.role_minimums:
        spec["minTaskMember"] = dict(sorted(job.role_minimums.items()))
    if job.queue:
        spec["queue"] = job.queue
    if job.min_resources is not None:
        spec["minResources"] = to_quantities(job.min_resources)
    return {
        "metadata": _metadata(job.name, job.namespace, "", job.creation, job.labels, job.annotations),
        "spec": spec,
        "status": {"phase": job.phase} if job.phase else {},
        "Version": _VERSION,
    }


def queue_of(queue: WireQueue) -> Json:
    """The Kubernetes queue of *queue*."""
    if queue.queue is not None:
        return _bare(queue.queue)
    spec: Json = {"weight": queue.weight}
    if queue.capability:
        spec["capability"] = to_quantities(queue.capability)
    spec["reclaimable"] = queue.reclaimable
    spec["guarantee"] = {"resource": to_quantities(queue.guarantee)} if queue.guarantee else {}
    if queue.parent:
        spec["parent"] = queue.parent
    if queue.deserved:
        spec["deserved"] = to_quantities(queue.deserved)
    if queue.priority:
        spec["priority"] = queue.priority
    status: Json = {"state": queue.state} if queue.state else {}
    status["reservation"] = {}
    if queue.allocated:
        status["allocated"] = to_quantities(queue.allocated)
    return {
        "metadata": _metadata(queue.name, "", "", queue.creation, queue.labels, queue.annotations),
        "spec": spec,
        "status": status,
    }


def _metadata(
    name: str, namespace: str, uid: str, creation: str, labels: dict[str, str], annotations: dict[str, str]
) -> Json:
    """Metadata in Kubernetes' order of fields, without what is empty."""
    known = {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "creationTimestamp": creation,
        "labels": dict(sorted(labels.items())),
        "annotations": dict(sorted(annotations.items())),
    }
    return {key: value for key, value in known.items() if value}


def _bare(thing: Json) -> Json:
    """The object as Go has it inside a program: without kind and API version."""
    if "kind" in thing or "apiVersion" in thing:
        return {key: value for key, value in thing.items() if key not in ("kind", "apiVersion")}
    return thing
