"""Small clusters of KAI written in a few words, and what one or more rounds make of them."""

from __future__ import annotations

from typing import Any

from pumice_conformance.cases import Case
from pumice_conformance.kai_rounds import Round, one_round, prepare

from pumice.config.kai import DEFAULT_PLUGINS
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import Assembly, assemble

NOW = "2026-01-01T00:00:00Z"
UNLIMITED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
ALL = "allocate, consolidation, reclaim, preempt, stalegangeviction"


def node(name: str, gpu: int = 0, cpu: str = "64", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.memory": "40000", **labels}},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpu)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def queue(
    name: str, quota: float = 0, weight: float = 1, limit: float = -1, parent: str = "", **more: Any
) -> dict[str, Any]:
    gpu = {"quota": quota, "overQuotaWeight": weight, "limit": limit}
    spec = {"parentQueue": parent, "resources": {"gpu": gpu, "cpu": UNLIMITED, "memory": UNLIMITED}, **more}
    return {"apiVersion": "scheduling.run.ai/v2", "metadata": {"name": name, "creationTimestamp": NOW}, "spec": spec}


def job(
    name: str,
    queue: str,
    *,
    on: tuple[str, ...] = (),
    pods: int = 1,
    gpu: str = "1",
    least: int | None = None,
    priority: str = "train",
    minute: int = 0,
    spec: dict[str, Any] | None = None,
    notes: dict[str, str] | None = None,
    labels: dict[int, dict[str, str]] | None = None,
    fraction: str = "",
) -> dict[str, list[dict[str, Any]]]:
    """A PodGroup with its pods, of which the first run *on* these nodes."""
    created = f"2025-12-31T23:{minute:02d}:00Z"
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": created, "annotations": notes or {}},
        "spec": {
            "minMember": pods if least is None else least,
            "queue": queue,
            "priorityClassName": priority,
            **(spec or {}),
        },
    }
    made = []
    for n in range(pods):
        requests = {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": gpu} if gpu != "0" and not fraction else {})}
        annotations = {"pod-group-name": name, **({"gpu-fraction": fraction} if fraction else {})}
        running = n < len(on)
        made.append(
            {
                "metadata": {
                    "name": f"{name}-{n}",
                    "namespace": "default",
                    "creationTimestamp": created,
                    "annotations": annotations,
                    "labels": (labels or {}).get(n, {}),
                },
                "spec": {
                    "containers": [{"name": "main", "resources": {"requests": requests}}],
                    **({"nodeName": on[n]} if running else {}),
                },
                "status": {"phase": "Running" if running else "Pending"},
            }
        )
    return {"podGroups": [group], "pods": made}


def cluster(*parts: dict[str, Any], actions: str = ALL, conf: dict[str, Any] | None = None, **params: Any) -> Case:
    """A case of nodes, queues and jobs."""
    objects: dict[str, list[Any]] = {"nodes": [], "queues": [], "podGroups": [], "pods": [], "topologies": []}
    objects["priorityClasses"] = [
        {"metadata": {"name": name}, "value": value} for name, value in (("train", 50), ("build", 100), ("low", 10))
    ]
    for part in parts:
        if "pods" in part and "podGroups" in part:
            for key, found in part.items():
                objects[key] += found
        elif "status" in part:
            objects["nodes"].append(part)
        elif "levels" in part["spec"]:
            objects["topologies"].append(part)
        else:
            objects["queues"].append(part)
    given = {"globalDefaultStalenessGracePeriod": "0s", "maxNumberConsolidationPreemptees": -1, **params}
    data = {
        "id": "made up",
        "profile": "kai",
        "conf": {"actions": actions, **(conf or {})},
        "environment": {"now": NOW, "schedulerParams": given},
        "objects": objects,
        "expect": {},
    }
    return Case("made up", data)


def conf_with(*plugins: str) -> dict[str, Any]:
    """KAI's own list of plugins, and these."""
    return {"tiers": [{"plugins": [{"name": name} for name in (*DEFAULT_PLUGINS, *plugins)]}]}


def decided(case: Case, compat: str | None = "kai") -> dict[str, str]:
    """Pod -> what a cycle makes of it, for those with a place: ``Binding n1``."""
    found = seen(case, compat)
    return {
        key.removeprefix("default/"): f"{task['status']} {task.get('node', '')}".strip()
        for key, task in found.tasks.items()
    }


def seen(case: Case, compat: str | None = "kai") -> Round:
    """What one cycle leaves."""
    assembly: Assembly = prepare(case, default_registry())
    if compat != "kai":
        assembly = assemble(assembly.conf, default_registry(), compat)
    found = one_round(case, assembly, case.data["objects"])
    assert found.problems == []
    return found
