"""Possible suppositions: other queues, more nodes, drained nodes, another conf. All callers share one form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from pumice.config.problems import nearest
from pumice.errors import InvalidInput, decoder_words, shown
from pumice.model import kai
from pumice.model.api import AnyObject, Guarantee, NodeObject, Pod, PodStatus, QueueObject, ResourceSlice
from pumice.model.events import Seen
from pumice.model.keys import HOSTNAME
from pumice.model.resources import Resources
from pumice.state.cluster import ClusterState
from pumice.words import counted

Quantities: TypeAlias = Annotated[
    dict[str, str | float | None], Meta(max_length=64, description="resource -> amount; null: no longer named")
]
"""Resource -> amount, as a manifest writes it; null: no longer named."""
ObjectName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=253)]


class QueueChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The changes of a queue; missing fields stay."""

    weight: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    deserved: Quantities = {}
    guarantee: Quantities = {}
    capability: Quantities = {}
    priority: Annotated[int, Meta(ge=-1_000_000_000, le=1_000_000_000)] | None = None
    reclaimable: bool | None = None


class MoreNodes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Empty nodes, like one that there is."""

    like: ObjectName
    count: Annotated[int, Meta(ge=1, le=1000)] = 1


class WhatIf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The supposition, and the job that is reported in any case."""

    queues: Annotated[
        dict[ObjectName, QueueChange], Meta(max_length=200, description="queue -> what is otherwise in it")
    ] = {}
    more: Annotated[list[MoreNodes], Meta(max_length=20, description="empty nodes that come")] = []
    drained: Annotated[
        list[ObjectName],
        Meta(max_length=200, description="nodes that take no pods any more; our pods there are placed anew"),
    ] = []
    conf: Annotated[
        str, Meta(max_length=65_536, description="another scheduler conf, as YAML; nothing: the one that decides")
    ] = ""
    job: Annotated[str, Meta(max_length=512, description="namespace/name of a job that is told of in any case")] = ""

    def check(self) -> None:
        """See that something is supposed.

        :raises InvalidInput: nothing is.
        """
        if not (self.queues or self.more or self.drained or self.conf.strip()):
            raise InvalidInput("nothing to change: name a queue, more nodes, a node to drain or another conf")


def read_what_if(data: object) -> WhatIf:
    """The supposition, from plain data.

    :raises InvalidInput: it breaks a rule; says which.
    """
    try:
        asked = msgspec.convert(data, WhatIf)
    except msgspec.ValidationError as exc:
        raise InvalidInput(f"what is supposed: {_blamed(data, exc)}") from exc
    asked.check()
    return asked


def _blamed(data: object, exc: msgspec.ValidationError) -> str:
    """A broken rule: its object, the value, and the rule."""
    queues = data.get("queues") if isinstance(data, dict) else None
    for name, change in queues.items() if isinstance(queues, dict) else ():
        for field, value in change.items() if isinstance(change, dict) else ():
            try:
                msgspec.convert({field: value}, QueueChange)
            except msgspec.ValidationError as wrong:
                return f"queue {name!r}: {field} {shown(value)}: {decoder_words(wrong).removeprefix(f'{field}: ')}"
    return decoder_words(exc)


OF_NODES: Final = ("CSINode", "Numatopology")
"""Kinds of objects that a node has, of its name."""
_KAI: Final = {"cpu": ("cpu", 1000.0), "memory": ("memory", 1e-6), "nvidia.com/gpu": ("gpu", 1.0)}
"""Resource -> KAI's field, and its unit."""


def suppose(state: ClusterState, asked: WhatIf) -> list[str]:
    """Let a cluster be what is supposed; returns it in words, a line each.

    :raises InvalidInput: a name, or an amount, that cannot be; says which.
    """
    said: list[str] = []
    for name, change in asked.queues.items():
        said += _change_queue(state, name, change)
    for more in asked.more:
        said.append(_add_nodes(state, more))
    for name in dict.fromkeys(asked.drained):
        said.append(_drain(state, name))
    return said


def there_is(kind: str, name: str, known: Mapping[str, Any]) -> str:
    """The message about a name without an object; empty if an object has it."""
    if name in known:
        return ""
    near = nearest(name, known)
    return f"no {kind} named {name!r}" + (f"; did you mean {near!r}?" if near else "")


def _must_be(kind: str, name: str, known: Mapping[str, Any]) -> None:
    if wrong := there_is(kind, name, known):
        raise InvalidInput(wrong)


def _see(state: ClusterState, obj: AnyObject) -> None:
    state.apply(Seen(obj))
    if wrong := state.problems.get((obj.kind_name, obj.key)):
        raise InvalidInput(f"{obj.kind_name} {obj.key}: {wrong}")


# -- queues ---------------------------------------------------------------------------------------------------------
def _change_queue(state: ClusterState, name: str, change: QueueChange) -> Iterator[str]:
    _must_be("queue", name, state.queues)
    old = state.queues[name].object
    for field in ("deserved", "guarantee", "capability"):
        for resource, amount in getattr(change, field).items():
            if amount is not None and _number(resource, amount) < 0:
                raise InvalidInput(f"queue {name}: {field} {resource}: must not be negative, got {amount}")
    new = _kai_queue(old, change) if isinstance(old, kai.KaiQueueObject) else _queue(old, change)
    _see(state, new)
    if state.queues[name].problem:
        raise InvalidInput(f"queue {name}: {state.queues[name].problem}")
    return _said_of(name, change, old, new)


