"""priority: higher priority goes first, and lower priority makes room for it."""

from __future__ import annotations

from collections.abc import Sequence

from pumice import Job, Plugin, Session, SubJob, Task


class Priority(Plugin):
    """Orders tasks, jobs and sub-jobs by priority, highest first; only lower priority may be a victim."""

    name = "priority"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_task_order_key_fn(self.name, _task_key)
        ssn.add_job_order_key_fn(self.name, _job_key)
        ssn.add_sub_job_order_key_fn(self.name, _sub_job_key)
        ssn.add_preemptable_fn(self.name, _preemptable, key=_job_priority)
        ssn.add_unified_evictable_fn(self.name, _evictable)
        ssn.add_job_starving_fn(self.name, _starving)


def _task_key(task: Task) -> int:
    return -task.priority


def _job_key(job: Job) -> int:
    return -job.priority


def _sub_job_key(sub_job: SubJob) -> int:
    return -sub_job.priority


def _job_priority(job: Job) -> int:
    return job.priority


def _preemptable(preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
    job = preemptor.job
    return [
        t
        for t in candidates
        if (
            t.job.priority < job.priority if t.job is not job and t.job is not None else t.priority < preemptor.priority
        )
    ]


def _evictable(context: object, candidates: Sequence[Task]) -> list[Task]:
    if getattr(context, "kind", "") == "GangReclaim":
        return list(candidates)
    priority = context.job.priority  # type: ignore[attr-defined]
    return [t for t in candidates if t.job.priority < priority]


def _starving(job: Job) -> bool:
    return job.ready_count + job.waiting_count < len(job.tasks)
