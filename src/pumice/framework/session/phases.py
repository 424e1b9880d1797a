"""The phase of a PodGroup at the end of a session."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from pumice.model.job import Job
from pumice.model.status import JobPhase, TaskStatus

S = TaskStatus


def status_of(job: Job, unschedulable: bool, nominated: Container[str] = ()) -> dict[str, Any]:
    """Phase and counters that the PodGroup should show. *unschedulable*: the condition was written in this session.

    *nominated*: tasks for which room was freed. Their jobs are let in, or nobody could take that room when it is there.
    """
    of = job.with_status
    running, failed, succeeded = len(of(S.RUNNING)), len(of(S.FAILED)), len(of(S.SUCCEEDED))
    if running and unschedulable:
        phase: str = JobPhase.UNKNOWN
    else:
        scheduled = running + len(of(S.BOUND)) + failed + succeeded
        for task in of(S.RELEASING).values():
            scheduled += bool(task.pod.spec.node_name) or task.node is not None
        if scheduled >= job.min_available:
            phase = JobPhase.COMPLETED if scheduled == failed + succeeded else JobPhase.RUNNING
        elif job.phase == JobPhase.INQUEUE or (nominated and any(uid in nominated for uid in job.tasks)):
            phase = JobPhase.INQUEUE
        else:
            phase = JobPhase.PENDING
    return {"phase": str(phase), "running": running, "failed": failed, "succeeded": succeeded}
