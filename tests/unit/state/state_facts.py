"""What a state holds and counts, to be compared with another that was told the same in another way."""

from __future__ import annotations

from pumice.model.api import AnyObject
from pumice.model.status import TaskStatus
from pumice.state.cluster import ClusterState
from pumice.testing import job, node, queue

BASE: list[AnyObject] = [
    *(queue("default"), queue("other"), node("n1", cpu=64, gpu=8), node("n2", cpu=64, gpu=8)),
    *(
        group
        for name, where in (("a", "default"), ("b", "other"), ("lost", "nowhere"))
        for group in job(name, tasks=0, queue=where)
    ),
]


def facts(state: ClusterState) -> dict[str, object]:
    table = state.table
    size = table.size
    return {
        "nodes": {n.name: (n.idle, n.used, sorted(n.tasks)) for n in state.nodes.values()},
        "counts": (table.pod_count[:size].tolist(), table.nonzero_requested[:, :size].tolist(), table.in_flux),
        "jobs": {
            j.uid: (
                j.version > 0,
                j.allocated,
                j.held,
                j.total_request,
                {s: sorted(j.with_status(s)) for s in TaskStatus},
            )
            for j in state.jobs.values()
        },
        "roles": {j.uid: dict(j._role_counts) for j in state.jobs.values()},
        "queues": {q.name: (q.allocated, q.held, q.pending, sorted(q.waiting)) for q in state.queues.values()},
        "namespaces": {n.name: {d: v for d, v in n._allocated.items() if v} for n in state.namespaces.values()},
        "used": {d: v for d, v in state.used_total.items() if v},
        "devices": {t.key: t.devices for t in state.tasks.values()},
        "said": {t.key: (t.role, t.priority, t.preemptable, t.job_key) for t in state.tasks.values()},
        "orphans": {n: sorted(t) for n, t in state.orphans.items()},
    }
