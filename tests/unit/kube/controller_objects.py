"""Objects as a server tells them, for the tests of controllers."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from pumice.kube.controllers.store import Command, FollowedQueue, OwnedPod, VcJob
from pumice.model.api import PodGroup

_VERSIONS = itertools.count(1)


def _meta(name: str, namespace: str, fields: dict[str, Any]) -> dict[str, Any]:
    made = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(next(_VERSIONS))}
    return {**made, **fields}


def job(name: str = "j", replicas: int = 2, *, status: dict[str, Any] | None = None, **spec: Any) -> VcJob:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    tasks = [{"name": "w", "replicas": replicas, "template": template}]
    data = {"metadata": _meta(name, "ns", {}), "spec": {"tasks": tasks, **spec}, "status": status or {}}
    return msgspec.convert(data, VcJob)


def owner(name: str = "j") -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": name,
        "uid": f"uid-{name}",
        "controller": True,
    }


def pod(name: str, phase: str = "Running", *, version: int = 0, **meta: Any) -> OwnedPod:
    notes = {"volcano.sh/task-spec": "w", "volcano.sh/job-version": str(version), "scheduling.k8s.io/group-name": "g"}
    fields = {"ownerReferences": [owner()], "annotations": notes, **meta}
    return msgspec.convert({"metadata": _meta(name, "ns", fields), "status": {"phase": phase}}, OwnedPod)


def loose_pod(name: str, scheduler: str = "pumice", cpu: str = "1", **meta: Any) -> OwnedPod:
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    return msgspec.convert(
        {"metadata": _meta(name, "ns", meta), "spec": spec, "status": {"phase": "Pending"}}, OwnedPod
    )


def group(name: str = "j-uid-j", phase: str = "Inqueue", queue: str = "default", owned: bool = True) -> PodGroup:
    fields = {"ownerReferences": [owner()]} if owned else {}
    spec = {"minMember": 2, "minTaskMember": {"w": 2}, "minResources": {"cpu": "2"}, "queue": queue}
    return msgspec.convert({"metadata": _meta(name, "ns", fields), "spec": spec, "status": {"phase": phase}}, PodGroup)


def queue(name: str, parent: str = "", **status: Any) -> FollowedQueue:
    data = {"metadata": _meta(name, "", {}), "spec": {"parent": parent}, "status": status}
    return msgspec.convert(data, FollowedQueue)


def command(name: str, action: str, kind: str, target: str) -> Command:
    data = {"metadata": _meta(name, "ns", {}), "action": action, "target": {"kind": kind, "name": target}}
    return msgspec.convert(data, Command)
