"""Queues and clusters as Volcano's Go code sends them, and the list of all its objects."""

from __future__ import annotations

from typing import Final

import msgspec

from pumice.extender.wire import from_kube, to_kube
from pumice.extender.wire.documented_objects import DocGpu, read_gpu, write_gpu
from pumice.extender.wire.forms import Form, Forms
from pumice.extender.wire.gojson import sorted_map
from pumice.extender.wire.gostructs import GoJob, GoNode, GoQueue, GoSnapshot, GoTask
from pumice.extender.wire.objects import WireGpu, WireJob, WireNode, WireQueue, WireSnapshot, WireTask
from pumice.extender.wire.volcano_jobs import read_job, write_job
from pumice.extender.wire.volcano_tasks import read_node, read_task, write_node, write_task


def read_queue(queue: GoQueue) -> WireQueue:
    """The queue that Volcano sent."""
    return msgspec.structs.replace(
        from_kube.queue_from_queue(queue.Queue),
        name=queue.Name,
        weight=queue.Weight,
        hierarchy=queue.Hierarchy,
        hierarchy_weights=queue.Weights,
    )


def write_queue(queue: WireQueue) -> GoQueue:
    """The queue as Volcano would send it."""
    return GoQueue(
        UID=queue.name,
        Name=queue.name,
        Weight=queue.weight,
        Weights=queue.hierarchy_weights,
        Hierarchy=queue.hierarchy,
        Queue=to_kube.queue_of(queue),
    )


def read_snapshot(snapshot: GoSnapshot) -> WireSnapshot:
    """The cluster that Volcano sent."""
    return WireSnapshot(
        jobs=[read_job(job) for job in (snapshot.Jobs or {}).values()],
        nodes=[read_node(node) for node in (snapshot.Nodes or {}).values()],
        queues=[read_queue(queue) for queue in (snapshot.Queues or {}).values()],
        namespaces=snapshot.NamespaceInfo or {},
        revocable_nodes=list(snapshot.RevocableNodes or ()),
    )


def write_snapshot(snapshot: WireSnapshot) -> GoSnapshot:
    """The cluster as Volcano would send it."""
    nodes = {node.name: write_node(node) for node in snapshot.nodes}
    return GoSnapshot(
        Jobs=sorted_map({job.uid: write_job(job) for job in snapshot.jobs}),
        Nodes=sorted_map(nodes),
        Queues=sorted_map({queue.name: write_queue(queue) for queue in snapshot.queues}),
        NamespaceInfo=sorted_map(snapshot.namespaces),
        RevocableNodes={name: nodes[name] for name in sorted(snapshot.revocable_nodes) if name in nodes},
    )


FORMS: Final[Forms] = {
    WireTask: Form(GoTask, read_task, write_task),
    WireNode: Form(GoNode, read_node, write_node),
    WireJob: Form(GoJob, read_job, write_job),
    WireQueue: Form(GoQueue, read_queue, write_queue),
    WireSnapshot: Form(GoSnapshot, read_snapshot, write_snapshot, inline=True),
    WireGpu: Form(DocGpu, read_gpu, write_gpu),
}
"""Every kind of object as Volcano sends it; devices, which it does not send, are as documented."""
