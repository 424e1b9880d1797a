"""gang: nothing starts until enough can start together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from pumice import Job, Plugin, ReasonCode, Session, SubJob, Task, TaskStatus, Verdict, reject

S = TaskStatus
_PENDING = int(S.PENDING)


class Gang(Plugin):
    """Holds a job back until ``minMember`` of its tasks, and the minimum of each role, have a place."""

    name = "gang"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        self._heeds_unfit = not ssn.compat.best_effort_gangs
        self._look_at(ssn)
        self._roles_matter = not ssn.compat.role_minimums
        self._smallest = 1 if ssn.compat.gang_of_one else 2
        self._halves = ssn.compat.half_sub_groups
        ssn.add_job_valid_fn(self.name, self._valid)
        ssn.add_job_ready_fn(self.name, self._ready)
        ssn.add_sub_job_ready_fn(self.name, _sub_job_ready)
        ssn.add_job_pipelined_fn(self.name, self._pipelined)
        ssn.add_sub_job_pipelined_fn(self.name, _sub_job_pipelined)
        ssn.add_job_order_key_fn(self.name, _job_key if ssn.compat.lost_members else _claim)
        ssn.add_sub_job_order_key_fn(self.name, _sub_job_key)
        ssn.add_job_starving_fn(self.name, _starving)
        ssn.add_preemptable_fn(self.name, self._spare)
        ssn.add_reclaimable_fn(self.name, self._spare)
        ssn.add_unified_evictable_fn(self.name, _everyone)

    def _look_at(self, ssn: Session) -> None:
        self._unfit: Mapping[str, Mapping[str, object]] = ssn.outcome.fit_errors if self._heeds_unfit else {}

    def _valid(self, job: Job) -> Verdict | bool:
        if job.role_minimums and not job.roles_valid():
            text = "Not enough valid pods of each task for gang-scheduling"
            advice = "the pods that its roles need, or smaller minTaskMember"
            return reject(text, ReasonCode.NOT_ENOUGH_PODS_OF_TASK, advice=advice)
        if job.policies and not job.sub_jobs_valid(half=self._halves):
            text = "Not enough valid subGroups of each task for gang-scheduling"
            advice = "the sub-groups that it needs, or smaller minSubGroups"
            return reject(text, ReasonCode.NOT_ENOUGH_PODS_OF_TASK, advice=advice)
        valid = job.valid_count
        missing = job.min_available - valid
        if missing > 0:
            text = f"Not enough valid tasks for gang-scheduling, valid: {valid}, min: {job.min_available}"
            advice = f"create {missing} more pod{'' if missing == 1 else 's'}, or lower minMember"
            return reject(text, ReasonCode.NOT_ENOUGH_TASKS, advice=advice)
        return True

    def _ready(self, job: Job) -> Verdict | bool:
        """Have enough tasks a place? Waiting ones that ask for nothing count, until one is found to fit nowhere."""
        unplaceable = self._unplaceable(job) if job.pending_best_effort_count else []
        if job.ready_count + job.pending_best_effort_count - len(unplaceable) < job.min_available:
            return reject(f"{job.ready_count} of {job.min_available} required tasks have a place")
        if job.role_minimums and not job.roles_ready(Counter(t.role for t in unplaceable) if unplaceable else None):
            return reject("a role has fewer tasks with a place than its minimum")
        parts = Counter(t.sub_job.uid for t in unplaceable if t.sub_job is not None) if unplaceable else None
        if job.policies and not job.sub_jobs_ready(parts):
            return reject("too few sub-groups have a place")
        return True

    def _unplaceable(self, job: Job) -> list[Task]:
        """Waiting tasks that ask for nothing and were found to fit nowhere."""
        failed = self._unfit.get(job.uid, {})
        return [t for t in job.with_status(S.PENDING).values() if t.best_effort and t.uid in failed]

    def _pipelined(self, job: Job) -> int:
        enough = job.is_pipelined if self._halves else job.is_pipelined_whole()
        return 1 if enough and job.roles_pipelined() and job.sub_jobs_pipelined() else -1

    def _spare(self, _: Task, candidates: Sequence[Task]) -> list[Task]:
        """Candidates that their jobs can lose without falling below their minimum.

        A job that needs no more than one task is no gang: it may lose its last task, for nothing half remains.
        """
        left: dict[str, int] = {}
        roles: dict[tuple[str, str], int] = {}
        parts: dict[str, int] = {}
        spare: dict[str, int] = {}
        victims = []
        for task in candidates:
            job = task.job
            have = left.setdefault(job.uid, job.ready_count)
            protected = job.min_available >= self._smallest
            if protected and have <= job.min_available:
                continue
            minimum = job.role_minimums.get(task.role, 0)
            if self._roles_matter and protected and minimum and job.min_available >= job.role_total:
                of_role = roles.setdefault((job.uid, task.role), job.role_ready_count(task.role))
                if of_role <= minimum:
                    continue
                roles[job.uid, task.role] = of_role - 1
            part = task.sub_job
            if not self._halves and part is not None and not part.is_default:
                there = parts.setdefault(part.uid, part.ready_count)
                if there == part.min_available:  # without the task it would not be whole
                    if spare.setdefault(part.group, job.spare_sub_jobs(part.group)) < 1:
                        continue
                    spare[part.group] -= 1
                parts[part.uid] = there - 1
            left[job.uid] = have - 1
            victims.append(task)
        return victims

    def on_session_close(self, ssn: Session) -> None:
        """Say on every PodGroup that changed whether its gang has a place."""
        self._look_at(ssn)  # the last one is that of another session, where none was opened for this
        alike: dict[tuple[object, ...], str] = {}
        tell = ssn.outcome.set_condition
        for job in ssn.changed_jobs():
            have = len(job.tasks)
            if not have:
                continue
            waiting, needed = job.pending_best_effort_count, job.min_available
            counts = job.counts
            ready = job.ready_count
            if ready + (waiting and waiting - len(self._unplaceable(job))) >= needed:
                tell(job, "Scheduled", "True", ReasonCode.GANG_READY, "")
            elif have < needed:
                text = f"{have} of the {needed} pods that it needs together exist"
                tell(job, "Unschedulable", "True", ReasonCode.NOT_ENOUGH_TASKS, text)
            elif counts[_PENDING] or not _only_waits_for_release(job):
                text = self._describe(ssn, job, counts, ready, alike)
                tell(job, "Unschedulable", "True", ReasonCode.NOT_ENOUGH_RESOURCES, text)

    def _describe(
        self, ssn: Session, job: Job, counts: tuple[int, ...], ready: int, alike: dict[tuple[object, ...], str]
    ) -> str:
        """How many tasks have no place, where all stand, and why the first that fits nowhere does not.

        *counts*: of its tasks by status; *ready*: of those that have a place. *alike*: what was said of jobs that stand
        alike and were refused together.
        """
        errors = ssn.outcome.fit_errors.get(job.uid)
        named = sorted((job.tasks[uid].name, str(errors[uid])) for uid in errors if uid in job.tasks) if errors else ()
        refusal = None if named else ssn.outcome.refusal_of(job)
        key = (counts, job.min_available, id(refusal), named[0] if named else None)
        text = alike.get(key)
        if text is None:
            told = f". {refusal.told}" if refusal is not None else ""
            if named:
                told = f". Origin reason is {named[0][0]}: {named[0][1]}"
            missing = f"{job.min_available - ready}/{len(job.tasks)} tasks in gang unschedulable"
            text = alike[key] = f"{missing}: {_standing(counts, job.min_available)}{told}"
        refused = ssn.outcome.refused_write(job)
        return f"{text}. No room was made: {refused}" if refused else text


@lru_cache(maxsize=4096)
def _standing(counts: tuple[int, ...], minimum: int) -> str:
    """Where tasks stand, in words; many jobs stand alike."""
    told = sorted(f"{n} {status.title}" for status, n in zip(S, counts, strict=True) if n)
    return f"pod group is not ready, {', '.join([*told, f'{minimum} minAvailable'])}"


def _only_waits_for_release(job: Job) -> bool:
    """Nothing is left to place, and the tasks that are terminating still make up the gang."""
    if job.with_status(S.PENDING) or job.with_status(S.PIPELINED):
        return False
    releasing = sum(1 for t in job.with_status(S.RELEASING).values() if t.node is not None)
    scheduled = job.count(S.RUNNING, S.BOUND, S.FAILED, S.SUCCEEDED)
    return releasing > 0 and scheduled + releasing >= job.min_available


def _sub_job_ready(sub_job: SubJob) -> bool:
    return sub_job.is_ready


def _sub_job_pipelined(sub_job: SubJob) -> int:
    return 1 if sub_job.is_pipelined else -1


def _job_key(job: Job) -> bool:
    return job.is_ready


def _claim(job: Job) -> int:
    """A gang that began and lacks a member has first claim; then come those that have not started, then the ready."""
    if job.is_ready:
        return 2
    return 0 if job.with_status(S.RUNNING) or job.with_status(S.BOUND) else 1


def _sub_job_key(sub_job: SubJob) -> bool:
    return sub_job.is_ready


def _starving(job: Job) -> bool:
    return job.is_starving


def _everyone(_: object, candidates: Sequence[Task]) -> list[Task]:
    return list(candidates)
