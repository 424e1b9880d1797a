"""The documented dialect, written from what plugins see: cores, MiB and whole units; read by `messages`."""

from __future__ import annotations

from typing import ClassVar, Final

from pumice.extender.answers import Json
from pumice.extender.dialects.dialect import HOLE, Dialect, Written, by_key, of_class
from pumice.extender.dialects.task_message import Ledger
from pumice.extender.gojson import numbers
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.resources import CPU, MEMORY, PODS, dim_name, unit
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

_MIB: Final = 2**20
_BITS: Final = {status.bit: status for status in TaskStatus}


class Documented(Dialect):
    """For services written from the documentation."""

    name: ClassVar[str] = "documented"
    understands: ClassVar[frozenset[str]] = frozenset({"documented", "both"})

    def task(self, task: Task) -> Json:
        job = task.job
        return {
            "uid": task.uid,
            "namespace": task.namespace,
            "name": task.name,
            "job": task.job_key,
            "queue": job.queue if job is not None else "",
            "role": task.role,
            "resources": of_class(task, self.name, lambda requests: amounts(requests, pods=False)),
            "priority": task.priority,
            "labels": task.labels,
            "annotations": task.annotations,
            "nodeName": task.node_name,
            "phase": task.status.title,
        }

    def named_task(self, uid: str, namespace: str, name: str, job: str = "", node: str = "", status: int = 1) -> Json:
        place = {"nodeName": node, "phase": _BITS[status].title}
        return {"uid": uid, "namespace": namespace, "name": name, "job": job, **place}

    def node_form(self, node: Node) -> Json:
        return {
            "name": node.name,
            "labels": node.labels,
            "annotations": node.annotations,
            "taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in node.taints],
            "allocatable": amounts(node.allocatable.amounts),
            "idle": HOLE,
            "used": HOLE,
        }

    def ledgers(self, node: Node) -> Json:
        return {"idle": amounts(node.idle.amounts), "used": amounts(node.used.amounts, zeros=False)}

    def named_node(self, name: str) -> Json:
        return {"name": name}

    def job(self, job: Job, written: Written, *, named: bool = False) -> Json:
        said: Json = {
            "uid": job.uid,
            "namespace": job.namespace,
            "name": job.name,
            "queue": job.queue,
            "minAvailable": job.min_available,
            "priority": job.priority,
        }
        if named:
            return {**said, "members": [self.named(task) for task in job.tasks.values()]}
        return {**said, "annotations": job.annotations, "members": [written.whole(task) for task in job.tasks.values()]}

    def queue(self, queue: Queue) -> Json:
        return {
            "name": queue.name,
            "weight": queue.weight,
            "capability": amounts(queue.capability.amounts, zeros=False),
            "deserved": amounts(queue.deserved.amounts, zeros=False),
            "guarantee": amounts(queue.guarantee.amounts, zeros=False),
            "allocated": amounts(queue.allocated.amounts),
            "state": queue.state,
        }

    def snapshot(self, state: ClusterState, written: Written) -> Json:
        return {
            "snapshot": {
                "jobs": [self.job(job, written) for job in by_key(state.session_jobs)],
                "nodes": [self.node(node, written) for node in by_key(state.table.by_name)],
                "queues": [self.queue(queue) for queue in by_key(state.queues)],
            }
        }


def amounts(held: Ledger, *, zeros: bool = True, pods: bool = True) -> dict[str, int | float]:
    """Amounts in cores, MiB and whole units, cpu and memory always among them; *zeros*: those of nothing too."""
    found: dict[str, int | float] = {"cpu": 0, "memory": 0}
    for d, value in held.items():
        if (value or zeros or d in (CPU, MEMORY)) and (pods or d != PODS):
            per = _MIB if d == MEMORY else unit(d)
            whole, rest = divmod(value, per)
            found[dim_name(d)] = int(whole) if rest == 0 else value / per
    return numbers(found)
