"""Kubernetes manifests from files, read in one way for all commands, and completed as an API server does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import yaml
from msgspec.structs import replace

from pumice import saved, yamls
from pumice.errors import InvalidInput, read_text
from pumice.model import api

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_MAX_BYTES: Final = 1 << 30


class ManifestDocument(NamedTuple):
    """One object of a file, and where it stands: ``jobs.yaml:12``."""

    data: dict[str, Any]
    place: str

    @property
    def kind(self) -> str:
        """The kind that it names; empty where it names none."""
        return str(self.data.get("kind") or "")


def documents(paths: Sequence[Path]) -> Iterator[ManifestDocument]:
    """The objects of files, and of all manifests below directories, in the order of their names.

    :raises InvalidInput: a path that does not exist, or a file that holds something else; names file and line.
    """
    for path in _files(paths):
        if saved.is_saved(path):
            for kind, objects in saved.read(path).objects.items():
                yield from (ManifestDocument({**data, "kind": kind}, str(path)) for data in objects)
        elif path.suffix == ".json":
            data = _json(path)
            yield from _taken_apart(data, str(path), [str(path)] * len(_items(data)))
        else:
            yield from documents_of_text(_text(path), str(path))


def documents_of_text(text: str, name: str) -> Iterator[ManifestDocument]:
    """The objects of a text of YAML, of which JSON is a part.

    :raises InvalidInput: it holds something else; names the line.
    """
    for data, node in yamls.documents(text, name):
        if data is not None:
            yield from _taken_apart(data, _place(name, node), [_place(name, item) for item in _item_nodes(node)])


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.exists():
            raise InvalidInput(f"{path}: no such file")
        yield from sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES) if path.is_dir() else [path]


def _text(path: Path) -> str:
    return read_text(path, most=_MAX_BYTES)


def _json(path: Path) -> Any:
    try:
        return json.loads(_text(path), parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as exc:
        raise InvalidInput(f"{path}:{exc.lineno}:{exc.colno}: not JSON: {exc.msg}") from exc
    except (RecursionError, ValueError) as exc:
        why = "is nested too deeply" if isinstance(exc, RecursionError) else exc
        raise InvalidInput(f"{path}: not JSON that can be read: {why}") from exc


def _finite(text: str) -> Any:
    return yamls.finite(float(text), text)


def _place(name: str, node: yaml.Node) -> str:
    return f"{name}:{node.start_mark.line + 1}"


def _taken_apart(data: Any, place: str, item_places: list[str]) -> Iterator[ManifestDocument]:
    """An object, or those of a List; items of a typed one (``PodList``) need not say their kind."""
    if not isinstance(data, dict):
        raise InvalidInput(f"{place}: must be a Kubernetes object, a mapping with a kind, got a {type(data).__name__}")
    if not _is_list(data):
        yield ManifestDocument(data, place)
        return
    inner = str(data["kind"]).removesuffix("List")
    for item, where in zip(_items(data), item_places, strict=True):
        yield from _taken_apart({"kind": inner, **item} if inner and isinstance(item, dict) else item, where, [])


def _is_list(data: dict[str, Any]) -> bool:
    return str(data.get("kind") or "").endswith("List") and isinstance(data.get("items"), list)


def _items(data: Any) -> list[Any]:
    return data["items"] if isinstance(data, dict) and _is_list(data) else []


def _item_nodes(node: yaml.Node) -> list[yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return []
    found: list[yaml.Node] = []
    for key, value in node.value:
        if key.value == "items" and isinstance(value, yaml.SequenceNode):
            found = value.value
    return found


T = TypeVar("T", bound=api.AnyObject)


def completed(obj: T) -> T:
    """The object as an API server would give it back.

    :raises InvalidInput: it has no name.
    """
    if not obj.metadata.name:
        raise InvalidInput(f"{obj.kind_name}: metadata.name must not be empty")
    obj = api.with_namespace(obj, "default") if obj.namespaced else _without_namespace(obj)
    done: api.AnyObject = obj
    match obj:
        case api.Pod():
            status = obj.status if obj.status.phase else replace(obj.status, phase="Pending")
            spec = completed_spec(obj.spec, obj.metadata.labels)
            done = replace(obj, spec=spec, status=status)
        case api.NodeObject() if obj.status.allocatable is None and obj.status.capacity is not None:
            done = replace(obj, status=replace(obj.status, allocatable=obj.status.capacity))
        case api.ResourceQuota() if obj.status.hard is None:
            done = replace(obj, status=replace(obj.status, hard=obj.spec.hard))
        case api.QueueObject() if not obj.status.state:
            done = replace(obj, status=replace(obj.status, state="Open"))
    return done  # type: ignore[return-value]


def completed_spec(spec: api.PodSpec, labels: Mapping[str, str] | None) -> api.PodSpec:
    """The spec of a pod with these labels as an API server keeps it.

    Limits are requests too, ports on the host's network are host ports, and label keys of affinity terms select.
    """
    containers, first = (_completed(given, spec.host_network) for given in (spec.containers, spec.init_containers))
    affinity = _selecting(spec.affinity, labels or {}) if spec.affinity is not None else None
    if containers is spec.containers and first is spec.init_containers and affinity == spec.affinity:
        return spec
    return replace(spec, containers=containers, init_containers=first, affinity=affinity)


def _completed(containers: tuple[api.Container, ...] | None, on_host: bool) -> tuple[api.Container, ...] | None:
    if not any(_limited(one) or (on_host and one.ports) for one in containers or ()):
        return containers
    return tuple(_on_host(_container(one)) if on_host else _container(one) for one in containers or ())


def _on_host(container: api.Container) -> api.Container:
    ports = tuple(replace(port, host_port=port.host_port or port.container_port) for port in container.ports or ())
    return replace(container, ports=ports)


def _selecting(affinity: api.Affinity, labels: Mapping[str, str]) -> api.Affinity:
    """The affinity whose terms select by the pod's own values of the label keys that they name."""

    def term(given: api.PodAffinityTerm) -> api.PodAffinityTerm:
        rules = (("In", given.match_label_keys), ("NotIn", given.mismatch_label_keys))
        own = [
            api.Requirement(key=key, operator=operator, values=(labels[key],))
            for operator, keys in rules
            for key in keys or ()
            if key in labels
        ]
        selector = given.label_selector
        known = selector.match_expressions or () if selector is not None else ()
        new = tuple(one for one in own if one not in known)
        if selector is None or not new:
            return given
        return replace(given, label_selector=replace(selector, match_expressions=(*known, *new)))

    def side(given: api.PodAffinity | None) -> api.PodAffinity | None:
        if given is None:
            return None
        preferred = given.preferred and tuple(
            replace(one, pod_affinity_term=term(one.pod_affinity_term)) for one in given.preferred
        )
        return replace(given, required=given.required and tuple(map(term, given.required)), preferred=preferred)

    return replace(
        affinity, pod_affinity=side(affinity.pod_affinity), pod_anti_affinity=side(affinity.pod_anti_affinity)
    )


