"""A job as a session of KAI sees it: its tree of sub-groups, its standing, and what of it is placed or goes next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from pumice.config.durations import parse_duration
from pumice.errors import InvalidInput
from pumice.kai.view.queues import QueueView
from pumice.kai.view.stage import ACTIVE, ALIVE, ALLOCATED, USED, TaskStage
from pumice.kai.view.subgroups import GroupSet, PodSet, part_of, tree_of
from pumice.kai.view.tasks import TaskView
from pumice.model.job import Job
from pumice.model.kai import KaiPodGroupSpec
from pumice.model.keys import LAST_EVICTION, LAST_START, STALE_SINCE, SUBGROUP_LABEL

DEFAULT_SET: Final = "default"
NON_PREEMPTIBLE_FROM: Final = 100
DEFAULT_PRIORITY: Final = 50
_WAITING: Final = frozenset({TaskStage.PENDING})
_PROMISED: Final = frozenset({TaskStage.PIPELINED})
_find: Final[Callable[..., Any]] = dict.get  # of labels, whose own asks what a key is


class JobView:
    """One job; whatever it does not have itself it has from the job that it is a view of.

    A view of a part of a job (`part`) shares the tasks of the whole.
    """

    __slots__ = (
        *(
            "anywhere",
            "changes",
            "creation",
            "flat",
            "grace",
            "job",
            "last_eviction",
            "last_start",
            "least",
            "likeness",
            "memo",
            "only",
            "plain",
            "preemptible",
        ),
        *(
            "preemption_delay",
            "priority",
            "problem",
            "queue",
            "root",
            "stale_since",
            "tasks",
            "uid",
            "unknown",
            "whole",
        ),
    )

    def __init__(
        self,
        job: Job,
        queue: QueueView,
        priority: int,
        tasks: Iterable[TaskView],
        problem: str = "",
        *,
        flat: bool = False,
    ) -> None:
        """*problem*: the rule that it breaks, or why it is left out for now. *flat*: it is taken for running only if
        every sub-group does, however few it needs.
        """
        self.job, self.flat = job, flat
        group = job.group
        self.uid = (group.metadata.uid if group is not None else "") or job.name
        self.queue = queue
        self.priority = priority
        self.creation = job.creation
        spec = group.spec if group is not None and isinstance(group.spec, KaiPodGroupSpec) else None
        said = spec.preemptibility if spec is not None else ""
        if said in ("preemptible", "non-preemptible"):
            self.preemptible = said == "preemptible"
        else:  # a PodGroup of Volcano's says it in its own words
            self.preemptible = priority < NON_PREEMPTIBLE_FROM and (spec is not None or job.preemptible)
        self.preemption_delay = _seconds(spec.preemption_delay) if spec is not None else None
        self.grace = _seconds(spec.staleness_grace_period) if spec is not None else None
        notes = job.annotations
        self.last_start = _time(notes.get(LAST_START)) if notes else None
        self.last_eviction = _time(notes.get(LAST_EVICTION)) if notes else None
        self.stale_since = _time(notes.get(STALE_SINCE)) if notes else None
        self.whole = self
        self.changes = 0
        """Grows with every change of a task of it; told of the whole."""
        self.memo: dict[object, tuple[object, Any]] = {}
        """What was worked out of it, each with the number of changes that it held for."""
        self.likeness: Hashable | None = None
        """What it has in common with jobs that are as hard to place, as of the first time that it was asked for."""
        self.unknown: list[TaskView] = []
        """Tasks that name a sub-group which does not exist."""
        self.tasks: dict[str, TaskView] = {}
        self.problem = problem
        self.plain = spec is None or not spec.sub_groups or bool(problem)
        """Report whether it has no sub-groups that can be used. Its tree is one pod set then, made on first use."""
        self.anywhere = self.plain and (spec is None or spec.topology_constraint is None)
        """Has it neither sub-groups nor a topology?"""
        if self.plain:
            self._sort_in(tasks, None)
            self.only, self.least = _only(self.tasks.values(), job.min_available)
        else:
            assert spec is not None
            self.root = tree_of(spec)
            self._sort_in(tasks, {p.name: p for p in self.root.pod_sets()})
            self.only, self.least = self._only_of_tree()
        """Its one task, where it has one in one pod set and no more: then there is nothing to choose among; and the
        minimum of the set."""

    def _sort_in(self, tasks: Iterable[TaskView], sets: dict[str, PodSet] | None) -> None:
        """Put tasks into the pod sets that they name; without *sets* there is the one by default."""
        own = self.tasks
        for task in tasks:
            labels = task.task.labels
            named = (_find(labels, SUBGROUP_LABEL) if labels else None) or DEFAULT_SET
            task.job = self
            if named not in sets if sets is not None else named != DEFAULT_SET and not self.problem:
                self.unknown.append(task)
                continue
            if sets is not None:
                task.podset = sets[named]
                task.podset.tasks.append(task)
            own[task.uid] = task

    def _only_of_tree(self) -> tuple[TaskView | None, int]:
        member = self.root.members[0] if len(self.root.members) == 1 else None
        return _only(member.tasks, member.minimum) if isinstance(member, PodSet) else (None, 0)

    def _plain_root(self) -> GroupSet:
        spec = self.job.group.spec if self.job.group is not None else None
        podset = PodSet(DEFAULT_SET, self.job.min_available, None, list(self.tasks.values()))
        for task in podset.tasks:
            task.podset = podset
        self.root = GroupSet(
            "", None, spec.topology_constraint if isinstance(spec, KaiPodGroupSpec) else None, [podset]
        )
        return self.root

    def __getattr__(self, name: str) -> Any:
        if name == "root":  # it was not looked at yet
            return self._plain_root()
        return getattr(object.__getattribute__(self, "job"), name)

    # -- what it is -------------------------------------------------------------------------------------------------
    def pod_sets(self) -> Iterator[PodSet]:
        """Every leaf of its tree."""
        return self.root.pod_sets()

    @property
    def ready(self) -> bool:
        """Report whether it could run: it breaks no rule, and there are pods enough."""
        if self.problem:
            return False
        only = self.only
        if only is not None and (self.plain or self.root.needed is None):
            return (only.stage in ALIVE and only.stage is not TaskStage.GATED) >= self.least
        return self.root.ready

    @property
    def pending(self) -> bool:
        """Has it tasks that wait?"""
        return self._has(_WAITING) if self.only is None else self.only.stage is TaskStage.PENDING

    @property
    def active(self) -> bool:
        """Has it tasks with a place or a promised one?"""
        return self._has(ACTIVE) if self.only is None else self.only.stage in ACTIVE

    def _has(self, stages: frozenset[TaskStage]) -> bool:
        for task in self.tasks.values():  # noqa: SIM110 - asked all the time, mostly of one task
            if task.stage in stages:
                return True
        return False

    @property
    def active_count(self) -> int:
        """Tasks with a place or a promised one."""
        return sum(1 for t in self.tasks.values() if t.stage in ACTIVE)

    @property
    def holds(self) -> bool:
        """Has it tasks that hold room now?"""
        return self._has(ALLOCATED)

    @property
    def waits_for_room(self) -> bool:
        """Has it tasks with a promised place?"""
        return self._has(_PROMISED)

    @property
    def gang_satisfied(self) -> bool:
        """Has it what it needs on nodes?"""
        if self.only is not None and self.plain:
            return (self.only.stage in USED) >= self.least
        return all(p.gang_satisfied for p in self.pod_sets()) if self.flat else self.root.gang_satisfied

    @property
    def elastic(self) -> bool:
        """Has a pod set more pods than its minimum? Those that failed are none."""
        if self.only is not None and self.plain:
            return self.least < 1
        failed = TaskStage.FAILED
        return any(sum([t.stage is not failed for t in p.tasks]) > p.minimum for p in self.pod_sets())

    @property
    def stale(self) -> bool:
        """Do some of its tasks run in vain, because too few others do?"""
        if self.only is not None and self.plain:
            return self.only.stage in USED and self.least > 1
        tasks = self.tasks.values()
        if any(t.stage is TaskStage.SUCCEEDED for t in tasks) or not any(t.stage in USED for t in tasks):
            return False
        return not self.gang_satisfied

    @property
    def is_least(self) -> bool:
        """Is it one task, wanted with no others? Then it has no smaller part."""
        if self.only is None or self.least > 1 or self.unknown:
            return False
        return self.plain or self.root.needed is None

    # -- parts ------------------------------------------------------------------------------------------------------
    def part(self, uids: set[str], *, least: bool = False) -> JobView:
        """The job with these of its tasks only. *least*: it wants no more than there is of it."""
        other = object.__new__(JobView)
        for name in JobView.__slots__:
            if name not in ("least", "memo", "only", "root", "tasks"):
                setattr(other, name, getattr(self, name))
        other.memo = {}
        other.root = part_of(self.root, uids, least=least)
        other.tasks = {u: t for u, t in self.tasks.items() if u in uids}
        other.only, other.least = other._only_of_tree()
        return other

    def __repr__(self) -> str:
        return f"<JobView {self.job.uid}>"


def _only(tasks: Collection[TaskView], minimum: int) -> tuple[TaskView | None, int]:
    """The task of a pod set, and the minimum of the set, where it has but one."""
    if len(tasks) == 1:
        for task in tasks:
            return task, minimum
    return None, 0


def _seconds(text: str) -> float | None:
    if not text:
        return None
    try:
        return parse_duration(text, days=True) / 1e9
    except InvalidInput:
        return None


def _time(text: str | None) -> float | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
