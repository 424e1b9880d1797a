"""Who could be evicted at all, and where a task could fit then: bounds for all nodes at once, nobody asked yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pumice.engine.victims import EvictableRoom
from pumice.framework.evicting.eviction_plan import spares
from pumice.framework.points.point import Point
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus
from pumice.model.task import Task

S = TaskStatus
Bools = npt.NDArray[np.bool_]
FromQueue: TypeAlias = Callable[[str], bool]
Victims: TypeAlias = Point[[Task, Sequence[Task]], Any, list[Task] | None]
Group: TypeAlias = tuple[str, tuple[Hashable, ...]]
"""A queue, and what plugins go by when they say whose tasks are never victims; also of who asks."""

_NOBODY: Final[frozenset[Group]] = frozenset()


class PossibleVictims:
    """Those whom evictions of one action could reach, in groups; *point* is the question that says who may go."""

    def __init__(self, ssn: Session, point: Victims) -> None:
        self._ssn = ssn
        self._profiles = ssn.victim_profiles(point)
        self._spares = spares(ssn)
        self._known_groups: dict[Group, Group] = {}
        self._room: EvictableRoom[Group] | None = None
        self._nobody: EvictableRoom[Group] | None = None
        self._worth: dict[tuple[Group, Hashable, int], int] = {}
        self._reached: dict[Group, tuple[EvictableRoom[Group], frozenset[Group]]] = {}
        """Who asks -> what there would be, and who would be gone."""
        self._worth_at = -1
        self._possible_groups: dict[str, Collection[Group]] = {}
        self._possible_at = -1

    def could_help(self, job: Job, queue: Queue, from_queue: FromQueue) -> bool:
        """Could nodes take as many of the job's waiting tasks as it needs together, were every possible victim gone?

        Asked about thousands of jobs that wait: jobs of one queue, profile and class share the answers.
        """
        table = self._ssn.state.table
        known = self._worth
        if self._worth_at != table.touched.position:
            known.clear()
            self._reached.clear()
            self._worth_at = table.touched.position
        who = queue.name, tuple([profile(job) for _, profile, _ in self._profiles])
        needed, found = max(self._ssn.needed_to_keep(job), 1) if self._spares else 1, 0
        alike: dict[Hashable, list[Task]] = {}
        for task in job.with_status(S.PENDING).values():
            if task.nominated_node:  # the room that is held for it is no obstacle to it
                return True
            alike.setdefault(self._ssn.search.evaluator.key_of(task), []).append(task)
        for of, tasks in alike.items():
            most = min(needed, len(tasks))
            places = known.get((who, of, most))
            if places is None:
                beyond = self._beyond(tasks[0], who, from_queue)
                places = known[who, of, most] = 0 if beyond else self._places(tasks[0], from_queue, most)
            found += min(places, most)
            if found >= needed:
                return True
        return False

    def _beyond(self, task: Task, who: Group, from_queue: FromQueue) -> bool:
        """Does it ask for more than any node would have, as far as that is added up? Then no node is looked at."""
        reached = self._reached.get(who)
        if reached is None:
            if self._room is not None:
                reached = self._room, frozenset(self._admitted(task, from_queue, self._room.groups()))
            elif not self._anybody(task, from_queue):
                reached = self._none, _NOBODY
            else:
                return False
            self._reached[who] = reached
        room, gone = reached
        return room.beyond(task.klass, gone)

    def _places(self, task: Task, from_queue: FromQueue, most: int) -> int:
        """How many such tasks nodes could take, up to about so many.

        Where nobody may go, what is known of the class without evictions holds, and no node is looked at.
        """
        why_not = self._ssn.search.chooser.why_not
        if why_not.known_hopeless(task) is not None and not self._anybody(task, from_queue):
            return 0
        if not self._somewhere(task, from_queue):
            return 0
        if most < 2 or self._room is None:  # nobody may go, as far as that is known
            return most
        view, groups = self._ssn.search.evaluator.view(task), self._admitted(task, from_queue, self.room.groups())
        room = self.room.room_for(task.klass, frozenset(groups), most)
        for code in view.static_code:
            room[code[: room.size] != 0] = 0
        return int(room.sum())

    def _somewhere(self, task: Task, from_queue: FromQueue) -> bool:
        """Could a node take it, were every possible victim gone? What is larger than every node needs no adding up."""
        klass, table = task.klass, self._ssn.state.table
        mask: Bools = self._ssn.search.evaluator.view(task).severity <= 1
        for d, v in zip(klass.fit_dims, klass.fit_values, strict=True):
            mask &= table.allocatable[d, : mask.size] >= v
        return bool(mask.any()) and bool((mask & self._could_fit(task, from_queue)).any())

    def could_fit(self, task: Task, from_queue: FromQueue | None) -> Bools:
        """Per node: could the task ever fit, were every possible victim gone?"""
        if from_queue is not None:
            return self._could_fit(task, from_queue)
        own = [(t, "own") for s in (S.RUNNING, S.BOUND) for t in task.job.with_status(s).values() if t.preemptable]
        room = EvictableRoom(self._ssn.state.table, own, lambda t: "own" if t.preemptable else None)
        return room.could_fit(task.klass, frozenset(("own",)))

    def _could_fit(self, task: Task, from_queue: FromQueue) -> Bools:
        if self._room is None and not self._anybody(task, from_queue):  # nothing to add up
            return self._none.could_fit(task.klass, _NOBODY)
        return self.room.could_fit(task.klass, frozenset(self._admitted(task, from_queue, self.room.groups())))

    @property
    def _none(self) -> EvictableRoom[Group]:
        """What there is where nobody goes."""
        if self._nobody is None:
            self._nobody = EvictableRoom(self._ssn.state.table, (), lambda _: None)
        return self._nobody

    @property
    def room(self) -> EvictableRoom[Group]:
        """What could be freed on each node; added up when first needed."""
        if self._room is None:
            self._room = EvictableRoom(self._ssn.state.table, self._victims(), self._group_of)
        return self._room

    def _victims(self) -> Iterator[tuple[Task, Group]]:
        """Everybody whom `_group_of` puts into a group: what it asks about a job is asked once for all its tasks."""
        closed, group_of = self._ssn.budgets.closed, self._group
        for job in self._ssn.jobs.values():
            tasks = [*job.with_status(S.RUNNING).values(), *job.with_status(S.BOUND).values()]
            if tasks and job.in_session:
                group = group_of(job)
                for task in tasks:
                    if task.preemptable and not closed(task):
                        yield task, group

    def _group_of(self, task: Task) -> Group | None:
        """The group that a possible victim is counted in: its queue and what plugins go by."""
        job = task.job
        if job is None or not task.preemptable or task.status not in (S.RUNNING, S.BOUND) or not job.in_session:
            return None
        if job.together:
            return None
        if self._ssn.budgets.closed(task):
            return None
        return self._group(job)

    def _group(self, job: Job) -> Group:
        group = job.queue, tuple([profile(job) for _, profile, _ in self._profiles]) if self._profiles else ()
        return self._known_groups.setdefault(group, group)

    def _admitted(self, task: Task, from_queue: FromQueue, groups: Iterable[Group]) -> Iterator[Group]:
        """Those of some groups whose tasks may go for the task."""
        own = [(profile(task.job), admits) for _, profile, admits in self._profiles]
        for group in groups:
            name, kinds = group
            if from_queue(name) and all(admits(mine, kind) for (mine, admits), kind in zip(own, kinds, strict=True)):
                yield group

    def kept_by(self, task: Task, job: Job) -> str:
        """The plugin that lets nobody of a job go for the task, by what it declared; nothing if none does."""
        for plugin, profile, admits in self._profiles:
            if not admits(profile(task.job), profile(job)):
                return plugin
        return ""

    def _anybody(self, task: Task, from_queue: FromQueue) -> bool:
        """May somebody go for the task? Asked while nothing is added up yet: it ends with the first who may."""
        position = self._ssn.state.table.touched.position
        if self._possible_at != position:
            self._possible_at = position
            self._possible_groups.clear()
        queues = [queue for queue in self._ssn.queues.values() if from_queue(queue.name)]
        return any(True for queue in queues for _ in self._admitted(task, from_queue, self._possible(queue)))

    def _possible(self, queue: Queue) -> Iterator[Group]:
        """Every group of a queue in which somebody may be; kept once all are known."""
        known = self._possible_groups.get(queue.name)
        if known is not None:
            yield from known
            return
        found: dict[Group, None] = {}
        for job in queue.jobs.values():
            if job.with_status(S.RUNNING) or job.with_status(S.BOUND):
                group = self._group(job)
                if group not in found:
                    found[group] = None
                    yield group
        self._possible_groups[queue.name] = found


def reclaimed_for(ssn: Session, queue: Queue) -> FromQueue:
    """Which queues may be reclaimed for this one?"""

    def may_be_reclaimed(name: str) -> bool:
        other = ssn.queues.get(name)
        return other is not None and other is not queue and other.reclaimable

    return may_be_reclaimed
