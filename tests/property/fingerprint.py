"""Everything about a state that a decision could depend on, as plain data that can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pumice.model.resources import Number, dim_name
from pumice.model.status import TaskStatus
from pumice.state.cluster import ClusterState

LEDGERS = ("allocatable", "capacity", "idle", "used", "releasing", "pipelined", "evicted")


def fingerprint(state: ClusterState) -> dict[str, Any]:
    """The state's ledgers, sums, indexes and places, by name. Row numbers, logs and version counters decide nothing."""
    table = state.table
    return {
        "nodes": {
            name: (
                *(sums(dict(enumerate(getattr(table, ledger)[:, node.row].tolist()))) for ledger in LEDGERS),
                table.nonzero_requested[:, node.row].tolist(),
                int(table.pod_count[node.row]),
                int(table.max_pods[node.row]),
                bool(table.unschedulable[node.row]),
                dict(node.labels),
                sorted(node.tasks),
            )
            for name, node in sorted(state.nodes.items())
        },
        "devices": {uid: t.devices for uid, t in sorted(state.tasks.items()) if t.devices},
        "in flux": table.in_flux,
        "tasks": {
            uid: (t.status.title, t.node_name, t.evicted, t.priority, t.job.uid if t.job else "")
            for uid, t in sorted(state.tasks.items())
        },
        "jobs": {
            uid: (
                sums(job.allocated.amounts),
                sums(job.held.amounts),
                sums(job.pending.amounts),
                sums(job.total_request.amounts),
                [sorted(job.with_status(s)) for s in TaskStatus],
                {role: list(counts) for role, counts in job._role_counts.items() if any(counts)},
                job.pending_best_effort_count,
                job.in_session,
                job.phase,
            )
            for uid, job in sorted(state.jobs.items())
        },
        "queues": {
            name: (
                sums(q.allocated.amounts),
                sums(q.held.amounts),
                sums(q.pending.amounts),
                sorted(q.waiting),
                sorted(q.jobs),
            )
            for name, q in sorted(state.queues.items())
        },
        "namespaces": {
            name: sums(n.allocated.amounts) for name, n in state.namespaces.items() if sums(n.allocated.amounts)
        },
        "orphans": {name: sorted(tasks) for name, tasks in sorted(state.orphans.items()) if tasks},
        "total": sums(state.total),
        "used": sums(state.used_total),
    }


def sums(held: Mapping[int, Number]) -> dict[str, Number]:
    """A sum by name, without the names of which there is nothing."""
    return {dim_name(d): v for d, v in held.items() if v}
