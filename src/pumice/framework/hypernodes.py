"""Placing a job by sub-jobs and hyper-nodes: the whole cluster is the top hyper-node, and the only one for now."""

from __future__ import annotations

from pumice.framework.session import Session
from pumice.framework.statement import Statement
from pumice.framework.worksheet import Worksheet, place_tasks
from pumice.model.job import Job, SubJob
from pumice.model.queue import Queue


def place_by_topology(ssn: Session, queue: Queue, job: Job, sheet: Worksheet, remember: bool) -> Statement | None:
    """Place sub-jobs in order until the job is ready; the statement if it is or may wait, else None."""
    statement = ssn.statement()
    for sub_job in _in_order(ssn, job, sheet):
        own = place_tasks(ssn, queue, job, sub_job, sheet.sub_jobs[sub_job.uid], remember)
        if own is None:
            continue
        statement.merge(own)
        if ssn.job_ready(job):
            break
    if not statement.operations:
        return None
    if ssn.job_ready(job) or ssn.job_pipelined(job):
        return statement
    statement.discard()
    return None


def _in_order(ssn: Session, job: Job, sheet: Worksheet) -> list[SubJob]:
    """Sub-jobs with tasks to place: those that the job needs to become ready first, then the rest."""
    from functools import cmp_to_key

    def compare(left: SubJob, right: SubJob) -> int:
        return -1 if ssn.sub_job_less(left, right) else 1

    ordered = sorted(job.sub_jobs.values(), key=cmp_to_key(compare))
    needed = {f"{job.uid}/{p.name}": p.min_sub_groups or 0 for p in job.policies}
    for sub_job in ordered:
        if sub_job.is_ready and sub_job.group in needed:
            needed[sub_job.group] -= 1
    required = []
    for sub_job in ordered:
        if not sub_job.is_ready and needed.get(sub_job.group, 0) > 0:
            needed[sub_job.group] -= 1
            required.append(sub_job)
    rest = [s for s in ordered if s not in required]
    return [s for s in required + rest if sheet.sub_jobs.get(s.uid)]
