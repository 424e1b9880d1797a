"""A saved cycle without the names of people and projects, that a replay decides in the same way.

Renamed, everywhere in the same way: namespaces, queues, PodGroups, pods, priority classes, claims, containers, images,
values of labels and selectors, and every other text that is not known to be harmless (`pumice.saved.cycle`). Kept:
names of nodes, resource names, label keys, image tags, numbers, times and UIDs, and the conf. New names stand in the
order of the old ones, because names settle ties. Left out: an entry of a plugin's memory in which an old name is part
of a longer text, extender exchanges, and what plugins said when they failed.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pumice.errors import InvalidInput
from pumice.model import api, keys, native
from pumice.model.patterns import matcher
from pumice.model.task import GROUP_ANNOTATION, pod_index
from pumice.saved.cycle import PART, WORDS, SavedCycle, attribute_names, each_text, plain, said_in
from pumice.state.assumed import JOB_KEY

KEPT: Final = frozenset(
    {"", "default", "root", "kube-system", "kube-public", "kube-node-lease", "volcano-system"}
    | {"system-cluster-critical", "system-node-critical"}
)
"""Names that mean something to a scheduler."""
WELL_KNOWN: Final = re.compile(
    r"(?:.*\.)?(?:kubernetes\.io|k8s\.io|volcano\.sh|kai\.scheduler|nvidia\.com|amd\.com|pumice\.dev)/.*|gpu-.*|sla-.*"
    r"|metadata\.name"
)
MACHINERY: Final = frozenset(
    {"Node", "HyperNode", "CSINode", "Numatopology", "PersistentVolume", "StorageClass", "CSIStorageCapacity"}
    | {"CSIDriver", "DeviceClass", "ResourceSlice", "NodeResourceTopology"}
)
"""Kinds whose names name machines and their parts."""
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
    nodes = {node.get("metadata", {}).get("name", "") for node in saved.objects.get("Node", ())}
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
        ranked(values, "value", lambda value: value in nodes or _kept_value(value)),
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
    """The places of a Workload's name in the spec of a PodGroup of Kubernetes' own: one of two, by version."""
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


def _is_labels(field: str, inner: Any) -> bool:
    """Report whether a field maps labels or annotations to values; the nodeSelector of an allocation has terms."""
    named = field in ("labels", "annotations", "matchLabels", "nodeSelector")
    return named and isinstance(inner, dict) and "nodeSelectorTerms" not in inner


def _pairs(obj: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every (key, value) of labels, annotations, selectors, taints and tolerations that may name somebody."""
    if isinstance(obj, dict):
        for name, inner in obj.items():
            if _is_labels(name, inner):
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


_QUEUE_KEYS: Final = (keys.QUEUE_NAME, keys.QUEUE_ANNOTATION, keys.KAI_QUEUE_LABEL)
_JOB_KEYS: Final = (keys.JOB_NAME, GROUP_ANNOTATION, "pod-group-name")
_DROPPED: Final = (keys.LAST_APPLIED,)


def _keys(saved: SavedCycle, names: NewNames) -> dict[str, str]:
    """``namespace/name`` of every pod, job and claim, old -> new."""

    def claim_key(key: str) -> str:
        namespace, _, name = key.partition("/")
        return f"{names.namespaces.get(namespace, namespace)}/{names.others.get(name, name)}"

    out: dict[str, str] = {}
    claims = (("PersistentVolumeClaim", claim_key), ("ResourceClaim", claim_key))
    for kind, renamed in (
        *(("Pod", names.pod_key), ("PodGroup", names.job_key), (native.POD_GROUP, names.job_key)),
        *claims,
    ):
        for obj in saved.objects.get(kind, ()):
            meta = obj.get("metadata", {})
            key = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
            out[key] = renamed(key)
    return out


