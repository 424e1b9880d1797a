"""Jobs of a session of KAI: the tree of sub-groups, and what of it is placed or evicted together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias

from pumice.config.durations import parse_duration
from pumice.errors import InvalidInput
from pumice.kai.view.queues import QueueView
from pumice.kai.view.tasks import ACTIVE, ALIVE, ALLOCATED, USED, TaskStage, TaskView
from pumice.model.job import Job
from pumice.model.kai import KaiPodGroupSpec, TopologyConstraint
from pumice.model.keys import LAST_EVICTION, LAST_START, STALE_SINCE, SUBGROUP_LABEL

Member: TypeAlias = "PodSet | GroupSet"
Sort: TypeAlias = "Callable[[Sequence[Member]], list[Member]]"
SortTasks: TypeAlias = Callable[[Sequence[TaskView]], list[TaskView]]


@dataclass(slots=True, eq=False)
class PodSet:
    """A leaf: tasks of which at least *minimum* must run together."""

    name: str
    minimum: int
    topology: TopologyConstraint | None = None
    tasks: list[TaskView] = field(default_factory=list)

    def count(self, stages: frozenset[TaskStage]) -> int:
        """How many tasks are in any of the stages."""
        return sum(1 for t in self.tasks if t.stage in stages)

    @property
    def active(self) -> int:
        """Tasks with a place or a promised one."""
        return self.count(ACTIVE)

    @property
    def satisfied(self) -> bool:
        """Report whether it has its minimum."""
        return self.active >= self.minimum

    @property
    def placeable(self) -> int:
        """Tasks that have a place or could be given one."""
        return sum(1 for t in self.tasks if t.stage in ALIVE and t.stage is not TaskStage.GATED)

    @property
    def ready(self) -> bool:
        """Report whether it can have its minimum."""
        return self.placeable >= self.minimum

    @property
    def gang_satisfied(self) -> bool:
        """Report whether it has its minimum on nodes, leaving tasks included."""
        return self.count(USED) >= self.minimum

    def eligible(self, real: bool) -> list[TaskView]:
        """The tasks that may be placed; in a simulation, its victims too."""
        return [t for t in self.tasks if is_eligible(t, real)]

    def pod_sets(self) -> Iterator[PodSet]:
        """Itself."""
        yield self

    def active_tasks(self) -> list[TaskView]:
        """Those with a place or a promised one."""
        return [t for t in self.tasks if t.stage in ACTIVE]


@dataclass(slots=True, eq=False)
class GroupSet:
    """An inner node: so many of its members, or all of them, must run together."""

    name: str
    needed: int | None = None
    topology: TopologyConstraint | None = None
    members: list[Member] = field(default_factory=list)

    @property
    def need(self) -> int:
        """How many members must run together."""
        return self.needed if self.needed is not None else len(self.members)

    @property
    def satisfied_members(self) -> int:
        """How many members have what they need."""
        return sum(1 for m in self.members if m.satisfied)

    @property
    def satisfied(self) -> bool:
        """Report whether enough members have what they need."""
        return self.satisfied_members >= self.need

    @property
    def ready(self) -> bool:
        """Report whether enough members can have what they need."""
        return sum(1 for m in self.members if m.ready) >= self.need

    @property
    def gang_satisfied(self) -> bool:
        """Report whether enough members have what they need on nodes, leaving tasks included."""
        return sum(1 for m in self.members if m.gang_satisfied) >= self.need

    def pod_sets(self) -> Iterator[PodSet]:
        """Every leaf below."""
        for member in self.members:
            yield from member.pod_sets()

    def active_tasks(self) -> list[TaskView]:
        """Those with a place or a promised one."""
        return [t for m in self.members for t in m.active_tasks()]


def tree_of(spec: KaiPodGroupSpec) -> GroupSet:
    """The tree of sub-groups that a PodGroup describes."""
    root = GroupSet("", spec.min_sub_group, spec.topology_constraint)
    groups = spec.sub_groups or ()
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


def part_of(group: GroupSet, uids: set[str], *, least: bool) -> GroupSet:
    """A tree with these tasks only. *least*: it wants no more than there is of it."""
    members: list[Member] = []
    for m in group.members:
        if isinstance(m, GroupSet):
            inner = part_of(m, uids, least=least)
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


def is_eligible(task: TaskView, real: bool) -> bool:
    """May a task be placed? In a simulation, a victim too."""
    stage = task.stage
    return stage is TaskStage.PENDING or (not real and stage is TaskStage.RELEASING and task.virtual)


# -- what is placed together ----------------------------------------------------------------------------------------
def chunk(group: GroupSet, real: bool, sort: Sort, sort_tasks: SortTasks) -> list[TaskView]:
    """The tasks that one attempt places: what is missing to the gang, else the next piece of growth."""
    kids = sort(group.members)
    if not group.satisfied:
        return [t for m in kids[: group.need] if not m.satisfied for t in _piece(m, real, sort, sort_tasks)]
    for member in kids:
        found = _piece(member, real, sort, sort_tasks)
        if found:
            return found
    return []


def _piece(member: Member, real: bool, sort: Sort, sort_tasks: SortTasks) -> list[TaskView]:
    if isinstance(member, GroupSet):
        return chunk(member, real, sort, sort_tasks)
    active = member.active
    wanted = member.minimum - active if active < member.minimum else 1
    eligible = member.eligible(real)
    return sort_tasks(eligible)[:wanted] if len(eligible) > 1 else eligible[:wanted]


# -- what goes together ---------------------------------------------------------------------------------------------
def piece_to_evict(root: GroupSet, sort: Sort, sort_tasks: SortTasks) -> list[TaskView]:
    """The tasks that go next: the last piece of growth, else everything."""
    return _surplus_piece(root, sort, sort_tasks) or root.active_tasks()


def _surplus_piece(group: GroupSet, sort: Sort, sort_tasks: SortTasks) -> list[TaskView]:
    if not any(m.satisfied for m in group.members):
        return []
    kids = sort(group.members)[::-1]
    if _has_surplus(group):
        for member in kids:
            if isinstance(member, GroupSet):
                found = _surplus_piece(member, sort, sort_tasks)
            else:
                active = member.active_tasks()
                found = sort_tasks(active)[-1:] if len(active) > member.minimum else []
            if found:
                return found
    if group.satisfied_members > group.need:
        return next((found for m in kids if (found := m.active_tasks())), [])
    return []


def _has_surplus(group: GroupSet) -> bool:
    """Report whether there is more than needed, here or below."""
    if group.satisfied_members > group.need:
        return True
    for member in group.members:
        if isinstance(member, GroupSet):
            if _has_surplus(member):
                return True
        elif 0 < member.active > member.minimum:
            return True
    return False


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
        """Results computed from it, each with the number of changes that it was valid for."""
        self.likeness: Hashable | None = None
        """The signature that it shares with jobs that are as hard to place, as of the first request."""
        self.unknown: list[TaskView] = []
        """Tasks that name a sub-group which does not exist."""
        self.tasks: dict[str, TaskView] = {}
        self.problem = problem
        self.plain = spec is None or not spec.sub_groups or bool(problem)
        """Report whether it has no sub-groups that can be used. Its tree is one pod set then, made on first use."""
        self.anywhere = self.plain and (spec is None or spec.topology_constraint is None)
        """Report whether it has neither sub-groups nor a topology."""
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
        """Report whether it has pending tasks."""
        return self._has(_WAITING) if self.only is None else self.only.stage is TaskStage.PENDING

    @property
    def active(self) -> bool:
        """Report whether it has tasks with a place or a promised place."""
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
        """Report whether it has tasks that hold room now."""
        return self._has(ALLOCATED)

    @property
    def waits_for_room(self) -> bool:
        """Report whether it has tasks with a promised place."""
        return self._has(_PROMISED)

    @property
    def gang_satisfied(self) -> bool:
        """Report whether it has what it needs on nodes."""
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
        """Report whether some of its tasks run in vain, because too few others run."""
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
        other.__dict__.update(self.__dict__, memo={})
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