def _limited(container: api.Container) -> bool:
    return container.resources is not None and bool(container.resources.limits)


def _container(container: api.Container) -> api.Container:
    given = container.resources
    if given is None or not given.limits:
        return container
    requests = {**given.limits, **(given.requests or {})}
    return replace(container, resources=replace(given, requests=requests))


def _without_namespace(obj: T) -> T:
    return replace(obj, metadata=replace(obj.metadata, namespace="")) if obj.metadata.namespace else obj


JOB: Final = "Job"
EXPANDED_ELSEWHERE: Final = frozenset(
    (
        *("CronJob", "DaemonSet", "Deployment", "JAXJob", "JobSet", "LeaderWorkerSet", "MPIJob", "Notebook"),
        *("PodCliqueSet", "PyTorchJob", "RayCluster", "RayJob", "RayService", "ReplicaSet", "ReplicationController"),
        *("SparkApplication", "StatefulSet", "TFJob", "TrainJob", "Workflow", "XGBoostJob"),
    )
)
"""Workloads of which a controller of their own makes pods."""
CONFIGURATIONS: Final = frozenset(("SchedulingShard", "Config"))


class Placed(NamedTuple):
    """An object and where it stands: ``jobs.yaml:12``."""

    object: api.AnyObject
    place: str


@dataclass(slots=True)
class Manifests:
    """The contents of manifest files, in their order."""

    objects: list[Placed] = field(default_factory=list)
    """The objects that a scheduler reads, completed as an API server does."""
    jobs: list[ManifestDocument] = field(default_factory=list)
    """Jobs of Volcano and of Kubernetes, as they stand there."""
    unread: set[str] = field(default_factory=set)
    """Kinds that nothing here reads."""


def read(paths: Sequence[Path]) -> Manifests:
    """Everything that files and directories hold. A document that is no object (a scheduler conf, say) is skipped.

    :raises InvalidInput: a path that does not exist, or a document that breaks a rule; names file and line.
    """
    return _read(documents(paths))


def parse(text: str, name: str) -> Manifests:
    """Everything that a text of YAML or JSON holds; *name* is what it is called in what is said about it.

    :raises InvalidInput: a document that breaks a rule; names the line.
    """
    return _read(documents_of_text(text, name))


def unread_words(kinds: Iterable[str]) -> list[str]:
    """Return what is said about kinds that were left out, and what to do, a line for each case."""
    left = sorted(kinds)
    workloads = [kind for kind in left if kind in EXPANDED_ELSEWHERE]
    confs = [kind for kind in left if kind in CONFIGURATIONS]
    others = [kind for kind in left if kind not in EXPANDED_ELSEWHERE and kind not in CONFIGURATIONS]
    lines = []
    if workloads:
        lines.append(
            f"pods of {', '.join(workloads)} are made by a controller, so these objects were left out; give the pods "
            "and PodGroups that it made (kubectl get pods,podgroups -o yaml)"
        )
    if confs:
        lines.append(f"{', '.join(confs)} is a configuration and was left out; pass a SchedulingShard with --conf")
    if others:
        lines.append(f"ignored, for a scheduler does not read them: {', '.join(others)}")
    return lines


def _read(listed: Iterable[ManifestDocument]) -> Manifests:
    found = Manifests()
    for document in listed:
        kind = document.kind
        if kind == JOB:
            found.jobs.append(document)
        elif api.class_of(kind, document.data) is not None:
            try:
                found.objects.append(Placed(completed(api.decode(kind, document.data)), document.place))
            except (InvalidInput, RecursionError) as exc:
                raise InvalidInput(f"{document.place}: {exc}") from exc
        elif kind:
            found.unread.add(kind)
        elif "metadata" in document.data:
            raise InvalidInput(f"{document.place}: an object must say its kind")
    return found
