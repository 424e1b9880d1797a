"""A job (one PodGroup with its tasks), its sub-jobs, and the counts that gang decisions are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pumice.model.api import NetworkTopology, PodGroup, SubGroupPolicy
from pumice.model.resources import EMPTY, Number, Resources
from pumice.model.selectors import label_selector_matches
from pumice.model.status import IS_ALLOCATED, IS_READY, STATUS_COUNT, JobPhase, TaskStatus
from pumice.model.task import PREEMPTABLE_KEY, Task, reader

PREEMPTIBILITY_LABEL: Final = "kai.scheduler/preemptibility"
S = TaskStatus


class TaskGroup:
    """Tasks with their counts by status; what `Job` and `SubJob` share."""

    __slots__ = ("_by_status", "_min_available", "_pending_best_effort", "_tasks", "role_counts", "version")

    tasks: Mapping[str, Task] = reader("_tasks")
    min_available: int = reader("_min_available")

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._by_status: list[dict[str, Task]] = [{} for _ in range(STATUS_COUNT)]
        self._min_available = 0
        self._pending_best_effort = 0
        self.role_counts: dict[str, list[int]] = {}
        self.version = 0

    def with_status(self, status: TaskStatus) -> Mapping[str, Task]:
        """The tasks in one status, by UID."""
        return self._by_status[status]

    def count(self, *statuses: TaskStatus) -> int:
        """How many tasks are in any of the statuses."""
        return sum(len(self._by_status[s]) for s in statuses)

    @property
    def ready_count(self) -> int:
        """Tasks that have a place or are done: Bound, Binding, Running, Allocated, Succeeded."""
        b = self._by_status
        return len(b[1]) + len(b[3]) + len(b[4]) + len(b[5]) + len(b[7])

    @property
    def waiting_count(self) -> int:
        """Tasks that wait for room which is being released."""
        return len(self._by_status[S.PIPELINED])

    @property
    def pending_best_effort_count(self) -> int:
        """Pending tasks that ask for nothing."""
        return self._pending_best_effort

    @property
    def valid_count(self) -> int:
        """Tasks that run, ran to the end, or may still be placed."""
        return self.ready_count + len(self._by_status[S.PIPELINED]) + len(self._by_status[S.PENDING])

    @property
    def is_ready(self) -> bool:
        """Enough tasks have a place."""
        return self.ready_count + self._pending_best_effort >= self._min_available

    @property
    def is_pipelined(self) -> bool:
        """Enough tasks have a place or a promised one."""
        return self.waiting_count + self.ready_count + self._pending_best_effort >= self._min_available

    @property
    def is_starving(self) -> bool:
        """Too few tasks have a place or a promised one."""
        return self.waiting_count + self.ready_count < self._min_available

    def _index(self, task: Task, status: TaskStatus, sign: int) -> None:
        """Add (+1) or remove (-1) a task from the counts of one status."""
        if sign > 0:
            self._by_status[status][task._uid] = task
        else:
            del self._by_status[status][task._uid]
        counts = self.role_counts.get(task._role)
        if counts is None:
            counts = self.role_counts[task._role] = [0] * (STATUS_COUNT + 1)
        counts[status] += sign
        if status == 0 and task._best_effort:
            self._pending_best_effort += sign
            counts[STATUS_COUNT] += sign
        self.version += 1


class SubJob(TaskGroup):
    """The part of a job that one sub-group policy sets apart, or all the rest of it."""

    __slots__ = ("_job", "_uid", "allocated_hypernode", "group", "match_index", "nominated_hypernode", "topology")

    job: Job = reader("_job")
    uid: str = reader("_uid")

    def __init__(self, job: Job, uid: str, group: str, match_index: int) -> None:
        super().__init__()
        self._job, self._uid = job, uid
        self.group = group
        self.match_index = match_index
        self.topology: NetworkTopology | None = None
        self.allocated_hypernode = ""
        self.nominated_hypernode = ""

    @property
    def priority(self) -> int:
        """The highest priority of its tasks, at least 0."""
        return max((t.priority for t in self._tasks.values()), default=0) if self._tasks else 0

    @property
    def is_default(self) -> bool:
        """Holds the tasks that no policy sets apart."""
        return self._uid == self._job.uid

    def __repr__(self) -> str:
        return f"<SubJob {self._uid}>"


class Job(TaskGroup):
    """A job as plugins see it. Read-only: everything is changed by the state alone."""

    __slots__ = (
        *("_allocated", "_annotations", "_contribution", "_creation", "_group", "_held", "_labels", "_min_resources"),
        *("_name", "_namespace", "_pending", "_phase", "_priority", "_problem", "_queue", "_sub_jobs", "_total"),
        *("_uid", "allocated_hypernode", "in_session", "role_minimums", "role_total", "unschedulable_now"),
    )

    uid: str = reader("_uid")
    name: str = reader("_name")
    namespace: str = reader("_namespace")
    queue: str = reader("_queue")
    """The name of its queue."""
    priority: int = reader("_priority")
    creation: float = reader("_creation")
    labels: Mapping[str, str] = reader("_labels")
    annotations: Mapping[str, str] = reader("_annotations")
    phase: str = reader("_phase")
    """The phase of its PodGroup, or nothing."""
    min_resources: Resources | None = reader("_min_resources")
    """What the PodGroup says it needs at least; None where it says nothing."""
    sub_jobs: Mapping[str, SubJob] = reader("_sub_jobs")
    group: PodGroup | None = reader("_group")
    problem: str = reader("_problem")
    """What is wrong with its PodGroup, or nothing; a job with a problem is not scheduled."""

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__()
        self._uid = f"{namespace}/{name}"
        self._namespace, self._name = namespace, name
        self._group: PodGroup | None = None
        self._queue = ""
        self._priority = 0
        self._creation = 0.0
        self._labels: Mapping[str, str] = {}
        self._annotations: Mapping[str, str] = {}
        self._phase: str = ""
        self._min_resources: Resources | None = None
        self._allocated: dict[int, Number] = {}
        self._held: dict[int, Number] = {}
        self._pending: dict[int, Number] = {}
        self._total: dict[int, Number] = {}
        self._sub_jobs: dict[str, SubJob] = {}
        self._problem = ""
        self._contribution: tuple[str, Resources, Resources, Resources] = ("", EMPTY, EMPTY, EMPTY)
        self.role_minimums: dict[str, int] = {}
        self.role_total = 0
        self.allocated_hypernode = ""
        self.in_session = False
        self.unschedulable_now = False

    # -- what it is -----------------------------------------------------------------------------------------------
    @property
    def preemptible(self) -> bool:
        """May its tasks be victims? Said by the job, else by its tasks (which may, unless they say otherwise)."""
        said = self._annotations.get(PREEMPTABLE_KEY, self._labels.get(PREEMPTABLE_KEY))
        if said is not None:
            return parse_bool(said)
        kai = self._labels.get(PREEMPTIBILITY_LABEL, self._annotations.get(PREEMPTIBILITY_LABEL))
        if kai is not None:
            return kai == "preemptible"
        return all(t._preemptable for t in self._tasks.values())

    @property
    def allocated(self) -> Resources:
        """Held by its tasks now."""
        return Resources(self._allocated)

    @property
    def held(self) -> Resources:
        """Held by its tasks now, or promised to them in this session."""
        return Resources(self._held)

    @property
    def total_request(self) -> Resources:
        """Asked for by all its tasks."""
        return Resources(self._total)

    @property
    def is_pending(self) -> bool:
        """Not yet let into its queue."""
        return self._group is None or self._phase in ("", JobPhase.PENDING)

    @property
    def policies(self) -> list[SubGroupPolicy]:
        """Its sub-group policies."""
        return (self._group.spec.sub_group_policy if self._group else None) or []

    @property
    def topology(self) -> NetworkTopology | None:
        """Its network topology request."""
        return self._group.spec.network_topology if self._group else None

    @property
    def has_topology(self) -> bool:
        """Does the job or one of its policies ask for a network topology?"""
        return self.topology is not None or any(p.network_topology is not None for p in self.policies)

    def whole(self) -> SubJob:
        """The whole job as one sub-job: what a job without policies is to those who ask by sub-job."""
        sub_job = SubJob(self, self._uid, self._uid, 0)
        sub_job._tasks, sub_job._by_status, sub_job.role_counts = self._tasks, self._by_status, self.role_counts
        sub_job._min_available, sub_job.topology = self._min_available, self.topology
        sub_job.allocated_hypernode = self.allocated_hypernode
        return sub_job

    # -- gang checks ----------------------------------------------------------------------------------------------
    def roles_valid(self) -> bool:
        """Every role has as many tasks as its minimum, placed or placeable."""
        return self._roles(lambda c: c[S.PIPELINED] + c[S.PENDING])

    def roles_ready(self) -> bool:
        """Every role has its minimum of tasks placed."""
        return self._roles(lambda c: c[STATUS_COUNT])

    def roles_pipelined(self) -> bool:
        """Every role has its minimum of tasks placed or promised a place."""
        return self._roles(lambda c: c[S.PIPELINED] + c[STATUS_COUNT])

    def _roles(self, more: Callable[[list[int]], int]) -> bool:
        if not self.role_minimums or self._min_available < self.role_total:
            return True
        for role, minimum in self.role_minimums.items():
            counts = self.role_counts.get(role)
            if counts is None:
                if minimum > 0:
                    return False
            elif counts[1] + counts[3] + counts[4] + counts[5] + counts[7] + more(counts) < minimum:
                return False
        return True

    def role_ready_count(self, role: str) -> int:
        """Tasks of a role that count as placed, waiting best-effort ones included."""
        counts = self.role_counts.get(role)
        return (
            sum(n for s, n in enumerate(counts[:STATUS_COUNT]) if IS_READY[s]) + counts[STATUS_COUNT] if counts else 0
        )

    def sub_jobs_valid(self) -> bool:
        """Every policy has enough sub-jobs."""
        return self._policies(lambda _: True)

    def sub_jobs_ready(self) -> bool:
        """Every policy has enough ready sub-jobs."""
        return self._policies(lambda sj: sj.is_ready)

    def sub_jobs_pipelined(self) -> bool:
        """Every policy has enough sub-jobs that are ready or wait for promised room."""
        return self._policies(lambda sj: sj.is_pipelined)

    def _policies(self, counts: Callable[[SubJob], bool]) -> bool:
        for policy in self.policies:
            group = f"{self._uid}/{policy.name}"
            have = sum(1 for sj in self._sub_jobs.values() if sj.group == group and counts(sj))
            if have < (policy.min_sub_groups or 0):
                return False
        return True

    # -- sums -----------------------------------------------------------------------------------------------------
    def elastic(self) -> Resources:
        """Held beyond its minimum."""
        least = dict((self._min_resources or EMPTY).items())
        out: dict[int, Number] = dict.fromkeys(least, 0)
        for d, v in self._allocated.items():
            out[d] = max(v - least.get(d, 0), 0)
        return Resources(out)

    def without_gated(self, resources: Resources) -> Resources:
        """*resources* less what its gated tasks ask for, never below 0."""
        gated = [t for t in self._by_status[S.PENDING].values() if t._gates and t.gated]
        if not gated:
            return resources
        out = dict(resources.items())
        for task in gated:
            for d, v in task._class.items:
                if d in out:
                    out[d] = max(out[d] - v, 0)
        return Resources(out)

    def allocated_count(self) -> int:
        """Tasks that hold room now."""
        return sum(len(tasks) for s, tasks in enumerate(self._by_status) if IS_ALLOCATED[s])

    def __repr__(self) -> str:
        return f"<Job {self._uid} {self._phase or '-'} {len(self._tasks)} tasks>"


def sub_job_of(job: Job, task: Task) -> tuple[str, str, int, SubGroupPolicy | None]:
    """Which sub-job a task belongs to: (sub-job id, group id, match index, policy)."""
    for policy in job.policies:
        if policy.label_selector is not None and not label_selector_matches(policy.label_selector, task.labels):
            continue
        keys = policy.match_label_keys or []
        values = [task.labels.get(k, "") for k in keys]
        if not keys or not all(values):
            continue
        index = int(values[0]) if values[0].lstrip("-").isdigit() else 0
        joined = "-".join(values)
        if len(joined) > 128:
            joined = _short_hash(joined)
        group = f"{job.uid}/{policy.name}"
        return f"{group}-{joined}", group, index, policy
    return job.uid, job.uid, 0, None


def _short_hash(text: str) -> str:
    """FNV-1a of a long name, as digits that may stand in a name."""
    value = 2166136261
    for byte in text.encode():
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return str(value)


def parse_bool(text: str) -> bool:
    """A written truth value as Go reads it; anything else is false."""
    return text in ("1", "t", "T", "TRUE", "true", "True")
