"""New names for the old ones of a saved cycle, sort by sort, in the same order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.model import native
from pumice.model.task import GROUP_ANNOTATION, pod_index
from pumice.saved.cycle import SavedCycle

KEPT: Final = frozenset(
    {"", "default", "root", "kube-system", "kube-public", "kube-node-lease", "volcano-system"}
    | {"system-cluster-critical", "system-node-critical"}
)
"""Names that mean something to a scheduler."""
WELL_KNOWN: Final = re.compile(
    r"(?:.*\.)?(?:kubernetes\.io|k8s\.io|volcano\.sh|kai\.scheduler|nvidia\.com|amd\.com|pumice\.dev)/.*|gpu-.*|sla-.*"
)
MACHINERY: Final = frozenset(
    {"Node", "HyperNode", "CSINode", "Numatopology", "PersistentVolume", "StorageClass", "CSIStorageCapacity"}
    | {"CSIDriver", "DeviceClass", "ResourceSlice", "NodeResourceTopology"}
)
"""Kinds whose names name machines and what is built into them."""
_PLAIN: Final = re.compile(r"|true|false|True|False|[-+]?\d+(?:\.\d+)?|(?:\d+(?:\.\d+)?[A-Za-zµ%]{1,2})+")
"""Values that name nobody: truth values, numbers, quantities, durations."""


def ranked(names: Iterable[str], word: str, keep: Callable[[str], bool], gap: str = "-") -> dict[str, str]:
    """Old name -> new name, in the same order; names that *keep* accepts stay.

    A new name that follows a kept one begins with it and *gap*, so that the order holds between both.
    """
    order = sorted(set(names), key=lambda name: name + ("/" if gap != "-" else ""))
    fixed = [name for name in order if name and keep(name)]
    width = len(str(len(order)))
    before = "0-" if fixed else ""
    out: dict[str, str] = {}
    for number, name in enumerate(order, 1):
        if not name or keep(name):
            out[name] = name
            before = f"{name}{gap}-" if name else before
        else:
            out[name] = f"{before}{word}-{number:0{width}d}"
    return out


def _kept_name(name: str) -> bool:
    return name in KEPT


def _kept_value(value: str) -> bool:
    return _PLAIN.fullmatch(value) is not None


@dataclass(slots=True)
class NewNames:
    """Old to new, for each sort of name."""

    namespaces: dict[str, str] = field(default_factory=dict)
    queues: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    pods: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    """Priority classes, claims, quotas, budgets and the like."""
    values: dict[str, str] = field(default_factory=dict)
    images: dict[str, str] = field(default_factory=dict)
    """Images without tag or digest."""

    def whole(self) -> dict[str, str]:
        """Every name, old -> new; where one word names several things, the queue or namespace wins."""
        return {**self.values, **self.others, **self.pods, **self.jobs, **self.queues, **self.namespaces}

    def image(self, name: str) -> str:
        repository = _repository(name)
        return self.images[repository] + name[len(repository) :]

    def job_key(self, key: str) -> str:
        namespace, _, name = key.partition("/")
        return f"{self.namespaces.get(namespace, namespace)}/{self.jobs.get(name, name)}"

    def pod_key(self, key: str) -> str:
        namespace, _, name = key.partition("/")
        return f"{self.namespaces.get(namespace, namespace)}/{self.pods.get(name, name)}"


def collect(saved: SavedCycle) -> NewNames:
    namespaces: set[str] = set()
    queues = {saved.default_queue}
    jobs: set[str] = set()
    pods: set[str] = set()
    others: set[str] = set()
    values = {group for groups in saved.gpu_groups.values() for group in groups}
    for kind, objects in saved.objects.items():
        for obj in objects:
            meta, spec = obj.get("metadata", {}), obj.get("spec") or {}
            namespaces.add(meta.get("namespace", ""))
            values.update(value for _, value in _pairs(obj))
            match kind:
                case "Namespace":
                    namespaces.add(meta.get("name", ""))
                case "Queue":
                    queues |= {meta.get("name", ""), spec.get("parent", "")}
                case "PodGroup" | native.POD_GROUP:
                    jobs.add(meta.get("name", ""))
                    queues.add(spec.get("queue", ""))
                    others |= {spec.get("priorityClassName", ""), *_workload(spec)}
                case "Pod":
                    pods.add(meta.get("name", ""))
                    jobs |= {(meta.get("annotations") or {}).get(GROUP_ANNOTATION, ""), *_native_group(spec)}
                    others |= {spec.get("priorityClassName", ""), *_claims(spec)}
                case _ if kind not in MACHINERY:
                    others.add(meta.get("name", ""))
    return NewNames(
        ranked(namespaces, "ns", _kept_name, gap="x"),
        ranked(queues, "queue", _kept_name),
        ranked(jobs, "job", _kept_name),
        _pod_names(pods),
        ranked(others, "name", _kept_name),
        ranked(values, "value", _kept_value),
        ranked(map(_repository, _images(saved)), "image", _kept_name),
    )


def _images(saved: SavedCycle) -> Iterator[str]:
    for node in saved.objects.get("Node", ()):
        for image in (node.get("status") or {}).get("images") or ():
            yield from image.get("names") or ()
    for pod in saved.objects.get("Pod", ()):
        for containers in ("containers", "initContainers"):
            yield from (c.get("image", "") for c in pod.get("spec", {}).get(containers) or ())


def _repository(image: str) -> str:
    """An image's name without its tag or digest."""
    name = image.partition("@")[0]
    colon = name.rfind(":")
    return name[:colon] if colon > name.rfind("/") else name


def _pod_names(pods: set[str]) -> dict[str, str]:
    """Pods in the order of their names; the index at the end, by which tasks are ordered, stays."""
    out = ranked(pods, "pod", lambda name: not name)
    for old in out:
        index = pod_index(old)
        if index is not None:
            out[old] += f"-{index}"
    return out


def references_to_workloads(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Where the spec of a PodGroup of Kubernetes' own names its Workload: in one of two places, by version."""
    old = spec.get("podGroupTemplateRef")
    for found in (spec.get("workloadRef"), old.get("workload") if isinstance(old, dict) else None):
        if isinstance(found, dict):
            yield found


def _workload(spec: Mapping[str, Any]) -> Iterator[str]:
    yield from (found.get("workloadName", "") for found in references_to_workloads(spec))


def _native_group(spec: Mapping[str, Any]) -> Iterator[str]:
    group = spec.get("schedulingGroup")
    if isinstance(group, dict):
        yield group.get("podGroupName", "")


def _claims(spec: Mapping[str, Any]) -> Iterator[str]:
    for volume in spec.get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim:
            yield claim
    for claim in spec.get("resourceClaims") or ():
        yield from (v for k in ("resourceClaimName", "resourceClaimTemplateName") if (v := claim.get(k)))


def _pairs(obj: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every (key, value) of labels, annotations, selectors, taints and tolerations that may name somebody."""
    if isinstance(obj, dict):
        for name, inner in obj.items():
            if name in ("labels", "annotations", "matchLabels", "nodeSelector") and isinstance(inner, dict):
                yield from ((k, v) for k, v in inner.items() if isinstance(v, str) and not WELL_KNOWN.fullmatch(k))
            else:
                yield from _pairs(inner)
        own = obj.get("key")
        if isinstance(own, str) and not WELL_KNOWN.fullmatch(own):
            listed = obj.get("values")
            for value in [obj.get("value"), *(listed if isinstance(listed, list) else ())]:
                if isinstance(value, str):
                    yield own, value
    elif isinstance(obj, list):
        for item in obj:
            yield from _pairs(item)