def _said_of(name: str, change: QueueChange, old: QueueObject, new: QueueObject) -> Iterator[str]:
    for field in ("weight", "priority", "reclaimable"):
        if getattr(change, field) is not None:
            yield f"queue {name}: {field} {getattr(old.spec, field)} → {getattr(new.spec, field)}"
    for field in ("deserved", "guarantee", "capability"):
        for resource in getattr(change, field):
            was, now = (_written(_amounts(obj, field).get(resource)) for obj in (old, new))
            yield f"queue {name}: {field} {resource} {was} → {now}"


def _written(amount: str | float | None) -> str:
    return "none" if amount is None else amount if isinstance(amount, str) else f"{amount:g}"


def _amounts(obj: QueueObject, field: str) -> Mapping[str, Any]:
    if field == "guarantee":
        return (obj.spec.guarantee.resource if obj.spec.guarantee is not None else None) or {}
    return getattr(obj.spec, field) or {}


def _queue(old: QueueObject, change: QueueChange) -> QueueObject:
    fields: dict[str, Any] = {
        name: value for name in ("weight", "priority", "reclaimable") if (value := getattr(change, name)) is not None
    }
    for field in ("deserved", "guarantee", "capability"):
        given = getattr(change, field)
        if given:
            amounts = {**_amounts(old, field), **given}
            kept = {name: amount for name, amount in amounts.items() if amount is not None}
            fields[field] = (Guarantee(resource=kept) if field == "guarantee" else kept) if kept else None
    return replace(old, spec=replace(old.spec, **fields))


def _kai_queue(old: kai.KaiQueueObject, change: QueueChange) -> QueueObject:
    """In KAI's words: what a queue deserves is its quota, its capability a limit, its weight that of what is over."""
    if change.guarantee or change.reclaimable is not None:
        raise InvalidInput(f"queue {old.metadata.name}: KAI's queues have neither guarantee nor reclaimable")
    given = old.spec.resources or kai.QueueResources()
    for field, amounts in (("quota", change.deserved), ("limit", change.capability)):
        for resource, amount in amounts.items():
            if resource not in _KAI:
                raise InvalidInput(f"queue {old.metadata.name}: {resource}: KAI shares {', '.join(_KAI)} and no others")
            part, unit = _KAI[resource]
            units = -1.0 if amount is None else _number(resource, amount) * unit
            given = replace(given, **{part: replace(getattr(given, part), **{field: units})})
    if change.weight is not None:
        for part, _ in _KAI.values():
            given = replace(given, **{part: replace(getattr(given, part), over_quota_weight=float(change.weight))})
    spec = replace(old.spec, resources=given)
    return replace(old, spec=spec if change.priority is None else replace(spec, priority=change.priority))


def _number(resource: str, amount: str | float) -> float:
    return float(Resources.parse({resource: amount}).as_written().get(resource, 0.0))


# -- nodes ----------------------------------------------------------------------------------------------------------
def _add_nodes(state: ClusterState, more: MoreNodes) -> str:
    _must_be("node", more.like, state.nodes)
    like = state.nodes[more.like].object
    free = (f"{more.like}-more-{number}" for number in range(1, len(state.nodes) + more.count + 1))
    names = [name for name in free if name not in state.nodes][: more.count]
    for name in names:
        for obj in _copies(state, like, name):
            _see(state, obj)
    return f"{counted(more.count, 'more node')} like {more.like}"


def _copies(state: ClusterState, like: NodeObject, name: str) -> Iterator[AnyObject]:
    """A node as another was made, empty, with the objects that describe it."""
    meta = replace(like.metadata, name=name, uid=name, labels={**(like.metadata.labels or {}), HOSTNAME: name})
    yield replace(like, metadata=meta, spec=replace(like.spec, unschedulable=False))
    for kind in OF_NODES:
        known = state.kind(kind).get(like.metadata.name)
        if known is not None:
            yield replace(known, metadata=replace(known.metadata, name=name, uid=f"{kind}/{name}"))
    for key, known in list(state.kind("ResourceSlice").items()):
        if isinstance(known, ResourceSlice) and (known.spec or {}).get("nodeName") == like.metadata.name:
            spec = {**known.spec, "nodeName": name, "pool": {**(known.spec.get("pool") or {}), "name": name}}
            yield replace(known, metadata=replace(known.metadata, name=f"{key}-{name}", uid=f"{key}-{name}"), spec=spec)


def _drain(state: ClusterState, name: str) -> str:
    _must_be("node", name, state.nodes)
    node = state.nodes[name]
    ours = [task.pod for task in node.tasks.values() if task.job_key and not task.pod.metadata.deletion_timestamp]
    _see(state, replace(node.object, spec=replace(node.object.spec, unschedulable=True)))
    for pod in ours:
        state.apply(Seen(_anew(pod)))
    return f"node {name} drained; {counted(len(ours), 'pod')} must move"


def _anew(pod: Pod) -> Pod:
    """A pod as whoever owns it makes it again."""
    meta = replace(pod.metadata, uid=f"{pod.metadata.uid or pod.key}/anew")
    return replace(pod, metadata=meta, spec=replace(pod.spec, node_name=""), status=PodStatus(phase="Pending"))
