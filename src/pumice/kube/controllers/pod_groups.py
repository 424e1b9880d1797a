"""PodGroups on the server: the one a job should have, and how it gets there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pumice.errors import InvalidInput
from pumice.kube.controllers.store import GROUPS, PODS, OwnedPod, Owner, Store, VcJob
from pumice.kube.controllers.work import WorkQueue
from pumice.kube.kinds import Resource
from pumice.kube.writer import ApiWriter, all_of
from pumice.model.api import AnyObject, Metadata, NetworkTopology, PodGroup, ResourceList, to_data
from pumice.model.codes import ReasonCode
from pumice.model.intents import Note
from pumice.model.request import asked_by
from pumice.model.resources import Resources, give_back, worth_a_look
from pumice.model.task import GROUP_ANNOTATION
from pumice.workloads.grouping import OWN_GROUP, EqualPods, job_group, least_resources, own_group, resource_list
from pumice.workloads.vcjob import Role, template_of


def group_key(job: VcJob) -> str:
    """The place of a job's PodGroup. The uid keeps jobs of one name apart."""
    return f"{job.key}-{job.metadata.uid}"


def group_of(job: VcJob, roles: Sequence[Role], minimum: int, priority: Callable[[str], int]) -> PodGroup:
    """The PodGroup that a job should have: the job's labels and annotations go to it."""
    give_names_back()
    parts = []
    for role in roles:
        spec = template_of(role.task).spec
        request, _, _ = asked_by(spec)
        parts.append(EqualPods(role.replicas, role.minimum, request, priority(spec.priority_class_name)))
    meta, topology = job.metadata, job.spec.network_topology
    return job_group(
        Metadata(
            name=f"{meta.name}-{meta.uid}",
            namespace=meta.namespace,
            labels=dict(meta.labels or {}),
            annotations={
                k: v for k, v in (meta.annotations or {}).items() if not k.startswith("kubectl.kubernetes.io/")
            },
        ),
        minimum=minimum,
        role_minimums={role.name: role.minimum for role in roles},
        resources=resource_list(least_resources(parts, minimum)),
        queue=job.spec.queue or "default",
        priority_class=job.spec.priority_class_name,
        topology=msgspec.convert(topology, NetworkTopology) if topology else None,
    )


def give_names_back() -> None:
    """Forget names of resources that nothing mentions; at any time, because there are no tables of nodes here."""
    if worth_a_look():
        give_back()


async def create_group(writer: ApiWriter, group: PodGroup, owners: Sequence[dict[str, Any]]) -> bytes | None:
    """Create a PodGroup; None if there is one of its name."""
    data = to_data(group)
    data.pop("status", None)
    data["metadata"]["ownerReferences"] = list(owners)
    data["spec"].setdefault("minMember", group.spec.min_member)
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", **data}
    return await writer.create_object(GROUPS, group.metadata.namespace, body)


async def mend_group(writer: ApiWriter, wanted: PodGroup, known: PodGroup) -> None:
    """Bring a PodGroup up to date with its job; what others wrote into it stays."""
    patch = changes(wanted, known)
    if patch:
        patch.setdefault("metadata", {})["uid"] = known.metadata.uid
        await writer.merge(GROUPS, known.key, patch)


def changes(wanted: PodGroup, known: PodGroup) -> dict[str, Any]:
    """The patch that makes *known* equal to the wanted object; empty if it is equal."""
    spec: dict[str, Any] = {}
    if wanted.spec.min_member != known.spec.min_member:
        spec["minMember"] = wanted.spec.min_member
    roles, before = wanted.spec.min_task_member or {}, known.spec.min_task_member or {}
    if roles != before:
        spec["minTaskMember"] = {**dict.fromkeys(before), **roles}
    amounts, had = wanted.spec.min_resources or {}, known.spec.min_resources or {}
    if not _equal(amounts, had):
        spec["minResources"] = {**dict.fromkeys(had), **amounts}
    if wanted.spec.queue != (known.spec.queue or "default"):
        spec["queue"] = wanted.spec.queue
    if wanted.spec.priority_class_name != known.spec.priority_class_name:
        spec["priorityClassName"] = wanted.spec.priority_class_name
    meta = {
        field: missing
        for field, new, old in (
            ("labels", wanted.metadata.labels, known.metadata.labels),
            ("annotations", wanted.metadata.annotations, known.metadata.annotations),
        )
        if (missing := {k: v for k, v in (new or {}).items() if (old or {}).get(k) != v})
    }
    return {**({"spec": spec} if spec else {}), **({"metadata": meta} if meta else {})}


def _equal(one: ResourceList, other: ResourceList) -> bool:
    try:
        return dict(Resources.parse(one).items()) == dict(Resources.parse(other).items())
    except InvalidInput:
        return False


