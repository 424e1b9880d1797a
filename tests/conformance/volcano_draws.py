"""Random cases in the conformance format: a small cluster, jobs that run and wait in it, and a conf."""

from __future__ import annotations

from random import Random
from typing import Any

from volcano_mutations import CHANGES, NOW, Case

_TIME = "2024-01-01T00:{:02}:{:02}Z"
_CLASSES = {"low": 10, "mid": 100, "high": 1000}
_SYSTEM = ["priority", "gang", "conformance"]
CONFS: tuple[tuple[str, list[list[str]]], ...] = (
    ("enqueue, allocate, backfill", [_SYSTEM, ["overcommit", "drf", "predicates", "proportion", "nodeorder"]]),
    (
        "enqueue, allocate, backfill",
        [_SYSTEM, ["overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"]],
    ),
    ("enqueue, allocate, backfill", [["priority", "gang"], ["predicates", "capacity", "nodegroup", "nodeorder"]]),
    ("enqueue, allocate, backfill", [["priority", "gang"], ["predicates", "proportion", "resource-strategy-fit"]]),
    ("enqueue, allocate", [["priority", "gang"], ["sla"], ["overcommit", "drf", "predicates", "proportion"]]),
    ("enqueue, allocate, preempt, backfill", [_SYSTEM, ["drf", "predicates", "proportion", "nodeorder"]]),
    ("allocate, preempt", [["gang", "conformance"], ["drf", "predicates", "nodeorder"]]),
    ("enqueue, allocate, reclaim", [_SYSTEM, ["drf+", "predicates", "nodeorder"]]),
    ("enqueue, allocate, reclaim", [["gang", "conformance", "capacity"], ["predicates", "nodeorder"]]),
    ("enqueue, allocate, reclaim", [["gang", "conformance", "capacity+"], ["priority", "predicates", "nodeorder"]]),
    ("enqueue, allocate, reclaim, preempt", [["gang", "proportion"], ["priority", "pdb", "predicates", "binpack"]]),
    ("reclaim", [["priority", "conformance", "proportion"], ["drf", "predicates"]]),
    ("allocate, preempt", [["priority", "cdp"], ["gang", "predicates", "nodeorder"]]),
    ("enqueue, allocate, reclaim", [["gang", "cdp", "capacity"], ["priority", "predicates", "nodeorder"]]),
    ("enqueue, allocate, backfill", [["priority", "gang"], ["predicates", "proportion", "usage"]]),
    ("gangpreempt", [_SYSTEM, ["predicates", "proportion", "nodeorder"]]),
    ("allocate, gangreclaim", [_SYSTEM, ["predicates", "capacity", "nodeorder"]]),
    ("enqueue, allocate, gangpreempt, gangreclaim", [_SYSTEM, ["predicates", "capacity+", "nodeorder"]]),
)
"""Actions and tiers; a plugin with a plus has its hierarchy on."""


def drawn(random: Random) -> Case:
    """A case without expectations."""
    actions, tiers = random.choice(CONFS)
    case: Case = {
        "id": "drawn",
        "profile": "volcano",
        "conf": {"actions": actions, "tiers": [{"plugins": [_plugin(name) for name in tier]} for tier in tiers]},
        "objects": {
            "nodes": [_node(f"n{n}", random) for n in range(random.randint(2, 4))],
            "queues": _queues(random),
            "priorityClasses": [{"metadata": {"name": n}, "value": v} for n, v in _CLASSES.items()],
            "podGroups": [],
            "pods": [],
        },
        "environment": {"now": NOW, "nodeUsage": {}},
        "expect": {},
    }
    for node in case["objects"]["nodes"][1:]:  # the first is not measured
        used = {"cpu": float(random.choice([10, 40, 70, 85])), "memory": float(random.choice([5, 50, 75]))}
        case["environment"]["nodeUsage"][node["metadata"]["name"]] = used
    for n in range(random.randint(2, 6)):
        _job(case["objects"], n, random)
    for _ in range(random.randint(0, 6)):
        random.choice(CHANGES)(case, random)
    return case


def _plugin(name: str) -> Case:
    return {"name": name.rstrip("+"), **({"enableHierarchy": True} if name.endswith("+") else {})}


def _node(name: str, random: Random) -> Case:
    size = {"cpu": random.choice(["4", "6", "8"]), "memory": random.choice(["8Gi", "16Gi", "20Gi"]), "pods": "110"}
    labels = {"volcano.sh/nodegroup-name": random.choice(["a", "b"])} if random.random() < 0.7 else {}
    taint = {"key": "spot", "effect": random.choice(["NoSchedule", "PreferNoSchedule"])}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [taint]} if random.random() < 0.15 else {},
        "status": {"allocatable": size, "capacity": dict(size)},
    }


def _queues(random: Random) -> list[Case]:
    """Two teams below the root, one of them with two queues; each says something for every way to share."""
    out: list[Case] = [{"metadata": {"name": "root"}, "spec": {"weight": 1, "reclaimable": False}}]
    for name, parent in (("x", "root"), ("y", "root"), ("y-1", "y"), ("y-2", "y")):
        path = f"root/{parent}/{name}" if parent != "root" else f"root/{name}"
        weights = "/".join(str(random.choice([1, 2, 4])) for _ in path.split("/"))
        lists = {
            f"{kind}DuringSchedulingIgnoredDuringExecution": [random.choice("ab")] for kind in ("required", "preferred")
        }
        spec: Case = {"weight": random.choice([1, 2, 3]), "parent": parent, "affinity": {"nodeGroupAffinity": lists}}
        if random.random() < 0.6:
            spec["deserved"] = {"cpu": random.choice(["2", "4", "6"]), "memory": random.choice(["4Gi", "8Gi"])}
        if random.random() < 0.3:
            spec["capability"] = {"cpu": random.choice(["4", "8", "10"])}
        notes = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
        out.append({"metadata": {"name": name, "annotations": notes}, "spec": spec})
    return out


def _job(objects: dict[str, Any], n: int, random: Random) -> None:
    count, name = random.randint(1, 4), f"j{n}"
    asked = {"cpu": random.choice(["250m", "500m", "1", "2", "3"]), "memory": random.choice(["256Mi", "1Gi", "4Gi"])}
    running = random.random() < 0.5
    group: Case = {
        "metadata": {"name": name, "namespace": "ns", "creationTimestamp": _TIME.format(n, 0)},
        "spec": {
            "minMember": random.randint(1, count),
            "queue": random.choice(["x", "y-1", "y-2"]),
            "priorityClassName": random.choice(sorted(_CLASSES)),
        },
        "status": {"phase": "Running" if running else random.choice(["Pending", "Inqueue"])},
    }
    if random.random() < 0.5:
        group["spec"]["minResources"] = dict(asked)
    objects["podGroups"].append(group)
    for at in range(count):
        placed = running and random.random() < 0.7
        pod: Case = {
            "metadata": {
                "name": f"{name}-t-{at}",
                "namespace": "ns",
                "uid": f"{name}-{at}",
                "creationTimestamp": _TIME.format(n, at),
                "annotations": {"scheduling.k8s.io/group-name": name},
                "labels": {"app": name},
            },
            "spec": {"containers": [{"name": "c", "resources": {"requests": dict(asked)}}]},
            "status": {"phase": "Running" if placed else "Pending"},
        }
        if placed:
            pod["spec"]["nodeName"] = random.choice(objects["nodes"])["metadata"]["name"]
        objects["pods"].append(pod)
