"""What the messages of all dialects share: names, ledgers, and pods with what is said of their tasks beside them.

Every dialect has structs of its own, as its JSON is. What they derive from their fields is under the same names
everywhere (``pod``, ``status``, ``node``, ``ledgers``, ``tasks``, ``group``, ``queue``, ``held``); *bare* is what
tells no more than names, and what stands beside them. Nothing else stands between them and what plugins see.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from pumice.errors import InvalidInput
from pumice.model import api
from pumice.model.dimensions import offered_dim, unit_of
from pumice.model.resources import LIMIT, is_counted
from pumice.model.status import TaskStatus
from pumice.model.task import GROUP_ANNOTATION, PREEMPTABLE_KEY, ROLE_KEY, group_named

Ledger = Mapping[int, int]
"""Amounts in the units of the ledgers, by dimension."""

DEFAULT_NAMESPACE: Final = "default"
STATUSES: Final = {status.title: status for status in TaskStatus}
_UNPLACED: Final = frozenset({TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.PIPELINED})


class Ledgers(NamedTuple):
    """What is free, taken, given back and promised on a node."""

    idle: Ledger
    used: Ledger
    releasing: Ledger = {}
    pipelined: Ledger = {}


def uid_of(pod: api.Pod) -> str:
    """The UID of a pod's task: its own, or ``namespace/name``."""
    return pod.metadata.uid or pod.key


def group_of(pod: api.Pod) -> str:
    """The UID of the job of a pod's task, or nothing."""
    group = group_named(pod.metadata.annotations, pod.spec)
    return f"{pod.metadata.namespace}/{group}" if group else ""


def named_pod(namespace: str, name: str, uid: str, group: str = "") -> api.Pod:
    """A pod of which only names are known."""
    notes = {GROUP_ANNOTATION: group} if group else None
    return api.Pod(
        metadata=api.Metadata(name=name, namespace=namespace or DEFAULT_NAMESPACE, uid=uid, annotations=notes)
    )


def complete_pod(
    pod: api.Pod,
    *,
    namespace: str,
    name: str,
    uid: str,
    job: str,
    role: str,
    annotations: Mapping[str, str],
    preemptable: bool,
    priority: int | None,
    node: str,
    status: TaskStatus,
) -> api.Pod:
    """The pod, with what the caller says of its task beside it; the pod itself where it says all that."""
    meta, spec = pod.metadata, pod.spec
    notes = dict(meta.annotations or {}) | dict(annotations)
    if group := job.partition("/")[2]:
        notes[GROUP_ANNOTATION] = group
    if role:
        notes.setdefault(ROLE_KEY, role)
    if not preemptable:
        notes.setdefault(PREEMPTABLE_KEY, "false")
    namespace, uid = namespace or meta.namespace or DEFAULT_NAMESPACE, uid or meta.uid
    if (meta.name, meta.namespace, meta.uid) != (name, namespace, uid) or notes != (meta.annotations or {}):
        meta = replace(meta, name=name, namespace=namespace, uid=uid, annotations=notes)
    if priority is not None and spec.priority != priority:
        spec = replace(spec, priority=priority)
    if node and status not in _UNPLACED and spec.node_name != node:
        spec = replace(spec, node_name=node)
    return pod if meta is pod.metadata and spec is pod.spec else replace(pod, metadata=meta, spec=spec)


def checked(thing: api.AnyObject) -> None:
    """Nothing, if the object has the names that it needs.

    :raises InvalidInput: it has none, or one with a slash.
    """
    meta, kind = thing.metadata, thing.kind_name
    for part in (meta.name, meta.namespace) if kind in ("Pod", "PodGroup") else (meta.name,):
        if not part or "/" in part:
            raise InvalidInput(f"{kind} {thing.key!r}: must have names, and no slash in them")


def ledger(amounts: Mapping[str, int | float], per_unit: Mapping[str, int], usual: int) -> dict[int, int]:
    """Amounts in ledger units, of the names that are counted; *per_unit* of the caller's (else *usual*) make one as
    written in a manifest.

    :raises InvalidInput: one that no machine has and that sums could not hold.
    """
    found: dict[int, int] = {}
    for name, amount in amounts.items():
        if not is_counted(name):
            continue
        scaled = amount * unit_of(name) // per_unit.get(name, usual)
        if not -LIMIT < scaled < LIMIT:
            raise InvalidInput(f"amount of {name}: must be below {LIMIT} in ledger units, got {amount}")
        found[offered_dim(name)] = int(scaled)
    return found


def less(left: Ledger, right: Ledger) -> dict[int, int]:
    """The difference, dimension by dimension."""
    return {d: left.get(d, 0) - right.get(d, 0) for d in left.keys() | right.keys()}


def named_group(group: api.PodGroup, namespace: str, name: str, queue: str) -> api.PodGroup:
    """The pod group under the name, and in the queue, that its job is said to have.

    :raises InvalidInput: no name, or one with a slash.
    """
    meta, namespace = group.metadata, namespace or DEFAULT_NAMESPACE
    if (meta.namespace, meta.name) != (namespace, name):
        group = replace(group, metadata=replace(meta, namespace=namespace, name=name))
    if queue and group.spec.queue != queue:
        group = replace(group, spec=replace(group.spec, queue=queue))
    checked(group)
    return group