_OWNERS = {
    ("apps/v1", "ReplicaSet"): Resource("ReplicaSet", "/apis/apps/v1", "replicasets"),
    ("apps/v1", "StatefulSet"): Resource("StatefulSet", "/apis/apps/v1", "statefulsets"),
    ("apps/v1", "DaemonSet"): Resource("DaemonSet", "/apis/apps/v1", "daemonsets"),
    ("batch/v1", "Job"): Resource("Job", "/apis/batch/v1", "jobs"),
}
"""Owners whose annotations are asked for; others are not looked at."""


EMPTY = 10.0
"""Seconds for which a PodGroup stays when it has no pods any more: those of a StatefulSet are replaced one by one."""


class LoosePodController:
    """Puts pods of our scheduler that nobody grouped into PodGroups, one for all pods of an owner."""

    def __init__(
        self, store: Store, writer: ApiWriter, say: Callable[[Note, str], None], *, schedulers: frozenset[str]
    ) -> None:
        self._store, self._writer, self._say, self._schedulers = store, writer, say, schedulers
        self._empty: dict[str, float] = {}
        """PodGroups without pods, and since when on the loop's clock."""
        self.queue = WorkQueue("podgroup", self.look)
        store.listen(self._changed)

    def concerns(self, pod: OwnedPod) -> bool:
        """Whether a pod is ours and has no group."""
        return not pod.grouped and self._is_ours(pod)

    def _is_ours(self, pod: OwnedPod) -> bool:
        over = pod.status.phase in ("Succeeded", "Failed") or pod.metadata.deletion_timestamp is not None
        return not over and pod.job is None and pod.spec.scheduler_name in self._schedulers

    def follows(self, pod: OwnedPod) -> bool:
        """Whether it matters that a pod is there: it is to get a group, or is in one that goes with its pods."""
        return self.concerns(pod) or (pod.job is None and pod.in_own_group)

    def _changed(self, obj: AnyObject) -> None:
        match obj:
            case OwnedPod() if obj.job is None:
                self.queue.add(f"{obj.metadata.namespace}/{obj.own_group}")
            case PodGroup() if _is_made(obj):
                self.queue.add(obj.key)

    async def look(self, key: str) -> None:
        """See that a group exists while it has pods, and that those which belong to it say so."""
        pods = self._store.pods_in(key)
        group = self._store.group(key)
        if pods or group is None:
            self._empty.pop(key, None)
        if not pods and group is not None and _is_made(group):
            await self._tidy(group)
        ours = [pod for pod in pods if self._is_ours(pod)]
        if ours and group is None:
            await self._make(ours[0])
        loose = [pod for pod in ours if not pod.grouped]
        note = {GROUP_ANNOTATION: key.partition("/")[2]}
        await all_of(
            self._writer.merge(PODS, pod.key, {"metadata": {"uid": pod.metadata.uid, "annotations": note}})
            for pod in loose
        )

    async def _tidy(self, group: PodGroup) -> None:
        """Delete a group that has no pods, unless it had some a moment ago."""
        now = asyncio.get_running_loop().time()
        left = self._empty.setdefault(group.key, now) + EMPTY - now
        if left > 0:
            self.queue.add(group.key, left)
            return
        await self._writer.delete(GROUPS, group.key, group.metadata.uid)
        self._empty.pop(group.key, None)

    async def _make(self, pod: OwnedPod) -> None:
        meta, above = pod.metadata, await self._inherited(pod)
        give_names_back()
        namespace = self._store.namespace_notes(meta.namespace)
        group, problem = own_group(meta, pod.spec, pod.own_group, above, namespace)
        if problem:
            self._say(Note("Pod", pod.key, "Warning", ReasonCode.POD_GROUP_ERROR, problem), meta.uid)
        await create_group(self._writer, group, _owners(pod))

    async def _inherited(self, pod: OwnedPod) -> dict[str, str]:
        """The annotations of whoever owns the pod; the first owner's word counts."""
        said: dict[str, str] = {}
        for owner in pod.metadata.owner_references or ():
            resource = _OWNERS.get((owner.api_version, owner.kind))
            if resource is not None:
                found = await self._writer.read_object(resource, f"{pod.metadata.namespace}/{owner.name}")
                said = {**(((found or {}).get("metadata") or {}).get("annotations") or {}), **said}
        return said


def _is_made(group: PodGroup) -> bool:
    """Whether a group was made for the pods of one owner, and is called after it."""
    name = group.metadata.name
    return any(
        owner.controller and name == f"{OWN_GROUP}{owner.uid}" for owner in group.metadata.owner_references or ()
    )


def _owners(pod: OwnedPod) -> list[dict[str, Any]]:
    """The group goes when the pod's owner goes, or with a bare pod."""
    if pod.metadata.controller is not None:
        return [msgspec.to_builtins(owner) for owner in pod.metadata.owner_references or ()]
    own = Owner(
        api_version="v1",
        kind="Pod",
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    return [msgspec.to_builtins(own)]
