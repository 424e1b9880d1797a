"""A job as a session of KAI sees it: its tree of sub-groups, its standing, and what of it is placed or goes next."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final, cast

from pumice.config.durations import parse_duration
from pumice.errors import InvalidInput
from pumice.kai.view.queues import QueueView
from pumice.kai.view.stage import ACTIVE, ALIVE, ALLOCATED, USED, TaskStage
from pumice.kai.view.subgroups import GroupSet, Member, PodSet
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
            "preemptible",
        ),
        *("preemption_delay", "priority", "queue", "root", "stale_since", "tasks", "uid", "unknown", "whole"),
    )

    def __init__(
        self, job: Job, queue: QueueView, priority: int, tasks: Iterable[TaskView], *, flat: bool = False
    ) -> None:
        """*flat*: it is taken for running only if every sub-group does, however few it needs."""
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
        self.memo: dict[object, tuple[int, Any]] = {}
        """What was worked out of it, each with the number of changes that it held for."""
        self.likeness: Hashable | None = None
        """What it has in common with jobs that are as hard to place, as of the first time that it was asked for."""
        self.unknown: list[TaskView] = []
        """Tasks that name a sub-group which does not exist."""
        self.root = _tree(spec, job.min_available)
        self.tasks: dict[str, TaskView] = {}
        plain = spec is None or not spec.sub_groups
        self._sort_in(tasks, None if plain else {p.name: p for p in self.root.pod_sets()})
        self.only, self.least = _only(self.root)
        """Its one task, where it has one in one pod set and no more: then there is nothing to choose among; and the
        minimum of the set."""

    def _sort_in(self, tasks: Iterable[TaskView], sets: dict[str, PodSet] | None) -> None:
        """Put tasks into the pod sets that they name; without *sets* there is the one by default."""
        plain = cast(PodSet, self.root.members[0]) if sets is None else None
        for task in tasks:
            labels = task.task.labels
            named = _find(labels, SUBGROUP_LABEL) if labels else None
            wanted = named or DEFAULT_SET
            podset = sets.get(wanted) if sets is not None else plain if wanted == DEFAULT_SET else None
            task.job = self
            if podset is None:
                self.unknown.append(task)
                continue
            task.podset = podset
            podset.tasks.append(task)
            self.tasks[task.uid] = task

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "job"), name)

    # -- what it is -------------------------------------------------------------------------------------------------
    def pod_sets(self) -> Iterator[PodSet]:
        """Every leaf of its tree."""
        return self.root.pod_sets()

    @property
    def ready(self) -> bool:
        """Could it run: are there pods enough?"""
        only = self.only
        if only is not None and self.root.needed is None:
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
        return all(p.gang_satisfied for p in self.pod_sets()) if self.flat else self.root.gang_satisfied

    @property
    def elastic(self) -> bool:
        """Has a pod set more pods than its minimum?"""
        return any(len(p.tasks) > p.minimum for p in self.pod_sets())

    @property
    def stale(self) -> bool:
        """Do some of its tasks run in vain, because too few others do?"""
        tasks = self.tasks.values()
        if any(t.stage is TaskStage.SUCCEEDED for t in tasks) or not any(t.stage in USED for t in tasks):
            return False
        return not self.gang_satisfied

    @property
    def is_least(self) -> bool:
        """Is it one task, wanted with no others? Then it has no smaller part."""
        return self.only is not None and self.least <= 1 and self.root.needed is None and not self.unknown

    # -- parts ------------------------------------------------------------------------------------------------------
    def part(self, uids: set[str], *, least: bool = False) -> JobView:
        """The job with these of its tasks only. *least*: it wants no more than there is of it."""
        other = object.__new__(JobView)
        for name in JobView.__slots__:
            if name not in ("least", "memo", "only", "root", "tasks"):
                setattr(other, name, getattr(self, name))
        other.memo = {}
        other.root = _part(self.root, uids, least)
        other.tasks = {u: t for u, t in self.tasks.items() if u in uids}
        other.only, other.least = _only(other.root)
        return other

    def __repr__(self) -> str:
        return f"<JobView {self.job.uid}>"


def _only(root: GroupSet) -> tuple[TaskView | None, int]:
    if len(root.members) != 1:
        return None, 0
    member = root.members[0]
    return (member.tasks[0], member.minimum) if isinstance(member, PodSet) and len(member.tasks) == 1 else (None, 0)


def _part(group: GroupSet, uids: set[str], least: bool) -> GroupSet:
    members: list[Member] = []
    for m in group.members:
        if isinstance(m, GroupSet):
            inner = _part(m, uids, least)
            if inner.members or not least:
                members.append(inner)
            continue
        tasks = [t for t in m.tasks if t.uid in uids]
        if not tasks and least:
            continue
        members.append(PodSet(m.name, min(m.minimum, len(tasks)) if least else m.minimum, m.topology, tasks))
    needed = group.needed
    if least and needed is not None:
        needed = min(needed, len(members))
    return GroupSet(group.name, needed, group.topology, members)


def _tree(spec: KaiPodGroupSpec | None, minimum: int) -> GroupSet:
    """The tree that a PodGroup describes; without sub-groups, one pod set below the root."""
    groups = spec.sub_groups if spec is not None else None
    if spec is None or not groups:
        topology = spec.topology_constraint if spec is not None else None
        return GroupSet("", None, topology, [PodSet(DEFAULT_SET, minimum, None, [])])
    root = GroupSet("", spec.min_sub_group, spec.topology_constraint, [])
    parents = {g.parent for g in groups if g.parent}
    made: dict[str, Member] = {}
    for g in groups:
        if g.name in parents:
            made[g.name] = GroupSet(g.name, g.min_sub_group, g.topology_constraint)
        else:
            made[g.name] = PodSet(g.name, g.min_member or 0, g.topology_constraint)
    for g in groups:
        parent = made.get(g.parent) if g.parent else root
        if isinstance(parent, GroupSet):
            parent.members.append(made[g.name])
    return root


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
