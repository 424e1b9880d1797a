"""It does not matter whether a pod is first seen running, or waiting and then running."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import force_setattr

from pumice.model.api import AnyObject, Pod
from pumice.model.events import Seen
from pumice.model.status import TaskStatus
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice.testing import job, node, pod, queue

BASE: list[AnyObject] = [
    *(queue("default"), queue("other"), node("n1", cpu=64, gpu=8), node("n2", cpu=64, gpu=8)),
    *(
        group
        for name, where in (("a", "default"), ("b", "other"), ("lost", "nowhere"))
        for group in job(name, tasks=0, queue=where)
    ),
]


@st.composite
def running(draw: st.DrawFn, number: int) -> Pod:
    return pod(
        f"p-x-{number}",
        group=draw(st.sampled_from(["a", "b", "lost", "unknown", ""])),
        cpu=draw(st.integers(0, 3)),
        gpu=draw(st.sampled_from([0, 0, 1])),
        on=draw(st.sampled_from(["n1", "n2", "n2", "n9"])),
        phase=draw(st.sampled_from(["Running", "Pending", "Succeeded"])),
        role=draw(st.sampled_from(["", "worker"])),
    )


def facts(state: ClusterState) -> dict[str, object]:
    table = state.table
    size = table.size
    return {
        "nodes": {n.name: (n.idle, n.used, sorted(n.tasks)) for n in state.nodes.values()},
        "counts": (table.pod_count[:size].tolist(), table.assumed[:, :size].tolist(), table.in_flux),
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
        "used": {d: v for d, v in state.used_total.items() if v},
        "orphans": {n: sorted(t) for n, t in state.orphans.items()},
    }


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 8))
def test_a_pod_first_seen_running_counts_like_one_that_was_seen_waiting(data: st.DataObject, count: int) -> None:
    pods = [data.draw(running(n)) for n in range(count)]
    at_once, by_steps = ClusterState(), ClusterState()
    for state in (at_once, by_steps):
        state.apply_all(Seen(obj) for obj in BASE)
    for obj in pods:
        waiting = Pod(metadata=obj.metadata, spec=pod("x", cpu=0).spec, status=type(obj.status)(phase="Pending"))
        force_setattr(waiting.spec, "containers", obj.spec.containers)
        by_steps.apply(Seen(waiting))
        for state in (at_once, by_steps):
            state.apply(Seen(obj))
    assert violations(at_once) == []
    assert facts(at_once) == facts(by_steps)
