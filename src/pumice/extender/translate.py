"""From what plugins see (tasks, nodes, jobs, queues) to what messages speak of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from pumice.extender.wire.amounts import scale
from pumice.extender.wire.objects import (
    Amounts,
    Json,
    WireGpu,
    WireJob,
    WireNode,
    WireQueue,
    WireSnapshot,
    WireSubJob,
    WireTaint,
    WireTask,
)
from pumice.model import api
from pumice.model.job import Job, SubJob, parse_bool
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.resources import CPU, MEMORY, PODS, Resources, dim_name, unit
from pumice.model.status import TaskStatus
from pumice.model.task import PREEMPTABLE_KEY, Task
from pumice.state.cluster import ClusterState

_ALWAYS: Final = {"cpu": 0, "memory": 0}


def amounts(resources: Resources) -> Amounts:
    """A vector in the base units of messages, cpu and memory always among them."""
    told: Amounts = dict(_ALWAYS)
    for dimension, value in resources.items():
        name = dim_name(dimension)
        told[name] = value * (scale(name) // unit(dimension))
    return told


def wire_task(task: Task) -> WireTask:
    """A task as it stands now."""
    job = task.job
    return WireTask(
        uid=task.uid,
        namespace=task.namespace,
        name=task.name,
        job=task.job_key,
        queue=job.queue if job is not None else "",
        role=task.role,
        requests=_requests(task),
        priority=task.priority,
        labels=dict(task.labels),
        annotations=dict(task.annotations),
        node_name=task.node_name,
        status=task.status.title,
        preemptable=task.preemptable,
        best_effort=task.best_effort,
        gated=task.gated,
        creation=_stamp(task.creation),
        pod=_pod(task),
    )


def _pod(task: Task) -> Json:
    """The task's pod; as in Volcano it names its node from the moment it is placed."""
    pod = _json(task.pod)
    if task.status in (TaskStatus.ALLOCATED, TaskStatus.BINDING) and task.node is not None:
        pod["spec"] = {**pod.get("spec", {}), "nodeName": task.node_name}
    return pod


def named_task(task: Task) -> WireTask:
    """A task by its names and its place alone."""
    return WireTask(
        uid=task.uid,
        namespace=task.namespace,
        name=task.name,
        job=task.job_key,
        node_name=task.node_name,
        status=task.status.title,
    )


def wire_node(node: Node, *, whole: bool = True) -> WireNode:
    """A node as it stands now; an imagined one as it would stand. Not *whole*: only what the documentation names."""
    brief = WireNode(
        name=node.name,
        labels=dict(node.labels),
        annotations=dict(node.annotations),
        taints=[WireTaint(key=taint.key, value=taint.value, effect=taint.effect) for taint in node.taints],
        unschedulable=node.unschedulable,
        allocatable=amounts(node.allocatable),
        idle=amounts(node.idle),
        used=_told(node.used),
    )
    if not whole:
        return brief
    return msgspec.structs.replace(
        brief,
        capacity=amounts(node.capacity),
        releasing=_told(node.releasing),
        pipelined=_told(node.pipelined),
        max_pods=int(node.allocatable.get(PODS)),
        tasks=[wire_task(task) for task in node.tasks.values()],
        node=_json(node.object),
    )


def wire_job(job: Job) -> WireJob:
    """A job with its tasks as it stands now."""
    return WireJob(
        uid=job.uid,
        namespace=job.namespace,
        name=job.name,
        queue=job.queue,
        min_available=job.min_available,
        role_minimums=dict(job.role_minimums),
        priority=job.priority,
        labels=dict(job.labels),
        annotations=dict(job.annotations),
        tasks=[wire_task(task) for task in job.tasks.values()],
        preemptable=parse_bool(job.annotations.get(PREEMPTABLE_KEY, job.labels.get(PREEMPTABLE_KEY, ""))),
        phase=job.phase,
        min_resources=amounts(job.min_resources) if job.min_resources is not None else None,
        allocated=amounts(job.allocated),
        requested=amounts(job.total_request),
        creation=_stamp(job.creation),
        sub_jobs=[_wire_sub_job(sub_job) for sub_job in job.sub_jobs.values()],
        pod_group=_json(job.group) if job.group is not None else None,
        extra={"PgUID": job.group.metadata.uid} if job.group is not None and job.group.metadata.uid else {},
    )


def named_job(job: Job) -> WireJob:
    """A job by its names, with the places of its tasks."""
    return WireJob(
        uid=job.uid,
        namespace=job.namespace,
        name=job.name,
        queue=job.queue,
        min_available=job.min_available,
        priority=job.priority,
        phase=job.phase,
        tasks=[named_task(task) for task in job.tasks.values()],
    )


def _wire_sub_job(sub_job: SubJob) -> WireSubJob:
    return WireSubJob(
        uid=sub_job.uid,
        group=sub_job.group,
        min_available=sub_job.min_available,
        priority=sub_job.priority,
        match_index=sub_job.match_index,
        task_uids=sorted(sub_job.tasks),
    )


def wire_queue(queue: Queue) -> WireQueue:
    """A queue with what its tasks hold now."""
    return WireQueue(
        name=queue.name,
        weight=queue.weight,
        priority=queue.priority,
        parent=queue.object.spec.parent,
        reclaimable=queue.reclaimable,
        capability=_told(queue.capability),
        deserved=_told(queue.deserved),
        guarantee=_told(queue.guarantee),
        allocated=amounts(queue.allocated),
        state=queue.state,
        hierarchy=queue.annotations.get("volcano.sh/hierarchy", ""),
        hierarchy_weights=queue.annotations.get("volcano.sh/hierarchy-weights", ""),
        labels=dict(queue.labels),
        annotations=dict(queue.annotations),
        creation=_stamp(queue.creation),
        queue=_queue(queue),
    )


def _queue(queue: Queue) -> Json:
    """The queue's object, with the two empty objects that Go writes."""
    thing = _json(queue.object)
    thing["spec"] = {"guarantee": {}, **thing.get("spec", {})}
    thing["status"] = {"reservation": {}, **thing.get("status", {})}
    return thing


def wire_snapshot(state: ClusterState, *, whole: bool = True) -> WireSnapshot:
    """The cluster as a session sees it, sorted by name. *whole*: see ``wire_node``."""
    quotas = state.kind("ResourceQuota").values()
    namespaces: Json = {}
    for quota in quotas:
        entry = namespaces.setdefault(quota.metadata.namespace, {"Name": quota.metadata.namespace, "QuotaStatus": {}})
        entry["QuotaStatus"][quota.metadata.name] = _json(quota).get("status", {})
    return WireSnapshot(
        jobs=[wire_job(job) for _, job in sorted(state.session_jobs.items())],
        nodes=[wire_node(node, whole=whole) for _, node in sorted(state.table.by_name.items())],
        queues=[wire_queue(queue) for _, queue in sorted(state.queues.items())],
        namespaces=namespaces,
    )


def wire_gpus(node: Node) -> list[WireGpu]:
    """The devices of a node by index."""
    return [WireGpu(index=str(index)) for index in range(int(node.gpus))]


def _requests(task: Task) -> Amounts:
    told = amounts(task.requests)
    told.pop("pods", None)
    return told


def _told(resources: Resources) -> Amounts:
    """As ``amounts``, without what is zero."""
    return {
        name: value * (scale(name) // unit(dimension))
        for dimension, value in resources.items()
        if value or dimension in (CPU, MEMORY)
        for name in (dim_name(dimension),)
    }


def _json(thing: api.AnyObject) -> Json:
    """The object as an API server would send it, less what no scheduler reads."""
    return api.to_data(thing)


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else ""
