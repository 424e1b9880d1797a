"""Kubernetes objects in one line each: what a test's cluster is made of.

Every builder gives objects (`pumice.model.api`) that a `Scenario` or `session` takes in. Nothing is hidden: what is not
said here is left out of the object, as in a manifest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from pumice.errors import InvalidInput
from pumice.model.api import (
    AnyObject,
    Container,
    Metadata,
    NodeObject,
    NodeSpec,
    NodeStatus,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodSpec,
    PodStatus,
    PriorityClass,
    Quantity,
    QueueObject,
    QueueSpec,
    QueueStatus,
    ResourceRequirements,
    Taint,
)
from pumice.model.task import GROUP_ANNOTATION, PREEMPTABLE_KEY, ROLE_KEY

GPU = "nvidia.com/gpu"
_GROUP = re.compile(r"(?:(?P<count>\d+)\s*x\s*)?(?P<shape>[0-9a-zA-Z.+ ]+)")
_PART = re.compile(r"(?P<amount>\d+(?:\.\d+)?)\s*(?P<what>gpu|cpu|pods|Ki|Mi|Gi|Ti)")


def _list(**amounts: Quantity | None) -> dict[str, Quantity]:
    """A resource list; what is 0 or None is left out."""
    names = {"gpu": GPU}
    return {names.get(name, name): amount for name, amount in amounts.items() if amount not in (None, 0)}


def node(
    name: str,
    *,
    cpu: Quantity = 32,
    memory: Quantity = "256Gi",
    gpu: Quantity = 0,
    pods: Quantity = 110,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[str | Taint] = (),
    unschedulable: bool = False,
    resources: Mapping[str, Quantity] | None = None,
) -> NodeObject:
    """One node. A taint may be written ``key=value:effect``; *resources* adds any other resource name."""
    offered = {**_list(cpu=cpu, memory=memory, gpu=gpu, pods=pods), **(resources or {})}
    return NodeObject(
        metadata=Metadata(name=name, labels=dict(labels or {}), annotations=dict(annotations or {})),
        spec=NodeSpec(unschedulable=unschedulable, taints=tuple(_taint(t) for t in taints)),
        status=NodeStatus(allocatable=offered, capacity=dict(offered)),
    )


def _taint(written: str | Taint) -> Taint:
    if isinstance(written, Taint):
        return written
    rest, _, effect = written.rpartition(":")
    key, _, value = rest.partition("=")
    if not key or not effect:
        raise InvalidInput(f"taint {written!r}: must be written key=value:effect")
    return Taint(key=key, value=value, effect=effect)


def cluster(shape: str, *, prefix: str = "node", labels: Mapping[str, str] | None = None) -> list[NodeObject]:
    """Nodes from a short form: ``"3x8gpu"`` is three nodes of 8 GPUs, ``"2x16cpu+64Gi, 3x8gpu"`` two kinds.

    Missing keys of a group are those of `node`. Names count up from ``node-0``, padded so that they sort as they count.

    :raises InvalidInput: a group that cannot be read; the message names it.
    """
    offers: list[dict[str, Quantity]] = []
    for group in shape.split(","):
        match = _GROUP.fullmatch(group.strip())
        parts = [_PART.fullmatch(p.strip()) for p in match["shape"].split("+")] if match else [None]
        if match is None or not all(parts):
            raise InvalidInput(f"cluster {shape!r}: {group.strip()!r} must be written as in 3x8gpu or 2x16cpu+64Gi")
        offer: dict[str, Quantity] = {}
        for part in parts:
            if part is not None:
                amount, what = part["amount"], part["what"]
                offer["memory" if what.endswith("i") else what] = amount + what if what.endswith("i") else amount
        offers += [offer] * int(match["count"] or 1)
    width = len(str(len(offers) - 1))
    return [node(f"{prefix}-{n:0{width}}", labels=labels, **offer) for n, offer in enumerate(offers)]  # type: ignore[arg-type]


def pod(
    name: str,
    *,
    namespace: str = "default",
    group: str = "",
    cpu: Quantity = 1,
    memory: Quantity = 0,
    gpu: Quantity = 0,
    resources: Mapping[str, Quantity] | None = None,
    on: str = "",
    phase: str = "",
    role: str = "",
    priority: int | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: PodSpec | None = None,
    scheduler: str = "pumice",
) -> Pod:
    """One pod. With *on* it runs there; without *group* it belongs to no job; ``cpu=0`` alone asks for nothing.

    *spec* gives everything that has no argument here (selectors, affinities, tolerations); containers are added to it.
    """
    asked = {**_list(cpu=cpu, memory=memory, gpu=gpu), **(resources or {})}
    notes = dict(annotations or {})
    if group:
        notes[GROUP_ANNOTATION] = group
    if role:
        notes[ROLE_KEY] = role
    made = replace(
        PodSpec() if spec is None else spec,
        containers=(Container(name="main", resources=ResourceRequirements(requests=asked)),),
        node_name=on,
        priority=priority,
        scheduler_name=scheduler,
    )
    return Pod(
        metadata=Metadata(name=name, namespace=namespace, labels=dict(labels or {}), annotations=notes),
        spec=made,
        status=PodStatus(phase=phase or ("Running" if on else "Pending")),
    )


def job(
    name: str,
    *,
    tasks: int = 1,
    min_available: int | None = None,
    namespace: str = "default",
    queue: str = "default",
    priority: int | None = None,
    preemptible: bool | None = None,
    on: str | Sequence[str] = (),
    phase: str = "",
    min_resources: Mapping[str, Quantity] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    task_labels: Mapping[str, str] | None = None,
    task_annotations: Mapping[str, str] | None = None,
    cpu: Quantity = 1,
    memory: Quantity = 0,
    gpu: Quantity = 0,
    resources: Mapping[str, Quantity] | None = None,
    role: str = "",
    spec: PodSpec | None = None,
) -> list[AnyObject]:
    """A PodGroup and its pods ``<name>-0``, ``<name>-1``, …; all of them are needed unless *min_available* says less.

    *on*: the first tasks run on these nodes (one name: all of them do). *priority* brings its PriorityClass along.
    *labels* and *annotations* go on the PodGroup, *task_labels* and *task_annotations* on the pods.
    """
    places = [on] * tasks if isinstance(on, str) and on else list(on)
    notes = dict(annotations or {})
    if preemptible is not None:
        notes[PREEMPTABLE_KEY] = str(preemptible).lower()
    group = PodGroup(
        metadata=Metadata(name=name, namespace=namespace, labels=dict(labels or {}), annotations=notes),
        spec=PodGroupSpec(
            min_member=tasks if min_available is None else min_available,
            min_resources=dict(min_resources) if min_resources is not None else None,
            queue=queue,
            priority_class_name="" if priority is None else f"priority-{priority}",
        ),
        status=PodGroupStatus(phase=phase or ("Running" if places else "Pending")),
    )
    objects: list[AnyObject] = [] if priority is None else [priority_class(f"priority-{priority}", priority)]
    objects.append(group)
    for n in range(tasks):
        objects.append(
            pod(
                f"{name}-{n}",
                namespace=namespace,
                group=name,
                cpu=cpu,
                memory=memory,
                gpu=gpu,
                resources=resources,
                on=places[n] if n < len(places) else "",
                role=role,
                priority=priority,
                labels=task_labels,
                annotations=task_annotations,
                spec=spec,
            )
        )
    return objects


def queue(
    name: str,
    *,
    weight: int = 1,
    priority: int = 0,
    parent: str = "",
    capability: Mapping[str, Quantity] | None = None,
    deserved: Mapping[str, Quantity] | None = None,
    reclaimable: bool | None = None,
    dequeue_strategy: str = "",
) -> QueueObject:
    """One open queue."""
    return QueueObject(
        metadata=Metadata(name=name),
        spec=QueueSpec(
            weight=weight,
            priority=priority,
            parent=parent,
            capability=dict(capability) if capability is not None else None,
            deserved=dict(deserved) if deserved is not None else None,
            reclaimable=reclaimable,
            dequeue_strategy=dequeue_strategy,
        ),
        status=QueueStatus(state="Open"),
    )


def priority_class(name: str, value: int, *, default: bool = False) -> PriorityClass:
    """One priority class."""
    return PriorityClass(metadata=Metadata(name=name), value=value, global_default=default)
