"""The phases of a vcjob: from what is written in its status and what pods there are, what to do next.

Everything follows from what can be seen now, so a controller may be stopped at any moment and begun again. A pod
carries the version of the job that it was made for. Code that kills the pods of a job raises the version first, so
events of earlier pods are never answered twice. A lost pod shows by comparison: the status counts the pods that were
seen, and fewer exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pumice.workloads.vcjob import (
    JOB_UNKNOWN,
    POD_EVICTED,
    POD_FAILED,
    TASK_COMPLETED,
    TASK_FAILED,
    Answers,
    Reaction,
    Role,
    reaction_to,
)

PENDING, RUNNING, RESTARTING = "Pending", "Running", "Restarting"
COMPLETING, COMPLETED = "Completing", "Completed"
ABORTING, ABORTED = "Aborting", "Aborted"
TERMINATING, TERMINATED, FAILED = "Terminating", "Terminated", "Failed"

FINISHED = frozenset((COMPLETED, FAILED, TERMINATED))
"""Over for good: these are removed after their time to live."""
GROUPLESS = FINISHED | {ABORTED}
"""Phases in which there is no PodGroup."""
_ENDS = {COMPLETING: COMPLETED, ABORTING: ABORTED, TERMINATING: TERMINATED}
_BEGINS = {
    Reaction.COMPLETE_JOB: COMPLETING,
    Reaction.ABORT_JOB: ABORTING,
    Reaction.TERMINATE_JOB: TERMINATING,
    Reaction.RESTART_JOB: RESTARTING,
}
_OVER = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class PodSeen:
    """One pod of a job."""

    name: str
    uid: str
    role: str
    index: int
    version: int
    phase: str
    leaving: bool = False
    """It is being deleted."""
    exit_code: int = 0
    restarts: int = 0

    @property
    def over(self) -> bool:
        """It has run."""
        return self.phase in _OVER


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job: what is asked for, what its status says, which pods there are."""

    roles: Sequence[Role]
    minimum: int
    pods: Sequence[PodSeen]
    answers: Answers = field(default_factory=dict)
    min_success: int | None = None
    max_retry: int = 3
    phase: str = PENDING
    version: int = 0
    retries: int = 0
    counted: Mapping[str, int] = field(default_factory=dict)
    """Task -> pods that were there when the status was written."""
    lost: Sequence[PodSeen] = ()
    """Pods that were seen to go since the last look, and not because of us."""
    group_phase: str = ""
    """Nothing if there is no PodGroup."""

    @property
    def total(self) -> int:
        """How many pods it should have."""
        return sum(role.replicas for role in self.roles)


@dataclass(frozen=True, slots=True)
class PodCounts:
    """Pods by what they do; those that are being deleted only count as such."""

    phases: Mapping[str, Mapping[str, int]]
    """Task -> phase -> pods."""
    leaving: int = 0

    def of(self, *phases: str) -> int:
        """Pods in these phases."""
        return sum(by.get(phase, 0) for by in self.phases.values() for phase in phases)

    def at(self, role: str) -> int:
        """Pods of a task."""
        return sum(self.phases.get(role, {}).values())


@dataclass(frozen=True, slots=True)
class LifecyclePlan:
    """The status to write, and the steps after it. The status goes first."""

    phase: str
    version: int
    retries: int
    counts: PodCounts
    remove: Sequence[PodSeen] = ()
    create: Sequence[tuple[Role, int]] = ()
    why: str = ""
    """The cause of a phase change: ``PodFailed: RestartJob``."""


def next_step(job: JobSeen, asked: Reaction | None = None) -> LifecyclePlan:
    """The steps for a job now. *asked*: what somebody commands."""
    if job.phase in (PENDING, RUNNING):
        return _live(job, asked)
    if asked is Reaction.RESUME_JOB and job.phase in (ABORTING, ABORTED):
        return _changed(job, RESTARTING, "ResumeJob", retries=job.retries + 1, version=job.version + 1)
    if job.phase == RESTARTING:
        if asked in _BEGINS and asked is not Reaction.RESTART_JOB:
            return _changed(job, _BEGINS[asked], f"command: {asked.value}", version=job.version + 1)
        return _restarting(job)
    return _ending(job)


# -- pending and running ------------------------------------------------------------------------------------------
def _live(job: JobSeen, asked: Reaction | None) -> LifecyclePlan:
    event, reaction, role, pod = (
        ("command", asked, None, None) if asked is not None and asked in _BEGINS else _trouble(job)
    )
    why = f"{event}: {reaction.value}" if reaction is not None else ""
    if reaction in _BEGINS:
        again = reaction is Reaction.RESTART_JOB
        return _changed(job, _BEGINS[reaction], why, retries=job.retries + again, version=job.version + 1)
    if reaction in (Reaction.RESTART_TASK, Reaction.RESTART_POD):
        chosen = [
            p
            for p in job.pods
            if not p.leaving
            and (p.role == role if reaction is Reaction.RESTART_TASK else pod is not None and p.uid == pod.uid)
        ]
        if chosen:  # those that gave the reason go last: until then it can be seen again
            chosen.sort(key=lambda p: (p.phase == "Failed", p.index))
            return _changed(job, RESTARTING, why, retries=job.retries + 1, remove=chosen)
    return _sync(job)


