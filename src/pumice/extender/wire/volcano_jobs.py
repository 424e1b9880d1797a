"""Jobs as Volcano's Go code sends them, with every task four times over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from pumice.extender.wire import from_kube, to_kube
from pumice.extender.wire.amounts import total
from pumice.extender.wire.gojson import sorted_map
from pumice.extender.wire.gostructs import GoJob, GoSubJob, GoTask
from pumice.extender.wire.objects import HOLDING, Amounts, WireJob, WireSubJob, WireTask
from pumice.extender.wire.volcano_parts import amounts_of, extra_of, resource_of, usual, with_extra
from pumice.extender.wire.volcano_tasks import read_task, write_task

# The fields without a neutral name, and their usual values.
_USUAL_SUB_JOB: Final = usual(GoSubJob(), "AllocatedHyperNode", "NominatedHyperNode", "NetworkTopology")
_USUAL_JOB: Final = usual(
    GoJob(),
    "PgUID",
    "WaitingTime",
    "JobFitErrors",
    "NodesFitErrors",
    "AllocatedHyperNode",
    "NetworkTopology",
    "MinSubJobs",
    "ScheduleStartTimestamp",
    "RevocableZone",
    "Budget",
)


def read_job(job: GoJob) -> WireJob:
    """The job that Volcano sent; its tasks are in its queue."""
    group = from_kube.pod_group(job.PodGroup)
    tasks = [msgspec.structs.replace(read_task(task), queue=job.Queue) for task in (job.Tasks or {}).values()]
    sub_jobs = [_read_sub_job(sub_job) for sub_job in (job.SubJobs or {}).values()]
    if sub_jobs == [_only_sub_job(job.UID, job.MinAvailable, tasks)]:
        sub_jobs = []
    return WireJob(
        uid=job.UID,
        namespace=job.Namespace,
        name=job.Name,
        queue=job.Queue,
        min_available=job.MinAvailable,
        role_minimums=job.TaskMinAvailable or {},
        priority=job.Priority,
        labels=group.metadata.labels or {},
        annotations=group.metadata.annotations or {},
        tasks=tasks,
        preemptable=job.Preemptable,
        phase=group.status.phase or "",
        min_resources=group.min_resources(),
        allocated=amounts_of(job.Allocated),
        requested=amounts_of(job.TotalRequest),
        creation=job.CreationTimestamp or "",
        sub_jobs=sub_jobs,
        pod_group=job.PodGroup,
        extra=extra_of(job, _USUAL_JOB),
    )


def write_job(job: WireJob) -> GoJob:
    """The job as Volcano would send it, every task four times over."""
    tasks = {task.uid: write_task(task) for task in sorted(job.tasks, key=lambda task: task.uid)}
    sub_jobs = job.sub_jobs or [_only_sub_job(job.uid, job.min_available, job.tasks)]
    held = [task for task in job.tasks if task.status in HOLDING]
    go = GoJob(
        UID=job.uid,
        Name=job.name,
        Namespace=job.namespace,
        Queue=job.queue,
        Priority=job.priority,
        MinAvailable=job.min_available,
        SubJobs=sorted_map({sub_job.uid: _write_sub_job(job.uid, sub_job, tasks) for sub_job in sub_jobs}),
        TaskToSubJob=sorted_map({uid: sub_job.uid for sub_job in sub_jobs for uid in sub_job.task_uids}),
        TaskStatusIndex=_by_status(tasks),
        Tasks=tasks,
        TaskMinAvailable=sorted_map(job.role_minimums),
        TaskMinAvailableTotal=sum(job.role_minimums.values()),
        Allocated=resource_of(_taken(held) if job.allocated is None else job.allocated),
        TotalRequest=resource_of(_taken(job.tasks) if job.requested is None else job.requested),
        CreationTimestamp=job.creation or None,
        PodGroup=to_kube.pod_group_of(job),
        Preemptable=job.preemptable,
    )
    return with_extra(go, job.extra)


def _read_sub_job(sub_job: GoSubJob) -> WireSubJob:
    return WireSubJob(
        uid=sub_job.UID,
        group=sub_job.GID,
        min_available=sub_job.MinAvailable,
        priority=sub_job.Priority,
        match_index=sub_job.MatchIndex,
        task_uids=list(sub_job.Tasks or ()),
        extra=extra_of(sub_job, _USUAL_SUB_JOB),
    )


def _write_sub_job(job: str, sub_job: WireSubJob, tasks: Mapping[str, GoTask]) -> GoSubJob:
    members = {uid: tasks[uid] for uid in sorted(sub_job.task_uids) if uid in tasks}
    go = GoSubJob(
        GID=sub_job.group,
        UID=sub_job.uid,
        Job=job,
        MinAvailable=sub_job.min_available,
        Priority=sub_job.priority,
        MatchIndex=sub_job.match_index,
        Tasks=members,
        TaskStatusIndex=_by_status(members),
    )
    return with_extra(go, sub_job.extra)


def _only_sub_job(job: str, min_available: int, tasks: list[WireTask]) -> WireSubJob:
    """The sub-job of a job without sub-groups."""
    return WireSubJob(
        uid=job,
        group=job,
        min_available=min_available,
        priority=max([0, *(task.priority for task in tasks)]),
        task_uids=sorted(task.uid for task in tasks),
    )


def _by_status(tasks: Mapping[str, GoTask]) -> dict[str, dict[str, GoTask]]:
    index: dict[str, dict[str, GoTask]] = {}
    for uid, task in tasks.items():
        index.setdefault(str(task.Status), {})[uid] = task
    return sorted_map(index)


def _taken(tasks: Iterable[WireTask]) -> Amounts:
    return total([{**task.requests, "pods": 1} for task in tasks])
