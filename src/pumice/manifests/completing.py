"""What a cluster fills in: namespaces, requests from limits, what nodes and quotas give, the first phases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from msgspec.structs import replace

from pumice.errors import InvalidInput
from pumice.model import api

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
