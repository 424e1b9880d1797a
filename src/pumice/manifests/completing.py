"""What a cluster fills in: namespaces, requests from limits, what nodes and quotas give, the first phases."""

from __future__ import annotations

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
            done = replace(obj, spec=completed_spec(obj.spec), status=status)
        case api.NodeObject() if obj.status.allocatable is None and obj.status.capacity is not None:
            done = replace(obj, status=replace(obj.status, allocatable=obj.status.capacity))
        case api.ResourceQuota() if obj.status.hard is None:
            done = replace(obj, status=replace(obj.status, hard=obj.spec.hard))
        case api.QueueObject() if not obj.status.state:
            done = replace(obj, status=replace(obj.status, state="Open"))
    return done  # type: ignore[return-value]


def completed_spec(spec: api.PodSpec) -> api.PodSpec:
    """The spec of a pod in which what is limited and not requested is requested."""
    containers, first = _requesting(spec.containers), _requesting(spec.init_containers)
    if containers is spec.containers and first is spec.init_containers:
        return spec
    return replace(spec, containers=containers, init_containers=first)


def _requesting(containers: tuple[api.Container, ...] | None) -> tuple[api.Container, ...] | None:
    if not any(_limited(container) for container in containers or ()):
        return containers
    return tuple(_container(container) for container in containers or ())


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
