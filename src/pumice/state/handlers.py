"""The function that applies each kind of event to the state."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pumice.errors import InvalidInput, shown
from pumice.model import native
from pumice.model.api import AnyObject, NodeObject, Pod, PodGroup, PriorityClass, QueueObject, ResourceQuota
from pumice.model.resources import EMPTY, Resources, TooManyNames
from pumice.state.classes import Feature
from pumice.state.groups import (
    group_gone,
    group_seen,
    member_seen,
    queue_gone,
    queue_seen,
    reprioritise,
    workload_seen,
)
from pumice.state.nodes import node_gone, node_seen
from pumice.state.pods import pod_gone, pod_seen
from pumice.state.writing import replace, take

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

log = logging.getLogger("pumice.state")


def seen(state: ClusterState, obj: AnyObject) -> None:
    """An object was added or changed. A rule it breaks is remembered as a problem of that object."""
    if state.problems:
        state.problems.pop((obj.kind_name, obj.key), None)
        state.unnamed.pop((obj.kind_name, obj.key), None)
    try:
        _TAKEN_BY.get(obj.__class__, _kin_seen)(state, obj)
    except InvalidInput as exc:
        state.problems[obj.kind_name, obj.key] = str(exc)
        if isinstance(exc, TooManyNames):
            state.unnamed[obj.kind_name, obj.key] = obj
    except Exception as exc:  # whatever one object holds is that object's problem, and nobody else's
        state.problems[obj.kind_name, obj.key] = f"cannot be taken in: {type(exc).__name__}: {shown(str(exc))}"
        log.exception("%s %s cannot be taken in", obj.kind_name, obj.key)
    kind, versions = obj.kind_name, state.versions
    versions[kind] = versions.get(kind, 0) + 1


def _pod_seen(state: ClusterState, pod: Pod) -> None:
    pod_seen(state, pod)
    if pod.spec.scheduling_group is not None:
        member_seen(state, pod)


def _kin_seen(state: ClusterState, obj: AnyObject) -> None:
    """An object of a class that was made of one of those below, as another dialect has them; or that is only kept."""
    for cls, take_in in _TAKEN_BY.items():
        if isinstance(obj, cls):
            take_in(state, obj)
            return
    other_seen(state, obj)


def gone(state: ClusterState, kind: str, key: str) -> None:
    """An object left. Unknown ones are ignored: a removal may be told twice."""
    match kind:
        case "Pod":
            pod_gone(state, key)
        case "Node":
            node_gone(state, key)
        case "PodGroup" | native.POD_GROUP:
            group_gone(state, key, kind)
        case "Queue":
            queue_gone(state, key)
        case _:
            other_gone(state, kind, key)
    if state.problems:
        state.problems.pop((kind, key), None)
        state.unnamed.pop((kind, key), None)
    state.versions[kind] = state.versions.get(kind, 0) + 1


_TAKEN_BY: Final[dict[type[AnyObject], Callable[[ClusterState, Any], None]]] = {
    Pod: _pod_seen,
    NodeObject: node_seen,
    PodGroup: group_seen,
    QueueObject: queue_seen,
}
"""The function for each class of objects."""


def other_seen(state: ClusterState, obj: AnyObject) -> None:
    """An object that is only kept, or that changes priorities or quotas."""
    state.kind(obj.kind_name)[obj.key] = obj
    if isinstance(obj, PriorityClass):
        reprioritise(state)
    elif obj.kind_name == native.WORKLOAD:
        workload_seen(state, obj.key)
    elif obj.kind_name == "DeviceClass":
        state.classes.features.add(Feature.DEVICE_CLASSES)
    elif isinstance(obj, ResourceQuota):
        for what in (obj.spec.hard, obj.status.hard, obj.status.used):
            Resources.parse(what) if what else EMPTY
        replace(state.namespace(obj.metadata.namespace).quotas, obj.metadata.name, obj)


def other_gone(state: ClusterState, kind: str, key: str) -> None:
    """An object that was only kept left."""
    state.kind(kind).pop(key, None)
    if kind == "PriorityClass":
        reprioritise(state)
    elif kind == native.WORKLOAD:
        workload_seen(state, key)
    elif kind == "ResourceQuota":
        namespace, _, name = key.partition("/")
        take(state.namespace(namespace).quotas, name, None)
