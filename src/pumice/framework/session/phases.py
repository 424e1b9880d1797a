"""The phase of a PodGroup at the end of a session."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from pumice.model.job import Job
from pumice.model.status import JobPhase, TaskStatus

S = TaskStatus
_BOUND, _FAILED, _RELEASING = int(S.BOUND), int(S.FAILED), int(S.RELEASING)
_RUNNING, _SUCCEEDED = int(S.RUNNING), int(S.SUCCEEDED)


def status_of(job: Job, unschedulable: bool, nominated: Container[str] = ()) -> dict[str, Any]:
    """Phase and counters that the PodGroup should show. *unschedulable*: the condition was written in this session.

    *nominated*: tasks for which room was freed. Their jobs are let in, or nobody could take that room when it is there.
    """
    counts = job.counts
    running, failed, succeeded = counts[_RUNNING], counts[_FAILED], counts[_SUCCEEDED]
    if running and unschedulable:
        phase: str = JobPhase.UNKNOWN
    else:
        scheduled = running + counts[_BOUND] + failed + succeeded
        if counts[_RELEASING]:
            for task in job.with_status(S.RELEASING).values():
                scheduled += bool(task.pod.spec.node_name) or task.node is not None
        if scheduled >= job.min_available:
            phase = JobPhase.COMPLETED if scheduled == failed + succeeded else JobPhase.RUNNING
        elif job.phase == JobPhase.INQUEUE or (nominated and any(uid in nominated for uid in job.tasks)):
            phase = JobPhase.INQUEUE
        else:
            phase = JobPhase.PENDING
    return {"phase": str(phase), "running": running, "failed": failed, "succeeded": succeeded}
