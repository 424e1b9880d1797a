"""A job (one PodGroup with its tasks), its sub-jobs, and the counts that gang decisions are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pumice.model import keys
from pumice.model.api import NetworkTopology, PodGroup, SubGroupPolicy
from pumice.model.mapping import NOTHING, ReadOnlyMap
from pumice.model.quantity import whole_number
from pumice.model.resources import EMPTY, Number, Resources
from pumice.model.sealed import Sealed
from pumice.model.selectors import label_selector_matches
from pumice.model.status import READY_STATUSES, STATUS_COUNT, JobPhase, TaskStatus
from pumice.model.task import PREEMPTABLE_KEY, Task, TaskMap

PREEMPTIBILITY_LABEL: Final = keys.PREEMPTIBILITY_LABEL
KAI_QUEUE_LABEL: Final = keys.KAI_QUEUE_LABEL
KAI_NON_PREEMPTIBLE: Final = 100
"""From this priority on KAI does not preempt jobs that do not say otherwise."""
S = TaskStatus
READY: Final = tuple(sorted(int(s) for s in READY_STATUSES))
"""The statuses that count towards a gang."""
_ALLOCATED, _BINDING, _BOUND, _RUNNING, _SUCCEEDED = READY


_PLACEABLE: Final = (int(S.PIPELINED), int(S.PENDING))
_ASK_NOTHING: Final = (STATUS_COUNT,)
_PROMISED: Final = (int(S.PIPELINED), STATUS_COUNT)
"""Places in the counts of a role."""


def _ready(counts: list[int]) -> int:
    """The number of tasks that have a place or are done, from tasks counted by status."""
    return counts[_ALLOCATED] + counts[_BINDING] + counts[_BOUND] + counts[_RUNNING] + counts[_SUCCEEDED]


class TaskGroup(Sealed):
    """Tasks with their counts by status; what `Job` and `SubJob` share."""

    __slots__ = (
        "_by_status",
        "_role_counts",
        "_tasks",
        "min_available",
        "pending_best_effort_count",
        "tasks",
        "version",
    )

    tasks: Final[TaskMap]
    min_available: Final[int]
    pending_best_effort_count: Final[int]
    """Pending tasks that ask for nothing."""
    version: Final[int]
    """Grows with every change."""

    def __init__(self, shared: TaskGroup | None = None, min_available: int = 0) -> None:
        """*shared*: have the tasks of another group, and follow them."""
        self._tasks: TaskMap = shared._tasks if shared is not None else TaskMap()
        self._by_status: tuple[TaskMap, ...] = (
            shared._by_status if shared is not None else tuple([TaskMap() for _ in range(STATUS_COUNT)])
        )
        self._role_counts: dict[str, list[int]] = shared._role_counts if shared is not None else {}
        self.tasks = self._tasks
        self.min_available = min_available
        self.pending_best_effort_count = 0
        self.version = 0

    def with_status(self, status: TaskStatus) -> TaskMap:
        """The tasks in one status, by UID."""
        return self._by_status[status]

    @property
    def counts(self) -> tuple[int, ...]:
        """How many tasks are in each status, in the order of `TaskStatus`."""
        return tuple(map(len, self._by_status))

    def count(self, *statuses: TaskStatus) -> int:
        """How many tasks are in any of the statuses."""
        by_status, found = self._by_status, 0
        for s in statuses:
            found += len(by_status[s])
        return found

    @property
    def ready_count(self) -> int:
        """Tasks that have a place or are done: Bound, Binding, Running, Allocated, Succeeded."""
        b = self._by_status
        return len(b[_BOUND]) + len(b[_BINDING]) + len(b[_RUNNING]) + len(b[_ALLOCATED]) + len(b[_SUCCEEDED])

    @property
    def waiting_count(self) -> int:
        """Tasks that wait for room which is being released."""
        return len(self._by_status[S.PIPELINED])

    @property
    def valid_count(self) -> int:
        """Tasks that run, ran to the end, or may still be placed."""
        return self.ready_count + len(self._by_status[S.PIPELINED]) + len(self._by_status[S.PENDING])

    @property
    def is_ready(self) -> bool:
        """Enough tasks have a place."""
        return self.ready_count + self.pending_best_effort_count >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        """Enough tasks have a place or a promised one."""
        return self.waiting_count + self.ready_count + self.pending_best_effort_count >= self.min_available

    @property
    def is_starving(self) -> bool:
        """Too few tasks have a place or a promised one."""
        return self.waiting_count + self.ready_count < self.min_available


class SubJob(TaskGroup):
    """The part of a job that one sub-group policy sets apart, or all the rest of it."""

    __slots__ = ("group", "job", "match_index", "topology", "uid")

    job: Final[Job]
    uid: Final[str]
    group: Final[str]
    match_index: Final[int]
    topology: Final[NetworkTopology | None]

    def __init__(self, job: Job, uid: str, group: str, match_index: int, *, whole: bool = False) -> None:
        """*whole*: the job with all its tasks, as one."""
        super().__init__(job if whole else None, job.min_available if whole else 0)
        self.job, self.uid = job, uid
        self.group, self.match_index = group, match_index
        self.topology = job.topology if whole else None

    @property
    def priority(self) -> int:
        """The highest priority of its tasks, at least 0."""
        return max(0, *(t.priority for t in self.tasks.values())) if self.tasks else 0

    @property
    def is_default(self) -> bool:
        """Holds the tasks that no policy sets apart."""
        return self.uid == self.job.uid

    def __repr__(self) -> str:
        return f"<SubJob {self.uid}>"


class Job(TaskGroup):
    """A job as plugins see it. Read-only: everything is changed by the state alone."""

    __slots__ = (
        *("_allocated", "_contribution", "_held", "_pending", "_sub_jobs", "_total", "allocated", "annotations"),
        *(
            "creation",
            "group",
            "has_topology",
            "held",
            "in_session",
            "labels",
            "left_out",
            "min_resources",
            "name",
            "namespace",
            "pending",
        ),
        *("phase", "policies", "priority", "problem", "queue", "role_minimums", "role_total", "sub_jobs", "together"),
        *("total_request", "uid"),
    )

    uid: Final[str]
    name: Final[str]
    namespace: Final[str]
    queue: Final[str]
    """The name of its queue."""
    priority: Final[int]
    creation: Final[float]
    labels: Final[ReadOnlyMap[str, str]]
    annotations: Final[ReadOnlyMap[str, str]]
    phase: Final[str]
    """The phase of its PodGroup, or nothing."""
    min_resources: Final[Resources | None]
    """The minimum of the PodGroup; None if it sets none."""
    sub_jobs: Final[SubJobMap]
    group: Final[PodGroup | None]
    policies: Final[tuple[SubGroupPolicy, ...]]
    """Its sub-group policies."""
    has_topology: Final[bool]
    """Whether the job or one of its policies asks for a network topology."""
    problem: Final[str]
    """The problem of its PodGroup, or nothing; a job with a problem is not scheduled."""
    left_out: Final[str]
    """Why no action looks at it for now, because a cycle failed while it worked on it; or nothing."""
    in_session: Final[bool]
    """Whether it can be scheduled: it has a PodGroup and a queue."""
    role_minimums: Final[ReadOnlyMap[str, int]]
    role_total: Final[int]
    together: Final[bool]
    """Whether it is evicted as a whole or not at all."""
    allocated: Final[Resources]
    """Held by its tasks now."""
    held: Final[Resources]
    """Held by its tasks now, or promised to them in this session."""
    pending: Final[Resources]
    """Asked for by its waiting tasks."""
    total_request: Final[Resources]
    """Asked for by all its tasks."""

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__()
        self.uid = f"{namespace}/{name}"
        self.namespace, self.name = namespace, name
        self.group, self.policies, self.has_topology = None, (), False
        self.queue = ""
        self.priority = 0
        self.creation = 0.0
        self.labels = self.annotations = NOTHING
        self.phase = ""
        self.min_resources = None
        self._allocated: dict[int, Number] = {}
        self._held: dict[int, Number] = {}
        self._pending: dict[int, Number] = {}
        self._total: dict[int, Number] = {}
        self.allocated, self.held = Resources(self._allocated), Resources(self._held)
        self.pending, self.total_request = Resources(self._pending), Resources(self._total)
        self._sub_jobs = self.sub_jobs = SubJobMap()
        self.problem = self.left_out = ""
        self._contribution: tuple[str, Resources, Resources, Resources] = ("", EMPTY, EMPTY, EMPTY)
        self.role_minimums = ReadOnlyMap()
        self.role_total = 0
        self.together = False
        self.in_session = False

    # -- what it is -----------------------------------------------------------------------------------------------
    @property
    def preemptible(self) -> bool:
        """Report whether its tasks may be victims. Said by the job, else by its tasks (which may, unless they say
        otherwise).

        A job in one of KAI's queues that says nothing may if its priority is below 100: KAI's rule.
        """
        if self.annotations or self.labels:
            said = self.annotations.get(PREEMPTABLE_KEY, self.labels.get(PREEMPTABLE_KEY))
            if said is not None:
                return parse_bool(said)
        kai = self._kai(PREEMPTIBILITY_LABEL)
        if kai in ("preemptible", "non-preemptible"):
            return kai == "preemptible"
        if self.priority >= KAI_NON_PREEMPTIBLE and (kai is not None or self._kai(KAI_QUEUE_LABEL) is not None):
            return False
        for task in self.tasks.values():  # noqa: SIM110 - asked of every job
            if not task.preemptable:
                return False
        return True

    def _kai(self, label: str) -> str | None:
        """The value of a label of KAI's: of the PodGroup, else of a pod, as its pod-grouper would copy it."""
        if self.labels or self.annotations:
            own = self.labels.get(label, self.annotations.get(label))
            if own is not None:
                return own
        for task in self.tasks.values():
            if task.labels and label in task.labels:
                return task.labels[label]
        return None

    @property
    def kind(self) -> str:
        """The kind of its PodGroup: Volcano's (and KAI's), or Kubernetes' own under its full name."""
        return self.group.kind_name if self.group is not None else PodGroup.kind_name

    @property
    def is_pending(self) -> bool:
        """Not yet let into its queue."""
        return self.group is None or self.phase in ("", JobPhase.PENDING)

    @property
    def topology(self) -> NetworkTopology | None:
        """Its network topology request."""
        return self.group.spec.network_topology if self.group else None

    def join(self, group: PodGroup | None) -> None:
        """Take over what the PodGroup says of parts and topology; None: it has none. For the state."""
        spec = group.spec if group is not None else None
        draft: Any = self
        draft.group = group
        draft.policies = policies = (spec.sub_group_policy if spec is not None else None) or ()
        draft.has_topology = spec is not None and (
            spec.network_topology is not None or any(p.network_topology is not None for p in policies)
        )

    def whole(self) -> SubJob:
        """The whole job as one sub-job: what a job without policies is to those who ask by sub-job."""
        return SubJob(self, self.uid, self.uid, 0, whole=True)

    # -- gang checks ----------------------------------------------------------------------------------------------
    def roles_valid(self) -> bool:
        """Every role has as many tasks as its minimum, placed or placeable."""
        return self._roles(_PLACEABLE)

    def roles_ready(self, unplaceable: Mapping[str, int] | None = None) -> bool:
        """Every role has its minimum of tasks placed; waiting best-effort ones count as placed, but for so many."""
        return self._roles(_ASK_NOTHING, unplaceable)

    def roles_pipelined(self) -> bool:
        """Every role has its minimum of tasks placed or promised a place."""
        return self._roles(_PROMISED)

    def _roles(self, more: tuple[int, ...], less: Mapping[str, int] | None = None) -> bool:
        """Report whether every role has its minimum of tasks that are ready or counted at one of these places."""
        if not self.role_minimums or self.min_available < self.role_total:
            return True
        for role, minimum in self.role_minimums.items():
            counts = self._role_counts.get(role)
            if counts is None:
                if minimum > 0:
                    return False
                continue
            have = _ready(counts) - (less.get(role, 0) if less else 0)
            for place in more:
                have += counts[place]
            if have < minimum:
                return False
        return True

    def role_ready_count(self, role: str) -> int:
        """Tasks of a role that count as placed, waiting best-effort ones included."""
        counts = self._role_counts.get(role)
        return _ready(counts) + counts[STATUS_COUNT] if counts else 0

    def sub_jobs_valid(self, *, half: bool = False) -> bool:
        """Every policy has enough sub-jobs with all the pods that they need; *half*: whether they have them or not."""
        return self._policies(lambda sj: half or sj.valid_count >= sj.min_available)

    def sub_jobs_ready(self, unplaceable: Mapping[str, int] | None = None) -> bool:
        """Every policy has enough ready sub-jobs; waiting best-effort tasks count as placed, but for so many by UID."""
        if not unplaceable:
            return self._policies(lambda sj: sj.is_ready)
        less = unplaceable
        return self._policies(
            lambda sj: sj.ready_count + sj.pending_best_effort_count - less.get(sj.uid, 0) >= sj.min_available
        )

    def sub_jobs_pipelined(self) -> bool:
        """Every policy has enough sub-jobs that are ready or wait for promised room."""
        return self._policies(lambda sj: sj.is_pipelined)

    def spare_sub_jobs(self, group: str) -> int:
        """How many ready sub-jobs the policy of *group* has beyond those that it needs."""
        least = next((p.min_sub_groups or 0 for p in self.policies if f"{self.uid}/{p.name}" == group), 0)
        return sum(1 for sj in self.sub_jobs.values() if sj.group == group and sj.is_ready) - least

    def is_pipelined_whole(self) -> bool:
        """As `is_pipelined`, but a promised place counts only in a sub-job that has all that it needs."""
        if not self.policies:
            return self.is_pipelined
        coming = sum(sj.waiting_count for sj in self.sub_jobs.values() if sj.is_pipelined)
        return coming + self.ready_count + self.pending_best_effort_count >= self.min_available

    def _policies(self, counts: Callable[[SubJob], bool]) -> bool:
        for policy in self.policies:
            group = f"{self.uid}/{policy.name}"
            have = sum(1 for sj in self.sub_jobs.values() if sj.group == group and counts(sj))
            if have < (policy.min_sub_groups or 0):
                return False
        return True

    # -- sums -----------------------------------------------------------------------------------------------------
    def elastic(self) -> Resources:
        """Held beyond its minimum."""
        least = dict((self.min_resources or EMPTY).items())
        out: dict[int, Number] = dict.fromkeys(least, 0)
        for d, v in self._allocated.items():
            out[d] = max(v - least.get(d, 0), 0)
        return Resources(out)

    def without_gated(self, resources: Resources) -> Resources:
        """*resources* less what its gated tasks ask for, never below 0."""
        gated = [t for t in self._by_status[S.PENDING].values() if t.gates and t.gated]
        if not gated:
            return resources
        out = dict(resources.items())
        for task in gated:
            for d, v in task.klass.items:
                if d in out:
                    out[d] = max(out[d] - v, 0)
        return Resources(out)

    def allocated_count(self) -> int:
        """Tasks that hold room now."""
        b = self._by_status
        return len(b[_BOUND]) + len(b[_BINDING]) + len(b[_RUNNING]) + len(b[_ALLOCATED])

    def __repr__(self) -> str:
        return f"<Job {self.uid} {self.phase or '-'} {len(self.tasks)} tasks>"


class SubJobMap(ReadOnlyMap[str, SubJob]):
    """Sub-jobs by UID."""

    __slots__ = ()
    holds = SubJob


class JobMap(ReadOnlyMap[str, Job]):
    """Jobs by UID."""

    __slots__ = ()
    holds = Job


def sub_job_of(job: Job, task: Task) -> tuple[str, str, int, SubGroupPolicy | None]:
    """Which sub-job a task belongs to: (sub-job id, group id, match index, policy)."""
    for policy in job.policies:
        if policy.label_selector is not None and not label_selector_matches(policy.label_selector, task.labels):
            continue
        keys = policy.match_label_keys or ()
        values = [task.labels.get(k, "") for k in keys]
        if not keys or not all(values):
            continue
        index = whole_number(values[0], -(2**63)) or 0
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