def redacted(saved: SavedCycle) -> SavedCycle:
    """A copy of *saved* without names of people and projects; *saved* is not changed.

    :raises InvalidInput: an object cannot be what it is said to be.
    """
    saved = msgspec.structs.replace(saved, objects=_as_read(saved.objects))
    out = copy.deepcopy(saved)
    names = collect(out)
    for obj in out.objects.get("HyperNode", ()):
        _without_patterns(obj, saved.objects)
    for kind, objects in out.objects.items():
        for obj in objects:
            _object(kind, obj, names)
    others = _only_what_may_stay(out, names)
    uids = {key: names.pod_key(key) for key in _pods_without_uid(saved)}
    for task in out.assumed:
        task.uid = uids.get(task.uid, task.uid)
    out.devices = {uids.get(uid, uid): held for uid, held in out.devices.items()}
    out.gpu_groups = {uids.get(uid, uid): [names.values[g] for g in held] for uid, held in out.gpu_groups.items()}
    out.nominated = {uids.get(uid, uid): node for uid, node in out.nominated.items()}
    out.nominations = {uids.get(uid, uid): room for uid, room in out.nominations.items()}
    for room in out.nominations.values():
        room.evicted = [names.job_key(uid) for uid in room.evicted]
    for turn in out.turns:
        turn.evicted, turn.helped = names.job_key(turn.evicted), names.job_key(turn.helped)
    out.losses = {names.job_key(uid): lost for uid, lost in out.losses.items()}
    for no in out.refused.values():
        no.pod, no.beneficiary, no.message = names.pod_key(no.pod), names.job_key(no.beneficiary), ""
    out.refused = {JOB_KEY + no.beneficiary if no.failed else uids.get(uid, uid): no for uid, no in out.refused.items()}
    out.phases = {names.job_key(uid): phase for uid, phase in out.phases.items()}
    out.default_queue = names.queues.get(out.default_queue, out.default_queue)
    for decision in out.decisions:
        _decision(decision, names, uids)
    for health in out.health.values():
        health.last = ""
    out.memory, out.left_out = _memory(saved, {**others, **names.whole(), **_keys(saved, names)})
    out.exchanges, out.conf_source, out.redacted = [], "", True
    return out


def _only_what_may_stay(out: SavedCycle, names: NewNames) -> dict[str, str]:
    """Give every text that is not known to be harmless a name of its own, the same everywhere; return them."""
    old = names.whole()
    images = set(names.images.values()) - {""}
    nodes = {node.get("metadata", {}).get("name", "") for node in out.objects.get("Node", ())}
    told = (*said_in(out.conf), *attribute_names(out.objects), *(out.scheduler_names or ()))
    stays = {*old.values(), *nodes, *told} | WORDS
    unknown: set[str] = set()

    def known(text: str) -> str | None:
        name = text.partition("@")[0]
        if text in stays or plain(text) or name in images or name.rpartition(":")[0] in images:
            return text
        return old.get(text)

    def collect_unknown(text: str) -> str:
        if known(text) is None:
            unknown.add(text)
        return text

    for objects in out.objects.values():
        for obj in objects:
            each_text(obj, collect_unknown)
    others = ranked(unknown, "text", lambda text: not text)
    others |= {text: f"{new}-gpu" for text, new in others.items() if "gpu" in text}  # KAI knows drivers of GPUs by that

    def rename(text: str) -> str:
        found = known(text)
        return found if found is not None else others[text]

    for kind, objects in out.objects.items():
        out.objects[kind] = [each_text(obj, rename) for obj in objects]
    return others


def _without_patterns(obj: dict[str, Any], objects: dict[str, list[dict[str, Any]]]) -> None:
    """Let a hyper-node name its members, where it has a pattern for their names."""
    members = []
    for member in (obj.get("spec") or {}).get("members") or ():
        selector = member.get("selector") or {}
        pattern = (selector.get("regexMatch") or {}).get("pattern")
        if pattern is None:
            members.append(member)
            continue
        try:
            matches = matcher(pattern)
        except InvalidInput:
            continue
        for other in objects.get(member.get("type", "Node"), ()):
            name = other.get("metadata", {}).get("name", "")
            if matches(name):
                members.append({**member, "selector": {"exactMatch": {"name": name}}})
    if "spec" in obj:
        obj["spec"]["members"] = members


