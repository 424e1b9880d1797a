"""PodGroups on the server: the one a job should have, and how it gets there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pumice.errors import InvalidInput
from pumice.kube.controllers.hand import Hand
from pumice.kube.controllers.objects import GROUPS, VcJob
from pumice.model.api import Metadata, NetworkTopology, PodGroup, ResourceList, to_data
from pumice.model.dimensions import give_back, worth_a_look
from pumice.model.request import asked_by
from pumice.model.resources import Resources
from pumice.workloads.grouping import EqualPods, job_group, least_resources, resource_list
from pumice.workloads.vcjob import Role, template_of


def group_key(job: VcJob) -> str:
    """Where the PodGroup of a job is found. The uid keeps jobs of one name apart."""
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


async def create_group(hand: Hand, group: PodGroup, owners: Sequence[dict[str, Any]]) -> bytes | None:
    """Create a PodGroup; None if there is one of its name."""
    data = to_data(group)
    data.pop("status", None)
    data["metadata"]["ownerReferences"] = list(owners)
    data["spec"].setdefault("minMember", group.spec.min_member)
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", **data}
    return await hand.create(GROUPS, group.metadata.namespace, body)


async def mend_group(hand: Hand, wanted: PodGroup, known: PodGroup) -> None:
    """Bring a PodGroup up to date with its job; what others wrote into it stays."""
    patch = changes(wanted, known)
    if patch:
        patch.setdefault("metadata", {})["uid"] = known.metadata.uid
        await hand.patch(GROUPS, known.key, patch)


def changes(wanted: PodGroup, known: PodGroup) -> dict[str, Any]:
    """What must be patched so that *known* says what is wanted; nothing if it does."""
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
