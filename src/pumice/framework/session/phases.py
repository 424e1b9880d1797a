"""The phase of a PodGroup at the end of a session."""

from __future__ import annotations

from typing import Any

from pumice.model.job import Job
from pumice.model.status import JobPhase, TaskStatus

S = TaskStatus


def status_of(job: Job, unschedulable: bool) -> dict[str, Any]:
    """Phase and counters that the PodGroup should show. *unschedulable*: the condition was written in this session."""
    counts = job.counts
    running, failed, succeeded = counts[S.RUNNING], counts[S.FAILED], counts[S.SUCCEEDED]
    if running and unschedulable:
        phase: str = JobPhase.UNKNOWN
    else:
        scheduled = running + counts[S.BOUND] + failed + succeeded
        for task in job.with_status(S.RELEASING).values() if counts[S.RELEASING] else ():
            scheduled += bool(task.pod.spec.node_name) or task.node is not None
        if scheduled >= job.min_available:
            phase = JobPhase.COMPLETED if scheduled == failed + succeeded else JobPhase.RUNNING
        elif job.phase != JobPhase.INQUEUE:
            phase = JobPhase.PENDING
        else:
            phase = JobPhase.INQUEUE
    return {"phase": str(phase), "running": running, "failed": failed, "succeeded": succeeded}