def _as_read(objects: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The objects as the scheduler reads them: fields that it does not know are not there."""
    return {kind: [api.to_data(api.decode(kind, obj)) for obj in some] for kind, some in objects.items()}


class _Leak(Exception):
    """A text holds an old name and cannot be renamed as a whole."""


def _memory(saved: SavedCycle, whole: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The memory of plugins with its names renamed, and the entries that would give a name away."""
    telling = [name for name, new in whole.items() if name != new and len(name) > 2]

    def part(text: str) -> str:
        if text not in whole and any(name in text for name in telling):
            raise _Leak
        return whole.get(text, text)

    def rename(value: Any) -> Any:
        if isinstance(value, str):
            if value in whole or any(map(str.isspace, value)):  # prose is kept whole or not at all
                return part(value)
            return PART.sub(lambda match: part(match[0]), value)
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


def _decision(decision: dict[str, Any], names: NewNames, uids: Mapping[str, str]) -> None:
    for key in ("pod", "beneficiary_pod"):
        if decision.get(key):
            decision[key] = names.pod_key(decision[key])
    for key in ("job", "beneficiary"):
        if decision.get(key):
            decision[key] = names.job_key(decision[key])
    _rename(decision, "uid", uids)
    if decision.get("annotations"):
        decision["annotations"] = {}


def _object(kind: str, obj: dict[str, Any], names: NewNames) -> None:
    meta = obj.setdefault("metadata", {})
    spec = obj.get("spec") or {}
    _values(obj, names)
    own = {
        "Pod": names.pods,
        "PodGroup": names.jobs,
        native.POD_GROUP: names.jobs,
        "Queue": names.queues,
        "Namespace": names.namespaces,
    }
    if kind not in MACHINERY:
        _rename(meta, "name", own.get(kind, names.others))
    _rename(meta, "namespace", names.namespaces)
    for owner in meta.get("ownerReferences") or ():
        owner["name"] = {**names.pods, **names.jobs}.get(owner.get("name", ""), "owner")
    if kind == "Queue":
        _rename(spec, "parent", names.queues)
    elif kind in ("PodGroup", native.POD_GROUP):
        for reference in references_to_workloads(spec):
            _rename(reference, "workloadName", names.others)
        _rename(spec, "queue", names.queues)
        _rename(spec, "priorityClassName", names.others)
        for condition in (obj.get("status") or {}).get("conditions") or ():
            condition.pop("message", None)
    elif kind == "Node":
        for image in (obj.get("status") or {}).get("images") or ():
            image["names"] = [names.image(name) for name in image.get("names") or ()]
    elif kind == "Pod":
        _pod(obj, spec, names)
    elif kind == "PersistentVolume" and isinstance(spec.get("claimRef"), dict):
        _rename(spec["claimRef"], "name", names.others)
        _rename(spec["claimRef"], "namespace", names.namespaces)
    elif kind == "PodDisruptionBudget" and (disrupted := (obj.get("status") or {}).get("disruptedPods")):
        obj["status"]["disruptedPods"] = {names.pods.get(pod, "pod"): since for pod, since in disrupted.items()}
    elif kind == "ResourceClaim":
        for holder in (obj.get("status") or {}).get("reservedFor") or ():
            _rename(holder, "name", names.pods)


def _pod(obj: dict[str, Any], spec: dict[str, Any], names: NewNames) -> None:
    if isinstance(spec.get("schedulingGroup"), dict):
        _rename(spec["schedulingGroup"], "podGroupName", names.jobs)
    _rename(spec, "priorityClassName", names.others)
    for containers in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(containers) or ()):
            if container.get("name"):
                container["name"] = f"c{number}"
            if container.get("image"):
                container["image"] = names.image(container["image"])
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


def _values(obj: Any, names: NewNames) -> None:
    """Rename the values of labels, annotations, selectors, taints and tolerations in place."""
    if isinstance(obj, list):
        for item in obj:
            _values(item, names)
        return
    if not isinstance(obj, dict):
        return
    for name, inner in obj.items():
        if _is_labels(name, inner):
            obj[name] = {k: _value(k, v, names) for k, v in inner.items() if k not in _DROPPED}
        else:
            _values(inner, names)
    own = obj.get("key")
    if isinstance(own, str):
        if isinstance(obj.get("value"), str):
            obj["value"] = _value(own, obj["value"], names)
        if isinstance(obj.get("values"), list):
            obj["values"] = [_value(own, v, names) for v in obj["values"]]


def _value(key: str, value: Any, names: NewNames) -> Any:
    if key in _QUEUE_KEYS:
        return names.queues.get(value, value)
    if key in _JOB_KEYS:
        return names.jobs.get(value, value)
    if WELL_KNOWN.fullmatch(key):
        return value
    return names.values.get(value, value)
