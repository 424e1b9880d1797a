"""Nodes come, change and go: rows of the table and what stands on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from pumice.errors import InvalidInput
from pumice.model import keys
from pumice.model.api import NodeObject
from pumice.model.mapping import labels_of
from pumice.model.node import Node
from pumice.model.resources import PODS, Resources
from pumice.model.status import TaskStatus
from pumice.state.devices import MOST_DEVICES, devices_offered
from pumice.state.writing import find, unsealed

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

S = TaskStatus


def node_seen(state: ClusterState, obj: NodeObject) -> None:
    """A node was added or changed."""
    offer = _read_offer(state, obj)
    table = state.table
    table.ensure_width()
    name = obj.metadata.name
    known: Node | None = find(table.by_name, name)
    node = known if known is not None else table.add(name)
    row, previous = node.row, node.object
    gone = node._dims - offer.dims
    _offer(state, table.offer(row, (*((d, 0, 0) for d in gone), *offer.amounts) if gone else offer.amounts))
    table.max_pods[row] = offer.allocatable.get(PODS)
    offered = node._dims
    with unsealed(node) as draft:
        draft._dims = offer.dims
        draft.object = obj
        draft.labels, draft.annotations = labels_of(obj.metadata.labels), labels_of(obj.metadata.annotations)
        draft.taints = tuple(obj.spec.taints or ())
    table.unschedulable[row] = obj.spec.unschedulable
    table.set_labels(row, node.labels)
    table.set_taints(row, node.taints)
    state.devices.set_node(node, *offer.devices)
    if offer.devices[0] > MOST_DEVICES and node.gpus > MOST_DEVICES:
        state.problems["Node", name] = (
            f"it offers {node.gpus:g} GPUs, more than the {MOST_DEVICES} that are counted one by one: "
            f"{MOST_DEVICES} of them are used"
        )
    if known is not None and _node_facts(previous) != _node_facts(obj):
        table.changed.add(row)
        table.touched.add(row)
    if known is None:
        for task in list(state.orphans.pop(name, {}).values()):
            state.set_status(task, task.status, node)
    if state.unnamed and not node._dims <= offered:
        state.name_again()


class NodeOffer(NamedTuple):
    """The amounts that a node offers."""

    allocatable: Resources
    amounts: tuple[tuple[int, int, int], ...]
    """For every resource that it names how much tasks can have, and how much the machine has."""
    dims: frozenset[int]
    devices: tuple[int, int]
    """GPUs, and the memory of shared ones."""


def _read_offer(state: ClusterState, obj: NodeObject) -> NodeOffer:
    """Return what a node offers, with what device classes add to it."""
    status, more = obj.status, state.class_offers.get(obj.metadata.name)
    base = Resources.parse_offered(status.allocatable)
    allocatable = _allocatable(obj, base)
    capacity = allocatable
    if status.capacity:
        capacity = base if status.capacity == status.allocatable else Resources.parse_offered(status.capacity)
    if more:
        devices = Resources.parse_offered({name: str(count) for name, count in more.items()})
        allocatable, capacity = allocatable + devices, capacity + devices
    dims = frozenset(allocatable.dims() | capacity.dims() | {PODS})
    amounts = tuple((d, int(allocatable.get(d)), int(capacity.get(d))) for d in dims)
    return NodeOffer(allocatable, amounts, dims, devices_offered(allocatable))


def offer_by_classes(state: ClusterState, offers: Mapping[str, Mapping[str, int]]) -> None:
    """Nodes offer so many of the resources that device classes stand for, beside what their objects say."""
    before, state.class_offers = state.class_offers, offers
    for name in sorted(before.keys() | offers.keys()):
        node = state.table.by_name.get(name)
        if node is not None and before.get(name) != offers.get(name):
            node_seen(state, node.object)


def _offer(state: ClusterState, grown: Iterable[tuple[int, int]]) -> None:
    """All nodes together offer so much more of resources; of what none offers nothing is remembered."""
    total = state.total
    for d, more in grown:
        now = total.get(d, 0) + more
        if now:
            total[d] = now
        else:
            total.pop(d, None)


def _node_facts(obj: NodeObject) -> tuple[object, ...]:
    return (obj.metadata.labels, obj.metadata.annotations, obj.spec, obj.status.allocatable, obj.status.images)


def _allocatable(obj: NodeObject, base: Resources) -> Resources:
    """The amounts that tasks can have, the oversubscribed part included."""
    notes = obj.metadata.annotations
    if not notes:
        return base
    extra = dict(base.items())
    for d, key in ((0, keys.OVERSUBSCRIPTION_CPU), (1, keys.OVERSUBSCRIPTION_MEMORY)):
        written = notes.get(key)
        if written is None:
            continue
        try:
            extra[d] = extra.get(d, 0) + int(float(written))
        except (ValueError, OverflowError):
            raise InvalidInput(
                f"node {obj.metadata.name!r}: annotation {key} must be a number, got {written!r}"
            ) from None
    return Resources(extra)


def node_gone(state: ClusterState, name: str) -> None:
    """A node left; its tasks are lost, not releasing, and count for their jobs until their pods go too."""
    node = state.table.by_name.get(name)
    if node is None:
        return
    for task in list(node.tasks.values()):
        if task.status in (S.ALLOCATED, S.BINDING, S.PIPELINED):
            state.assumed.pop(task.uid, None)
            state.set_status(task, S.PENDING, None)
        else:
            state.set_status(task, task.status, None)
            state.orphans.setdefault(name, {})[task.uid] = task
    _offer(state, [(d, -int(state.table.allocatable[d, node.row])) for d in node._dims])
    state.devices.clear_node(node.row)
    state.table.remove(node)
