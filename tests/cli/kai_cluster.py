"""A small cluster as a user of KAI has it, in KAI's own objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_OPEN = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
TREE = {"org": ("", 12), "research": ("org", 4), "product": ("org", 8)}
"""Queue -> the one above it, and its quota of GPUs."""
JOBS: dict[str, tuple[str, int, int, str]] = {
    "old": ("research", 4, 1, "n0"),
    "grown": ("research", 4, 1, "n1"),
    "part": ("product", 1, 0, ""),
    "serve": ("product", 2, 2, ""),
    "rack": ("product", 2, 2, ""),
    "huge": ("product", 1, 16, ""),
    "lost": ("nowhere", 1, 1, ""),
}
"""Job -> its queue, its pods, the GPUs of each, and the node that it runs on."""


def cluster() -> Iterator[dict[str, Any]]:
    """Research holds eight of twelve GPUs and is to have four; two pods of *grown* are more than it needs."""
    for n in range(3):
        labels = {"nvidia.com/gpu.count": "4", "nvidia.com/gpu.memory": "40000", "zone": f"z{n // 2}", "rack": f"r{n}"}
        offers = {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "4"}
        ready = [{"type": "Ready", "status": "True"}]
        yield {
            **_named("v1", "Node", f"n{n}", labels=labels),
            "status": {"allocatable": offers, "conditions": ready},
        }
    yield {**_named("scheduling.k8s.io/v1", "PriorityClass", "train"), "value": 50}
    levels = [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]
    yield {**_named("kai.scheduler/v1alpha1", "Topology", "net"), "spec": {"levels": levels}}
    for name, (parent, quota) in TREE.items():
        resources = {"gpu": {**_OPEN, "quota": quota}, "cpu": _OPEN, "memory": _OPEN}
        spec = {"resources": resources, **({"parentQueue": parent} if parent else {})}
        yield {**_named("scheduling.run.ai/v2", "Queue", name), "spec": spec}
    for age, (name, told) in enumerate(JOBS.items()):
        yield from job(name, *told, age=age)


def job(name: str, queue: str, pods: int, gpus: int, node: str = "", *, age: int = 30) -> Iterator[dict[str, Any]]:
    """A PodGroup with its pods, each of which runs for half an hour; without GPUs it wants half of one."""
    since = f"2026-01-02T00:{age:02d}:00Z"
    group: dict[str, Any] = {"queue": queue, "minMember": 2 if name == "grown" else pods, "priorityClassName": "train"}
    if name == "rack":
        group["topologyConstraint"] = {"topology": "net", "requiredTopologyLevel": "rack"}
    named = {"namespace": "team", "creationTimestamp": since}
    yield {**_named("scheduling.run.ai/v2alpha2", "PodGroup", name, **named), "spec": group}
    notes = {"pod-group-name": name, "sim.pumice.dev/run-time": "30m", **({} if gpus else {"gpu-fraction": "0.5"})}
    asks = {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    for i in range(pods):
        containers = [{"name": "main", "image": "x", "resources": {"requests": asks}}]
        spec = {"schedulerName": "kai-scheduler", "priorityClassName": "train", "containers": containers}
        yield {
            **_named("v1", "Pod", f"{name}-{i}", annotations=notes, **named),
            "spec": {**spec, **({"nodeName": node} if node else {})},
            "status": {"phase": "Running" if node else "Pending"},
        }


def write(path: Path, objects: Iterator[dict[str, Any]]) -> None:
    """Write objects as one List."""
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def _named(version: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "uid": f"{kind}-{name}", **more}}
