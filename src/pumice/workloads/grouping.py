"""PodGroups: what the group of a job looks like, and that of pods which nobody put into one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pumice.errors import InvalidInput, shown
from pumice.model import kai, keys
from pumice.model.api import Metadata, NetworkTopology, PodGroup, PodGroupSpec, PodGroupStatus, PodSpec, ResourceList
from pumice.model.quantity import whole_number
from pumice.model.request import asked_by
from pumice.model.resources import PODS, Resources, amount_text, dim_name

QUEUE_ANNOTATION = keys.QUEUE_ANNOTATION
MIN_MEMBER_ANNOTATION = keys.MIN_MEMBER_ANNOTATION
INHERITED = "volcano.sh/"
"""Annotations of an owner whose names begin so go to the group of its pods."""
_FROM_POD = (
    *(keys.PREEMPTABLE_KEY, keys.REVOCABLE_ZONE, keys.COOLDOWN_TIME),
    *(keys.JDB_MIN_AVAILABLE, keys.JDB_MAX_UNAVAILABLE),
)
_LABELS_FROM_POD = (keys.PREEMPTABLE_KEY, keys.COOLDOWN_TIME)
_TOPOLOGY_MODE, _TOPOLOGY_TIER = keys.TOPOLOGY_MODE, keys.TOPOLOGY_TIER


def job_group(
    metadata: Metadata,
    *,
    minimum: int,
    role_minimums: dict[str, int] | None,
    resources: ResourceList | None,
    queue: str,
    priority_class: str,
    topology: NetworkTopology | None = None,
) -> PodGroup:
    """The PodGroup of a job, new: labels and annotations of the job belong into *metadata*."""
    return PodGroup(
        metadata=metadata,
        spec=PodGroupSpec(
            min_member=minimum,
            min_task_member=role_minimums,
            min_resources=resources,
            queue=queue,
            priority_class_name=priority_class,
            network_topology=topology,
        ),
        status=PodGroupStatus(phase="Pending"),
    )


OWN_GROUP = "podgroup-"
"""How the names of PodGroups begin that are made for pods of others than vcjobs."""


def resource_list(resources: Resources) -> ResourceList:
    """Resources as a manifest writes them; the number of pods is left out."""
    return {dim_name(d): amount_text(d, v) for d, v in sorted(resources.items()) if v and d != PODS}


def own_group(
    meta: Metadata, spec: PodSpec, name: str, above: Mapping[str, str], namespace: Mapping[str, str] | None = None
) -> tuple[PodGroup, str]:
    """The PodGroup of a pod that names none, and what is wrong with its annotations, or nothing.

    *above*: the annotations of its owners; *namespace*: those of its namespace.
    """
    notes, labels, problem = meta.annotations or {}, meta.labels or {}, ""
    least, topology = 1, None
    try:
        least = least_members(above)
        topology = group_topology({**above, **notes})
    except InvalidInput as exc:
        problem = str(exc)
    request, _, _ = asked_by(spec)
    group = job_group(
        Metadata(
            name=name,
            namespace=meta.namespace,
            labels=group_labels(labels),
            annotations=group_annotations(notes, above),
        ),
        minimum=least,
        role_minimums=None,
        resources=resource_list(least_resources([EqualPods(least, least, request)], least)),
        queue=pod_queue(notes, above, namespace) or labels.get(keys.KAI_QUEUE_LABEL) or "default",
        priority_class=spec.priority_class_name,
        topology=topology,
    )
    return group, problem


@dataclass(frozen=True, slots=True)
class EqualPods:
    """Equal pods of a job: how many, how many of them must run, and what each asks for."""

    replicas: int
    minimum: int
    request: Resources
    priority: int = 0


def least_resources(parts: Sequence[EqualPods], least: int) -> Resources:
    """The sum of requests of the first *least* pods, the most important first.

    If *least* covers the minimums of all parts, these pods come first, and then the others.
    """
    total = Resources({})
    ordered = sorted(parts, key=lambda part: -part.priority)
    sure = [min(p.minimum, p.replicas) for p in ordered]
    if least < sum(sure):
        sure = [0] * len(ordered)
    left = least - sum(sure)
    for part, count in zip(ordered, sure, strict=True):
        more = min(left, part.replicas - count)
        left -= more
        for _ in range(count + more):
            total = total + part.request
    return total


def least_members(annotations: Mapping[str, str]) -> int:
    """How many pods of an owner must run together: one, unless its annotation says more.

    :raises InvalidInput: the annotation is no whole number.
    """
    text = annotations.get(MIN_MEMBER_ANNOTATION, "1")
    return _whole_number(MIN_MEMBER_ANNOTATION, text)


def _whole_number(name: str, text: str) -> int:
    number = whole_number(text, most=2**31 - 1)
    if number is None:
        raise InvalidInput(f"annotation {name}: must be a whole number, got {shown(text)} (0 to 2147483647)")
    return number


KAI_SCHEDULER = "kai-scheduler"
_OF_KAI = "kai.scheduler/"


def is_grouped_by_kai(spec: PodSpec, *said: Mapping[str, str] | None) -> bool:
    """Report whether KAI's pod grouper makes the PodGroup: KAI's scheduler, or a label or annotation of it is named."""
    return spec.scheduler_name == KAI_SCHEDULER or any(key.startswith(_OF_KAI) for each in said for key in each or ())


def kai_group(name: str, owner: Metadata, pod: Metadata, spec: PodSpec) -> kai.KaiPodGroup:
    """The PodGroup that KAI's pod grouper makes for the pods of an owner; *owner* is the pod itself if it has none.

    The owner's word counts before the pod's. Labels and annotations of the owner, and so its node pool, are inherited.

    :raises InvalidInput: the minimum is no whole number.
    """
    labels, notes = (owner.labels or {}, pod.labels or {}), (owner.annotations or {}, pod.annotations or {})

    def first(said: tuple[Mapping[str, str], ...], key: str) -> str:
        return next((found for each in said if (found := each.get(key, ""))), "")

    above = notes[0]
    level = kai.TopologyConstraint(
        topology=above.get(keys.KAI_TOPOLOGY, ""),
        required_topology_level=above.get(keys.KAI_TOPOLOGY_REQUIRED, ""),
        preferred_topology_level=above.get(keys.KAI_TOPOLOGY_PREFERRED, ""),
    )
    return kai.KaiPodGroup(
        api_version=kai.POD_GROUP_VERSION,
        metadata=Metadata(name=name, namespace=pod.namespace, labels=owner.labels, annotations=owner.annotations),
        spec=kai.KaiPodGroupSpec(
            min_member=_whole_number(keys.KAI_MIN_MEMBER, above.get(keys.KAI_MIN_MEMBER, "1")),
            queue=first(labels, keys.KAI_QUEUE_LABEL) or kai.KAI_QUEUE,
            priority_class_name=first(labels, keys.KAI_PRIORITY_LABEL) or spec.priority_class_name or kai.TRAIN,
            topology_constraint=level if level.topology else None,
            preemptibility=first(labels, keys.PREEMPTIBILITY_LABEL),
            preemption_delay=first(notes, keys.KAI_PREEMPTION_DELAY),
            staleness_grace_period=first(notes, keys.KAI_STALENESS_GRACE),
        ),
        status=PodGroupStatus(phase="Pending"),
    )


def pod_queue(*annotations: Mapping[str, str] | None) -> str:
    """The queue that the first of these names (the pod's, its owner's, its namespace's); nothing if none does."""
    return next((found for said in annotations if (found := (said or {}).get(QUEUE_ANNOTATION, ""))), "")


def group_annotations(pod: Mapping[str, str], owner: Mapping[str, str]) -> dict[str, str]:
    """The inherited values of a pod's group: the pod's own value wins over its owner's."""
    return {**{k: v for k, v in owner.items() if k.startswith(INHERITED)}, **_chosen(pod, _FROM_POD)}


def group_labels(pod: Mapping[str, str]) -> dict[str, str]:
    """Labels of a pod that its group carries too."""
    return _chosen(pod, _LABELS_FROM_POD)


def group_topology(annotations: Mapping[str, str]) -> NetworkTopology | None:
    """The network topology that annotations ask for.

    :raises InvalidInput: the highest tier is no whole number.
    """
    mode, tier = annotations.get(_TOPOLOGY_MODE, ""), annotations.get(_TOPOLOGY_TIER, "")
    if not mode and not tier:
        return None
    highest = _whole_number(_TOPOLOGY_TIER, tier) if tier else None
    return NetworkTopology(mode=mode or "hard", highest_tier_allowed=highest)


def _chosen(said: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    return {key: said[key] for key in keys if key in said}
