"""PodGroups for pods that have none: bare pods, and those of Jobs, ReplicaSets, StatefulSets and DaemonSets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from pumice.errors import InvalidInput
from pumice.kube.controllers.groups import create_group, written
from pumice.kube.controllers.hand import Hand, all_of
from pumice.kube.controllers.objects import PODS, OwnedPod, Owner
from pumice.kube.controllers.store import Store
from pumice.kube.controllers.work import WorkQueue
from pumice.kube.kinds import AnyObject, Resource
from pumice.model.api import Metadata
from pumice.model.intents import Note
from pumice.model.request import pod_request
from pumice.model.task import GROUP_ANNOTATION
from pumice.workloads.grouping import (
    Part,
    group_annotations,
    group_labels,
    group_topology,
    job_group,
    least_members,
    least_resources,
    pod_queue,
)

_OWNERS = {
    ("apps/v1", "ReplicaSet"): Resource("ReplicaSet", "/apis/apps/v1", "replicasets"),
    ("apps/v1", "StatefulSet"): Resource("StatefulSet", "/apis/apps/v1", "statefulsets"),
    ("apps/v1", "DaemonSet"): Resource("DaemonSet", "/apis/apps/v1", "daemonsets"),
    ("batch/v1", "Job"): Resource("Job", "/apis/batch/v1", "jobs"),
}
"""Owners whose annotations are asked for; others are not looked at."""


class LoosePodController:
    """Puts pods of our scheduler that nobody grouped into PodGroups, one for all pods of an owner."""

    def __init__(
        self, store: Store, hand: Hand, say: Callable[[Note, str], None], *, schedulers: frozenset[str]
    ) -> None:
        self._store, self._hand, self._say, self._schedulers = store, hand, say, schedulers
        self._members: dict[str, set[str]] = {}
        self.queue = WorkQueue("podgroup", self.look)
        store.listen(self._changed)

    def concerns(self, pod: OwnedPod) -> bool:
        """Whether a pod is ours and has no group."""
        over = pod.status.phase in ("Succeeded", "Failed") or pod.metadata.deletion_timestamp is not None
        return not over and not pod.grouped and pod.job is None and pod.spec.scheduler_name in self._schedulers

    def _changed(self, obj: AnyObject) -> None:
        if isinstance(obj, OwnedPod) and self.concerns(obj) and self._store.pod(obj.key) is obj:
            key = f"{obj.metadata.namespace}/{_name(obj)}"
            self._members.setdefault(key, set()).add(obj.key)
            self.queue.add(key)

    async def look(self, key: str) -> None:
        """See that a group exists, and that the pods which belong to it say so."""
        members = self._members.pop(key, set())
        found = [pod for name in sorted(members) if (pod := self._store.pod(name)) is not None and self.concerns(pod)]
        pods = [pod for pod in found if f"{pod.metadata.namespace}/{_name(pod)}" == key]
        if not pods:
            return
        try:
            if self._store.group(key) is None:
                await self._make(pods[0])
            note = {GROUP_ANNOTATION: key.partition("/")[2]}
            await all_of(
                self._hand.patch(PODS, pod.key, {"metadata": {"uid": pod.metadata.uid, "annotations": note}})
                for pod in pods
            )
        except Exception:
            self._members.setdefault(key, set()).update(members)
            raise

    async def _make(self, pod: OwnedPod) -> None:
        meta = pod.metadata
        notes, above = meta.annotations or {}, await self._inherited(pod)
        request, _, _ = pod_request(pod.spec)
        least, topology = 1, None
        try:
            least = least_members(above)
            topology = group_topology({**above, **notes})
        except InvalidInput as exc:
            self._say(Note("Pod", pod.key, "Warning", "PodGroupError", str(exc)), meta.uid)
        group = job_group(
            Metadata(
                name=_name(pod),
                namespace=meta.namespace,
                labels=group_labels(meta.labels or {}),
                annotations=group_annotations(notes, above),
            ),
            minimum=least,
            role_minimums=None,
            resources=written(least_resources([Part(least, least, request)], least)),
            queue=pod_queue(notes, above, self._store.namespace_notes(meta.namespace)) or "default",
            priority_class=pod.spec.priority_class_name,
            topology=topology,
        )
        await create_group(self._hand, group, _owners(pod))

    async def _inherited(self, pod: OwnedPod) -> dict[str, str]:
        """The annotations of whoever owns the pod; the first owner's word counts."""
        said: dict[str, str] = {}
        for owner in pod.metadata.owner_references or ():
            resource = _OWNERS.get((owner.api_version, owner.kind))
            if resource is not None:
                found = await self._hand.read(resource, f"{pod.metadata.namespace}/{owner.name}")
                said = {**(((found or {}).get("metadata") or {}).get("annotations") or {}), **said}
        return said


def _name(pod: OwnedPod) -> str:
    """The group of a pod is called after its controller, else after the pod."""
    owner = pod.metadata.controller
    return f"podgroup-{owner.uid if owner is not None else pod.metadata.uid}"


def _owners(pod: OwnedPod) -> list[dict[str, Any]]:
    """The group goes when the pod's owner goes, or with a bare pod."""
    if pod.metadata.controller is not None:
        return [msgspec.to_builtins(owner) for owner in pod.metadata.owner_references or ()]
    own = Owner(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid)
    own.controller = own.block_owner_deletion = True
    return [msgspec.to_builtins(own)]
