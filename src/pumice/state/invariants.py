"""Invariants: sums are the sums of their parts, no node is over-committed by us, no gang is half bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from pumice.model.gpu import DEVICE
from pumice.model.resources import Number, dim_name
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

S = TaskStatus

# The counts of each status, written a second time: a check against the ledger's own table would find nothing.
_NODE: Final = {
    "idle": dict.fromkeys((S.ALLOCATED, S.BINDING, S.BOUND, S.RUNNING, S.RELEASING, S.UNKNOWN), -1),
    "used": dict.fromkeys((S.ALLOCATED, S.BINDING, S.BOUND, S.RUNNING, S.RELEASING, S.UNKNOWN), 1),
    "releasing": {S.RELEASING: 1},
    "pipelined": {S.PIPELINED: 1},
}
_JOB: Final = {
    "_allocated": {S.ALLOCATED, S.BINDING, S.BOUND, S.RUNNING},
    "_held": {S.ALLOCATED, S.BINDING, S.BOUND, S.RUNNING, S.PIPELINED},
    "_pending": {S.PENDING},
    "_total": set(S),
}
_QUEUE: Final = ("_allocated", "_held", "_pending")


def violations(state: ClusterState) -> list[str]:
    """Every broken law, as text; empty when all is well. Cost: a look at everything."""
    return [*_ledgers(state), *_sums(state), *_indexes(state), *_devices(state)]


def over_committed(state: ClusterState) -> list[str]:
    """Nodes on which more is used than can be had."""
    table = state.table
    bad = np.argwhere(table.idle[:, : table.size] < 0)
    out = []
    for d, row in bad.tolist():
        node = table.nodes[row]
        if node is not None:
            out.append(f"node {node.name}: {dim_name(d)} is over-committed by {-int(table.idle[d, row])}")
    return out


def _ledgers(state: ClusterState) -> list[str]:
    table = state.table
    out = []
    for node in table.by_name.values():
        want = {name: dict[int, int]() for name in _NODE}
        pods = 0
        for task in node.tasks.values():
            if task.node is not node:
                out.append(f"node {node.name}: lists {task.key}, which is on {task.node_name or 'no node'}")
            pods += not task.evicted
            for name, times in _NODE.items():
                for d, v in task.klass.items:
                    want[name][d] = want[name].get(d, 0) + times.get(task.status, 0) * v
        for name, sums in want.items():
            for d in node._dims | set(sums):
                base = int(table.allocatable[d, node.row]) if name == "idle" else 0
                have = int(getattr(table, name)[d, node.row])
                if have != base + sums.get(d, 0):
                    out.append(
                        f"node {node.name}: {name} {dim_name(d)} is {have}, its tasks make {base + sums.get(d, 0)}"
                    )
        if int(table.pod_count[node.row]) != pods:
            out.append(f"node {node.name}: pod count is {int(table.pod_count[node.row])}, it has {pods}")
    return out


def _sums(state: ClusterState) -> list[str]:
    out = []
    queues: dict[str, dict[str, dict[int, Number]]] = {}
    for job in state.jobs.values():
        for name, statuses in _JOB.items():
            want = _sum(task for task in job.tasks.values() if task.status in statuses)
            if not _same(getattr(job, name), want):
                out.append(f"job {job.uid}: {name[1:]} is {getattr(job, name)}, its tasks make {want}")
            if job.in_session and name in _QUEUE:
                total = queues.setdefault(job.queue, {}).setdefault(name, {})
                for d, amount in want.items():
                    total[d] = total.get(d, 0) + amount
    for queue in state.queues.values():
        for name in _QUEUE:
            want = queues.get(queue.name, {}).get(name, {})
            if not _same(getattr(queue, name), want):
                out.append(f"queue {queue.name}: {name[1:]} is {getattr(queue, name)}, its jobs make {want}")
    return out


def _sum(tasks: Iterable[Task]) -> dict[int, Number]:
    out: dict[int, Number] = {}
    for task in tasks:
        for d, v in task.klass.items:
            out[d] = out.get(d, 0) + v
    return out


def _indexes(state: ClusterState) -> list[str]:
    out = []
    leaving = {uid for uid, task in state.tasks.items() if task.job is not None and task.status is S.RELEASING}
    if state.leaving.keys() != leaving:
        out.append(f"leaving are {sorted(state.leaving)}, the tasks that are released {sorted(leaving)}")
    for job in state.jobs.values():
        for status in S:
            want = {uid for uid, t in job.tasks.items() if t.status is status}
            if set(job.with_status(status)) != want:
                out.append(f"job {job.uid}: index of {status.title} does not match its tasks")
        best_effort = sum(1 for t in job.tasks.values() if t.status is S.PENDING and t.best_effort)
        if job.pending_best_effort_count != best_effort:
            out.append(f"job {job.uid}: {job.pending_best_effort_count} best-effort tasks wait, right is {best_effort}")
    for namespace in state.namespaces.values():
        mine = (t for j in state.jobs.values() for t in j.tasks.values() if t.namespace == namespace.name)
        want_held = _sum(t for t in mine if t.status in _JOB["_allocated"])
        if not _same(namespace._allocated, want_held):
            out.append(f"namespace {namespace.name}: allocated is {namespace._allocated}, its tasks make {want_held}")
    for queue in state.queues.values():
        waiting = {uid for uid, job in queue.jobs.items() if job.with_status(S.PENDING)}
        if set(queue.waiting) != waiting:
            out.append(f"queue {queue.name}: {sorted(queue.waiting)} wait, right is {sorted(waiting)}")
    return out


def _devices(state: ClusterState) -> list[str]:
    out = []
    for (row, device), holders in state.devices.holders.items():
        held = int(state.devices.held[row, device])
        node = state.table.nodes[row]
        name = node.name if node is not None else f"row {row}"
        if held != sum(holders.values()):
            out.append(f"node {name}: device {device} holds {held}, its tasks make {sum(holders.values())}")
        if held > DEVICE:
            out.append(f"node {name}: device {device} is over-committed: {held} of {DEVICE}")
    return out


def _same(left: Mapping[int, Number], right: Mapping[int, Number]) -> bool:
    return all(left.get(d, 0) == right.get(d, 0) for d in left.keys() | right.keys())
