"""Conformance cases: one configuration, the objects of a cluster, and the decisions that one cycle must make."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pumice.errors import InvalidInput, decoder_words, read_text

KINDS = {
    "nodes": "Node",
    "pods": "Pod",
    "podGroups": "PodGroup",
    "queues": "Queue",
    "priorityClasses": "PriorityClass",
    "resourceQuotas": "ResourceQuota",
    "hyperNodes": "HyperNode",
    "numatopologies": "Numatopology",
    "persistentVolumes": "PersistentVolume",
    "persistentVolumeClaims": "PersistentVolumeClaim",
    "storageClasses": "StorageClass",
    "resourceSlices": "ResourceSlice",
    "resourceClaims": "ResourceClaim",
    "deviceClasses": "DeviceClass",
    "podDisruptionBudgets": "PodDisruptionBudget",
}
KAI_KINDS = {
    "nodes": "Node",
    "priorityClasses": "PriorityClass",
    "queues": "Queue",
    "topologies": "Topology",
    "podGroups": "PodGroup",
    "pods": "Pod",
    "storageClasses": "StorageClass",
    "persistentVolumes": "PersistentVolume",
    "persistentVolumeClaims": "PersistentVolumeClaim",
    "resourceSlices": "ResourceSlice",
    "resourceClaims": "ResourceClaim",
    "deviceClasses": "DeviceClass",
    "nodeResourceTopologies": "NodeResourceTopology",
}
"""Lists of a case of KAI -> kind, in the order in which they are taken in."""
_FIELDS = {"id", "title", "profile", "conf", "objects", "environment", "expect"}
_KAI_FIELDS = _FIELDS | {"source", "needs", "rounds", "observed", "notes"}
_ENVIRONMENT = {"now", "shard", "nodeUsage"}
_KAI_ENVIRONMENT = {
    *("now", "schedulerParams", "fullHierarchyFairness", "minNodeGpuMemoryMiB", "maxNodeGpuMemoryMiB"),
    *("predicatesPluginOff", "scenarioSearchBudgets", "initialStatus"),
}
EXPECT = frozenset(
    {"binds", "bindCount", "boundPods", "evictions", "evictionCount", "pipelined", "podGroupPhases"}
    | {"taskStatusCounts", "bindCountsByHyperNode"}
)
KAI_EXPECT = frozenset({"tasks", "jobs", "nodes", "jobErrors", "maxCalls"})


@dataclass(frozen=True, slots=True)
class Case:
    """One case, or why it cannot be read."""

    id: str
    data: dict[str, Any]
    error: str = ""

    @property
    def needs(self) -> frozenset[str]:
        """What the case needs beyond the core, as it says; nothing where it does not."""
        given = self.data.get("needs")
        return frozenset(n for n in given if isinstance(n, str)) if isinstance(given, list) else frozenset()

    @property
    def now(self) -> float:
        """The clock of the case: as given, else the newest creation time among its objects."""
        given = self.data.get("environment", {}).get("now")
        if given:
            return datetime.fromisoformat(given).timestamp()
        times = [
            datetime.fromisoformat(stamp).timestamp()
            for objects in self.data.get("objects", {}).values()
            for o in objects
            if (stamp := (o.get("metadata") or {}).get("creationTimestamp"))
        ]
        return max(times, default=0.0)


def check(data: Any, where: str) -> Case:
    """A case from decoded JSON; a field that the format does not have makes it unreadable."""
    if not isinstance(data, dict):
        return Case(where, {}, "a case must be an object")
    name = str(data.get("id", where))
    for part in ("conf", "objects", "environment", "expect"):
        if not isinstance(data.get(part) or {}, dict):
            return Case(name, {}, f"{part} must be an object, got {data[part]!r:.60}")
    kai = data.get("profile") == "kai"
    fields, kinds, environment, expect = (
        (_KAI_FIELDS, set(KAI_KINDS), _KAI_ENVIRONMENT, KAI_EXPECT)
        if kai
        else (_FIELDS, set(KINDS), _ENVIRONMENT, EXPECT)
    )
    unknown = sorted(set(data) - fields)
    unknown += sorted(f"objects.{k}" for k in set(data.get("objects") or {}) - kinds)
    unknown += sorted(f"environment.{k}" for k in set(data.get("environment") or {}) - environment)
    unknown += sorted(f"expect.{k}" for k in set(data.get("expect") or {}) - expect)
    if unknown:
        return Case(name, data, f"unknown fields: {', '.join(unknown)}")
    if "conf" not in data or "expect" not in data:
        return Case(name, data, "a case needs conf and expect")
    return Case(name, data)


def read(paths: list[Path]) -> Iterator[Case]:
    """Every case below the paths, in order. Captures of the extender protocol are passed by.

    :raises InvalidInput: a path that does not exist, cannot be read, or holds no case.
    """
    for path in paths:
        if not path.exists():
            raise InvalidInput(f"path {str(path)!r}: does not exist")
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in (".json", ".jsonl"))
        if not files:
            raise InvalidInput(f"path {str(path)!r}: holds no case, a file that ends in .json or .jsonl")
        for file in files:
            if "extender" in file.parent.parts:
                continue
            yield from _read_file(file)


def _read_file(file: Path) -> Iterator[Case]:
    text = read_text(file)
    if file.suffix == ".jsonl":
        texts = [(f"{file.name}:{n}", line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    else:
        texts = [(file.name, text)]
    for where, text in texts:
        try:
            yield check(json.loads(text), where)
        except json.JSONDecodeError as exc:
            yield Case(where, {}, f"not JSON: {decoder_words(exc)}")
