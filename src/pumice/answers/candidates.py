"""Objects that are not there yet, made as an API server would have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from pumice.errors import InvalidInput
from pumice.model.api import AnyObject, Pod, PodGroup, with_namespace
from pumice.model.task import GROUP_ANNOTATION, group_named
from pumice.state.cluster import ClusterState
from pumice.state.groups import priority_of

MOST_PODS: Final = 10_000
"""Pods that are tried at once, at most."""


def candidates(state: ClusterState, objects: Iterable[AnyObject]) -> list[AnyObject]:
    """PodGroups and pods to be tried on a cluster, complete: PodGroups first, as somebody who submits them now.

    :raises InvalidInput: another kind, an object that is there already, a pod that nobody here would schedule.
    """
    stamp = datetime.fromtimestamp(state.now, UTC)
    groups: dict[str, AnyObject] = {}
    pods: dict[str, Pod] = {}
    for given in objects:
        if not isinstance(given, (PodGroup, Pod)):
            raise InvalidInput(
                f"{given.kind_name} {given.key}: only PodGroups, pods and the Jobs that they are made of can be tried"
            )
        obj = with_namespace(given, "default")
        name = f"{obj.kind_name} {obj.key}"
        into: Mapping[str, AnyObject] = groups if isinstance(obj, PodGroup) else pods
        there = state.jobs[obj.key].group if isinstance(obj, PodGroup) and obj.key in state.jobs else None
        if there is not None or obj.key in into or (isinstance(obj, Pod) and obj.key in state.task_by_key):
            raise InvalidInput(f"{name}: is there already; `pumice why` says how it stands")
        meta = replace(obj.metadata, uid=f"try:{obj.key}", creation_timestamp=stamp, deletion_timestamp=None)
        if isinstance(obj, PodGroup):
            groups[obj.key] = _group(obj, meta)
        else:
            pods[obj.key] = _pod(state, obj, meta)
    if len(pods) > MOST_PODS:
        raise InvalidInput(f"{len(pods)} pods: at most {MOST_PODS} can be tried at once")
    _complete(groups, pods.values())
    return [*groups.values(), *pods.values()]


def _group(obj: PodGroup, meta: object) -> PodGroup:
    return replace(obj, metadata=meta, status=type(obj.status)())


def _pod(state: ClusterState, obj: Pod, meta: object) -> Pod:
    spec, ours = obj.spec, state.scheduler_names
    if ours is not None and spec.scheduler_name not in ours:
        raise InvalidInput(
            f"Pod {obj.key}: its schedulerName is {spec.scheduler_name!r}, and only {' or '.join(sorted(ours))} is ours"
        )
    if spec.priority is None:
        spec = replace(spec, priority=priority_of(state, spec.priority_class_name))
    return replace(obj, metadata=meta, spec=replace(spec, node_name=""), status=type(obj.status)(phase="Pending"))


def _complete(groups: Mapping[str, AnyObject], pods: Iterable[Pod]) -> None:
    if not groups:
        raise InvalidInput("there is no PodGroup among what is to be tried, and no Job that one is made of")
    for pod in pods:
        group = group_named(pod.metadata.annotations, pod.spec)
        if f"{pod.metadata.namespace}/{group}" not in groups:
            said = f"PodGroup {group!r}, which is not among what is to be tried" if group else "no PodGroup"
            raise InvalidInput(f"Pod {pod.key}: names {said}, in the annotation {GROUP_ANNOTATION}")