def _trouble(job: JobSeen) -> tuple[str, Reaction | None, str | None, PodSeen | None]:
    """The first event that a policy answers, with its task and its pod."""
    alive = [p for p in job.pods if p.version == job.version and not p.leaving]
    for role in job.roles:
        pods = sorted((p for p in alive if p.role == role.name), key=lambda p: p.index)
        said = (role.answers, job.answers)
        for pod in pods:
            if pod.phase == "Failed":
                reaction = reaction_to(POD_FAILED, *said, exit_code=pod.exit_code)
                if reaction is not None:
                    return POD_FAILED, reaction, role.name, pod
        found = [
            (POD_EVICTED, _evicted(job, role, pods)),
            (TASK_FAILED, 0 <= role.retries < sum(p.restarts for p in pods if not p.over)),
            (TASK_COMPLETED, 0 < role.replicas <= sum(p.phase == "Succeeded" for p in pods)),
        ]
        for event, happened in found:
            reaction = reaction_to(event, *said) if happened else None
            if reaction is not None:
                return event, reaction, role.name, None
    if job.group_phase == "Unknown":
        return JOB_UNKNOWN, reaction_to(JOB_UNKNOWN, job.answers), None, None
    return "", None, None, None


def _evicted(job: JobSeen, role: Role, alive: Sequence[PodSeen]) -> bool:
    """Whether a pod of a task went: one was seen to, or fewer are there than were counted."""
    if any(p.role == role.name and p.version == job.version and p.index < role.replicas for p in job.lost):
        return True
    return sum(p.index < role.replicas for p in alive) < min(job.counted.get(role.name, 0), role.replicas)


def _sync(job: JobSeen) -> LifecyclePlan:
    """Make the pods that are missing, remove those that are too many, and see how far the job has come."""
    wanted = {role.name: role for role in job.roles}
    remove = [
        p
        for p in job.pods
        if not p.leaving and (p.version != job.version or p.role not in wanted or p.index >= wanted[p.role].replicas)
    ]
    counts = _counts(job, remove)
    create: list[tuple[Role, int]] = []
    if job.group_phase not in ("", PENDING):
        there = {(p.role, p.index) for p in job.pods}
        for role in job.roles:
            if _may_begin(role, wanted, counts):
                create += [(role, n) for n in range(role.replicas) if (role.name, n) not in there]
    phase = job.phase
    if phase == PENDING:
        if job.total and job.minimum <= counts.of("Running", *_OVER):
            phase = RUNNING
    else:
        phase = _outcome(job, counts)
    return LifecyclePlan(phase, job.version, job.retries, counts, remove, create)


def _may_begin(role: Role, roles: Mapping[str, Role], counts: PodCounts) -> bool:
    """Whether the tasks that this one waits for are up."""
    needs = role.task.depends_on
    if needs is None or not needs.name:
        return True
    up = [
        counts.phases.get(name, {}).get("Running", 0) + counts.phases.get(name, {}).get("Succeeded", 0)
        >= roles[name].minimum
        for name in needs.name
        if name in roles
    ]
    return any(up) if needs.iteration == "any" else all(up)


def _outcome(job: JobSeen, counts: PodCounts) -> str:
    succeeded = counts.of("Succeeded")
    if not job.total:
        return job.phase
    if job.min_success is not None and succeeded >= job.min_success:
        return COMPLETED
    if counts.of(*_OVER) < job.total:
        return job.phase
    if job.min_success is not None or succeeded < job.minimum:
        return FAILED
    if job.minimum >= sum(role.minimum for role in job.roles) and any(
        counts.phases.get(role.name, {}).get("Succeeded", 0) < role.minimum
        for role in job.roles
        if role.task.min_available is not None
    ):
        return FAILED
    return COMPLETED


# -- on the way to something else -----------------------------------------------------------------------------------
def _restarting(job: JobSeen) -> LifecyclePlan:
    last = job.retries >= job.max_retry
    remove = [p for p in job.pods if p.version != job.version and not p.leaving and not (last and p.over)]
    counts = _counts(job, remove)
    phase = RESTARTING
    if last:
        phase = FAILED
    elif job.total - counts.leaving >= job.minimum:
        phase = PENDING
    return LifecyclePlan(phase, job.version, job.retries, counts, remove)


def _ending(job: JobSeen) -> LifecyclePlan:
    """Everything that still runs goes; what has run stays to be looked at."""
    remove = [p for p in job.pods if not p.leaving and not p.over]
    counts = _counts(job, remove)
    phase = job.phase
    if phase in _ENDS and not counts.leaving and not counts.of("Pending", "Running", "Unknown"):
        phase = _ENDS[phase]
    return LifecyclePlan(phase, job.version, job.retries, counts, remove)


def _changed(
    job: JobSeen,
    phase: str,
    why: str,
    *,
    retries: int | None = None,
    version: int | None = None,
    remove: Sequence[PodSeen] = (),
) -> LifecyclePlan:
    return LifecyclePlan(
        phase,
        job.version if version is None else version,
        job.retries if retries is None else retries,
        _counts(job, remove),
        remove,
        why=why,
    )


def _counts(job: JobSeen, remove: Sequence[PodSeen]) -> PodCounts:
    gone = {p.uid for p in remove}
    by: dict[str, Counter[str]] = {}
    leaving = 0
    for pod in job.pods:
        if pod.leaving or pod.uid in gone:
            leaving += 1
        else:
            by.setdefault(pod.role, Counter())[pod.phase or "Pending"] += 1
    return PodCounts(by, leaving)
