"""The tree of sub-groups of a job, with pod sets as its leaves, and what of it comes and goes together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pumice.kai.view.stage import ACTIVE, ALIVE, USED, TaskStage
from pumice.kai.view.tasks import TaskView
from pumice.model.kai import KaiPodGroupSpec, TopologyConstraint

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
        """Has it its minimum?"""
        return self.active >= self.minimum

    @property
    def placeable(self) -> int:
        """Tasks that have a place or could be given one."""
        return sum(1 for t in self.tasks if t.stage in ALIVE and t.stage is not TaskStage.GATED)

    @property
    def ready(self) -> bool:
        """Could it have its minimum?"""
        return self.placeable >= self.minimum

    @property
    def gang_satisfied(self) -> bool:
        """Has it its minimum on nodes, those on their way out included?"""
        return self.count(USED) >= self.minimum

    def eligible(self, real: bool) -> list[TaskView]:
        """What may be placed; in a simulation, victims of it too."""
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
        """Have enough members what they need?"""
        return self.satisfied_members >= self.need

    @property
    def ready(self) -> bool:
        """Could enough members have what they need?"""
        return sum(1 for m in self.members if m.ready) >= self.need

    @property
    def gang_satisfied(self) -> bool:
        """Have enough members what they need on nodes, those on their way out included?"""
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
    """Is there more than is needed, here or below?"""
    if group.satisfied_members > group.need:
        return True
    for member in group.members:
        if isinstance(member, GroupSet):
            if _has_surplus(member):
                return True
        elif 0 < member.active > member.minimum:
            return True
    return False
