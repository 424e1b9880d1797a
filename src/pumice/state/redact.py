"""A saved cycle without the names of people and projects, that a replay decides in the same way.

Renamed, everywhere in the same way: namespaces, queues, PodGroups, pods, priority classes, claims, container names and
images, and the values of labels, annotations, taints and selectors whose key is not a well-known one. Kept: node names,
resource names, label keys, roles, numbers, times and UIDs, names that mean something to schedulers (``default``,
``kube-system``), and the conf. New names stand in the order of the old ones, because names settle ties. Left out: an
entry of a plugin's memory in which an old name is part of a longer text, extender exchanges, and what plugins said when
they failed.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.model.task import GROUP_ANNOTATION, pod_index
from pumice.state.saved import SavedCycle

KEPT: Final = frozenset(
    {"", "default", "root", "kube-system", "kube-public", "kube-node-lease", "volcano-system"}
    | {"system-cluster-critical", "system-node-critical"}
)
"""Names that mean something to a scheduler."""
_WELL_KNOWN: Final = re.compile(
    r"(?:.*\.)?(?:kubernetes\.io|k8s\.io|volcano\.sh|kai\.scheduler|nvidia\.com|amd\.com|pumice\.dev)/.*|gpu-.*|sla-.*"
)
_QUEUE_KEYS: Final = ("volcano.sh/queue-name", "scheduling.volcano.sh/queue-name", "kai.scheduler/queue")
_JOB_KEYS: Final = ("volcano.sh/job-name", GROUP_ANNOTATION, "pod-group-name")
_DROPPED: Final = ("kubectl.kubernetes.io/last-applied-configuration",)
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
class _Names:
    """Old to new, for each sort of name."""

    namespaces: dict[str, str] = field(default_factory=dict)
    queues: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    pods: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    """Priority classes, claims, volumes, storage classes and the like."""
    values: dict[str, str] = field(default_factory=dict)

    def whole(self) -> dict[str, str]:
        """Every name, old -> new; where one word names several things, the queue or namespace wins."""
        return {**self.values, **self.others, **self.pods, **self.jobs, **self.queues, **self.namespaces}

    def job_key(self, key: str) -> str:
        namespace, _, name = key.partition("/")
        return f"{self.namespaces.get(namespace, namespace)}/{self.jobs.get(name, name)}"

    def pod_key(self, key: str) -> str:
        namespace, _, name = key.partition("/")
        return f"{self.namespaces.get(namespace, namespace)}/{self.pods.get(name, name)}"


def _keys(saved: SavedCycle, names: _Names) -> dict[str, str]:
    """``namespace/name`` of every pod and job, old -> new."""
    out: dict[str, str] = {}
    for kind, renamed in (("Pod", names.pod_key), ("PodGroup", names.job_key)):
        for obj in saved.objects.get(kind, ()):
            meta = obj.get("metadata", {})
            key = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
            out[key] = renamed(key)
    return out


def redacted(saved: SavedCycle) -> SavedCycle:
    """A copy of *saved* without names of people and projects; *saved* is not changed."""
    out = copy.deepcopy(saved)
    names = _collect(out)
    for kind, objects in out.objects.items():
        for obj in objects:
            _object(kind, obj, names)
    uids = {key: names.pod_key(key) for key in _pods_without_uid(saved)}
    for task in out.assumed:
        task.uid = uids.get(task.uid, task.uid)
    out.devices = {uids.get(uid, uid): held for uid, held in out.devices.items()}
    out.nominations = {uids.get(uid, uid): room for uid, room in out.nominations.items()}
    out.phases = {names.job_key(uid): phase for uid, phase in out.phases.items()}
    out.default_queue = names.queues.get(out.default_queue, out.default_queue)
    for decision in out.decisions:
        _decision(decision, names, uids)
    for health in out.health.values():
        health.last = ""
    out.memory, out.left_out = _memory(saved, {**names.whole(), **_keys(saved, names)})
    out.exchanges, out.conf_source, out.redacted = [], "", True
    return out


class _Leak(Exception):
    """A text holds an old name and cannot be renamed as a whole."""


def _memory(saved: SavedCycle, whole: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """What plugins remember with its names renamed, and the entries that would give a name away."""
    telling = [name for name, new in whole.items() if name != new and len(name) > 2]

    def rename(value: Any) -> Any:
        if isinstance(value, str):
            if value not in whole and any(name in value for name in telling):
                raise _Leak
            return whole.get(value, value)
        if isinstance(value, list):
            return [rename(v) for v in value]
        if isinstance(value, dict):
            return {rename(k): rename(v) for k, v in value.items()}
        return value

    kept: dict[str, Any] = {}
    left_out = list(saved.left_out)
    for plugin, entries in saved.memory.items():
        for key, value in entries.items():
            try:
                kept.setdefault(plugin, {}).update(rename({key: value}))
            except _Leak:
                left_out.append(f"{plugin}: an entry with names in it")
    return kept, left_out


def _pods_without_uid(saved: SavedCycle) -> Iterator[str]:
    for pod in saved.objects.get("Pod", ()):
        meta = pod.get("metadata", {})
        if not meta.get("uid"):
            yield f"{meta.get('namespace', '')}/{meta.get('name', '')}"


def _decision(decision: dict[str, Any], names: _Names, uids: Mapping[str, str]) -> None:
    for key in ("pod", "beneficiary_pod"):
        if decision.get(key):
            decision[key] = names.pod_key(decision[key])
    for key in ("job", "beneficiary"):
        if decision.get(key):
            decision[key] = names.job_key(decision[key])
    decision["uid"] = uids.get(decision["uid"], decision["uid"])
    if decision.get("annotations"):
        decision["annotations"] = {}


# -- collecting ---------------------------------------------------------------------------------------------------
def _collect(saved: SavedCycle) -> _Names:
    namespaces: set[str] = set()
    queues = {saved.default_queue}
    jobs: set[str] = set()
    pods: set[str] = set()
    others: set[str] = set()
    values: set[str] = set()
    for kind, objects in saved.objects.items():
        for obj in objects:
            meta, spec = obj.get("metadata", {}), obj.get("spec") or {}
            namespaces.add(meta.get("namespace", ""))
            values.update(value for _, value in _pairs(obj))
            match kind:
                case "Namespace":
                    namespaces.add(meta["name"])
                case "Queue":
                    queues |= {meta["name"], spec.get("parent", "")}
                case "PodGroup":
                    jobs.add(meta["name"])
                    queues.add(spec.get("queue", ""))
                    others.add(spec.get("priorityClassName", ""))
                case "Pod":
                    pods.add(meta["name"])
                    jobs.add((meta.get("annotations") or {}).get(GROUP_ANNOTATION, ""))
                    others |= {spec.get("priorityClassName", ""), *_claims(spec)}
                case "Node" | "HyperNode" | "CSINode" | "Numatopology":
                    pass
                case _:
                    others.add(meta.get("name", ""))
    return _Names(
        ranked(namespaces, "ns", _kept_name, gap="x"),
        ranked(queues, "queue", _kept_name),
        ranked(jobs, "job", _kept_name),
        _pod_names(pods),
        ranked(others, "name", _kept_name),
        ranked(values, "value", _kept_value),
    )


def _pod_names(pods: set[str]) -> dict[str, str]:
    """Pods in the order of their names; the index at the end, by which tasks are ordered, stays."""
    out = ranked(pods, "pod", lambda name: not name)
    for old in out:
        index = pod_index(old)
        if index is not None:
            out[old] += f"-{index}"
    return out


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
                yield from ((k, v) for k, v in inner.items() if isinstance(v, str) and not _WELL_KNOWN.fullmatch(k))
            else:
                yield from _pairs(inner)
        own = obj.get("key")
        if isinstance(own, str) and not _WELL_KNOWN.fullmatch(own):
            listed = obj.get("values")
            for value in [obj.get("value"), *(listed if isinstance(listed, list) else ())]:
                if isinstance(value, str):
                    yield own, value
    elif isinstance(obj, list):
        for item in obj:
            yield from _pairs(item)


# -- renaming -----------------------------------------------------------------------------------------------------
def _object(kind: str, obj: dict[str, Any], names: _Names) -> None:
    meta = obj.setdefault("metadata", {})
    spec = obj.get("spec") or {}
    _values(obj, names)
    own = {"Pod": names.pods, "PodGroup": names.jobs, "Queue": names.queues, "Namespace": names.namespaces}
    if kind not in ("Node", "HyperNode", "CSINode", "Numatopology"):
        _rename(meta, "name", own.get(kind, names.others))
    _rename(meta, "namespace", names.namespaces)
    for owner in meta.get("ownerReferences") or ():
        owner["name"] = names.jobs.get(owner.get("name", ""), "owner")
    if kind == "Queue":
        _rename(spec, "parent", names.queues)
    elif kind == "PodGroup":
        _rename(spec, "queue", names.queues)
        _rename(spec, "priorityClassName", names.others)
        for condition in (obj.get("status") or {}).get("conditions") or ():
            condition.pop("message", None)
    elif kind == "Pod":
        _pod(obj, spec, names)
    elif kind in ("PersistentVolumeClaim", "PersistentVolume"):
        for field_name in ("volumeName", "storageClassName"):
            _rename(spec, field_name, names.others)
        claim = spec.get("claimRef")
        if isinstance(claim, dict):
            _rename(claim, "name", names.others)
            _rename(claim, "namespace", names.namespaces)
    elif kind == "CSIStorageCapacity":
        _rename(obj, "storageClassName", names.others)


def _pod(obj: dict[str, Any], spec: dict[str, Any], names: _Names) -> None:
    _rename(spec, "priorityClassName", names.others)
    for containers in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(containers) or ()):
            if container.get("name"):
                container["name"] = f"c{number}"
            container.pop("image", None)
    for status in (obj.get("status") or {}).get("containerStatuses") or ():
        status.pop("name", None)
    for condition in (obj.get("status") or {}).get("conditions") or ():
        condition.pop("message", None)
    for volume in spec.get("volumes") or ():
        claim = volume.get("persistentVolumeClaim")
        if claim:
            _rename(claim, "claimName", names.others)
    for claim in spec.get("resourceClaims") or ():
        _rename(claim, "resourceClaimName", names.others)
        _rename(claim, "resourceClaimTemplateName", names.others)
    for status in (obj.get("status") or {}).get("resourceClaimStatuses") or ():
        _rename(status, "resourceClaimName", names.others)
    for terms in _affinity_terms(spec):
        if terms.get("namespaces"):
            terms["namespaces"] = [names.namespaces.get(n, n) for n in terms["namespaces"]]


def _affinity_terms(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    affinity = spec.get("affinity") or {}
    for side in ("podAffinity", "podAntiAffinity"):
        for terms in (affinity.get(side) or {}).values():
            for term in terms or ():
                yield term.get("podAffinityTerm", term)


def _rename(owner: dict[str, Any], key: str, names: Mapping[str, str]) -> None:
    if owner.get(key):
        owner[key] = names.get(owner[key], owner[key])


def _values(obj: Any, names: _Names) -> None:
    """Rename the values of labels, annotations, selectors, taints and tolerations in place."""
    if isinstance(obj, list):
        for item in obj:
            _values(item, names)
        return
    if not isinstance(obj, dict):
        return
    for name, inner in obj.items():
        if name in ("labels", "annotations", "matchLabels", "nodeSelector") and isinstance(inner, dict):
            obj[name] = {k: _value(k, v, names) for k, v in inner.items() if k not in _DROPPED}
        else:
            _values(inner, names)
    own = obj.get("key")
    if isinstance(own, str):
        if isinstance(obj.get("value"), str):
            obj["value"] = _value(own, obj["value"], names)
        if isinstance(obj.get("values"), list):
            obj["values"] = [_value(own, v, names) for v in obj["values"]]


def _value(key: str, value: Any, names: _Names) -> Any:
    if key in _QUEUE_KEYS:
        return names.queues.get(value, value)
    if key in _JOB_KEYS:
        return names.jobs.get(value, value)
    if _WELL_KNOWN.fullmatch(key):
        return value
    return names.values.get(value, value)
