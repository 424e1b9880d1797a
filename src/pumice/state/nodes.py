"""Nodes come, change and go: rows of the table and what stands on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.errors import InvalidInput
from pumice.model import keys
from pumice.model.api import NodeObject
from pumice.model.mapping import labels_of
from pumice.model.resources import PODS, Resources
from pumice.model.status import TaskStatus
from pumice.state.devices import MOST_DEVICES
from pumice.state.writing import unsealed

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

S = TaskStatus


def node_seen(state: ClusterState, obj: NodeObject) -> None:
    """A node was added or changed."""
    base = Resources.parse_offered(obj.status.allocatable)
    allocatable = _allocatable(obj, base)
    written = obj.status.capacity
    capacity = allocatable
    if written:
        capacity = base if written == obj.status.allocatable else Resources.parse_offered(written)
    table = state.table
    table.ensure_width()
    name = obj.metadata.name
    node = table.by_name.get(name)
    new = node is None
    if node is None:
        node = table.add(name)
    row = node.row
    previous = node.object if not new else None
    for d in node._dims | allocatable.dims():
        before, after = int(table.allocatable[d, row]), int(allocatable.get(d))
        if before != after:
            table.allocatable[d, row] = after
            table.idle[d, row] += after - before
            _offer(state, d, after - before)
        table.capacity[d, row] = int(capacity.get(d))
    table.max_pods[row] = int(allocatable.get(PODS))
    offered = node._dims
    with unsealed(node):
        node._dims = frozenset(allocatable.dims() | capacity.dims() | {PODS})
        node.object = obj
        node.labels, node.annotations = labels_of(obj.metadata.labels), labels_of(obj.metadata.annotations)
        node.taints = tuple(obj.spec.taints or ())
    table.unschedulable[row] = obj.spec.unschedulable
    table.set_labels(row, node.labels)
    table.set_taints(row, node.taints)
    if state.devices.set_node(node) > MOST_DEVICES and node.gpus > MOST_DEVICES:
        state.problems["Node", name] = (
            f"it offers {node.gpus:g} GPUs, more than the {MOST_DEVICES} that are counted one by one: "
            f"{MOST_DEVICES} of them are used"
        )
    if previous is None or _node_facts(previous) != _node_facts(obj):
        table.changed.add(row)
        table.touched.add(row)
    if new:
        for task in list(state.orphans.pop(name, {}).values()):
            state.set_status(task, task.status, node)
    if state.unnamed and not node._dims <= offered:
        state.name_again()


def _offer(state: ClusterState, d: int, more: int) -> None:
    """All nodes together offer so much more of a resource; of what none offers nothing is remembered."""
    now = state.total.get(d, 0) + more
    if now:
        state.total[d] = now
    else:
        state.total.pop(d, None)


def _node_facts(obj: NodeObject) -> tuple[object, ...]:
    return (obj.metadata.labels, obj.metadata.annotations, obj.spec, obj.status.allocatable, obj.status.images)


def _allocatable(obj: NodeObject, base: Resources) -> Resources:
    """What tasks can have, the oversubscribed part included."""
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
    for d in node._dims:
        _offer(state, d, -int(state.table.allocatable[d, node.row]))
    state.devices.clear_node(node.row)
    state.table.remove(node)
