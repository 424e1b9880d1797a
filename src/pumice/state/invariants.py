"""What must always hold: sums are the sums of their parts, nothing is over-committed by us, no gang is half bound."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pumice.model.resources import Number, dim_name
from pumice.model.status import IS_ALLOCATED, IS_HELD, LEDGER, TaskStatus
from pumice.state.cluster import ClusterState

S = TaskStatus


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
        want = {name: dict[int, int]() for name in ("idle", "used", "releasing", "pipelined")}
        pods = 0
        for task in node.tasks.values():
            if task.node is not node:
                out.append(f"node {node.name}: lists {task.key}, which is on {task.node_name or 'no node'}")
            pods += not task.evicted
            for name, times in zip(want, LEDGER[task.status], strict=True):
                for d, v in task.klass.items:
                    want[name][d] = want[name].get(d, 0) + times * v
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
        allocated: dict[int, Number] = {}
        held: dict[int, Number] = {}
        pending: dict[int, Number] = {}
        for task in job.tasks.values():
            for d, v in task.klass.items:
                if IS_ALLOCATED[task.status]:
                    allocated[d] = allocated.get(d, 0) + v
                if IS_HELD[task.status]:
                    held[d] = held.get(d, 0) + v
                if task.status is S.PENDING:
                    pending[d] = pending.get(d, 0) + v
        sums: dict[str, dict[int, Number]] = {"_allocated": allocated, "_held": held, "_pending": pending}
        for name, want in sums.items():
            if not _same(getattr(job, name), want):
                out.append(f"job {job.uid}: {name[1:]} is {getattr(job, name)}, its tasks make {want}")
            if job.in_session:
                total = queues.setdefault(job.queue, {}).setdefault(name, {})
                for d, amount in want.items():
                    total[d] = total.get(d, 0) + amount
    for queue in state.queues.values():
        for name in ("_allocated", "_held", "_pending"):
            want = queues.get(queue.name, {}).get(name, {})
            if not _same(getattr(queue, name), want):
                out.append(f"queue {queue.name}: {name[1:]} is {getattr(queue, name)}, its jobs make {want}")
    return out


def _indexes(state: ClusterState) -> list[str]:
    out = []
    for job in state.jobs.values():
        for status in S:
            want = {uid for uid, t in job.tasks.items() if t.status is status}
            if set(job.with_status(status)) != want:
                out.append(f"job {job.uid}: index of {status.title} does not match its tasks")
    return out


def _devices(state: ClusterState) -> list[str]:
    out = []
    for (row, device), holders in state.devices.holders.items():
        held = int(state.devices.held[row, device])
        node = state.table.nodes[row]
        name = node.name if node is not None else f"row {row}"
        if held != sum(holders.values()):
            out.append(f"node {name}: device {device} holds {held}, its tasks make {sum(holders.values())}")
        if held > 1000:
            out.append(f"node {name}: device {device} is over-committed: {held} of 1000")
    return out


def _same(left: Mapping[int, Number], right: Mapping[int, Number]) -> bool:
    return all(left.get(d, 0) == right.get(d, 0) for d in left.keys() | right.keys())
