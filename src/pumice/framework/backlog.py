"""The waiting jobs of every queue in order, kept across sessions and looked at again only where a job changed.

Jobs whose waiting tasks are all of one class share a *group*: when the class fits nowhere, the whole group is passed
over at once. The order is made of sort keys that depend on the job alone; where a plugin compares pairs instead, the
order is made anew for each session.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from pumice.framework.refusals import Refusal, Refusals
from pumice.model.job import Job
from pumice.model.status import JobPhase
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

Entry = tuple[Any, Job]


class Backlog:
    """All waiting jobs, by queue and group."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Hashable, list[Entry]]] = {}
        self._where: dict[str, tuple[str, Hashable, Any]] = {}
        self._signature: object = None

    def sync(self, state: ClusterState, key: Callable[[Job], Any], signature: object) -> None:
        """Bring the order up to date. A *signature* of None, or another than before, makes it anew."""
        if signature is None or signature != self._signature:
            self._groups, self._where = {}, {}
            state.backlog_changes = dict(state.session_jobs)
            self._signature = signature
        changes, state.backlog_changes = state.backlog_changes, {}
        for uid, job in changes.items():
            old = self._where.pop(uid, None)
            if old is not None:
                self._remove(*old)
            if job.in_session and len(job._by_status[0]) > job._pending_best_effort and job._phase not in _UNADMITTED:
                group = group_of(job)
                place = (job._queue, group, key(job))
                self._where[uid] = place
                insort(self._groups.setdefault(job._queue, {}).setdefault(group, []), (place[2], job))

    def forget(self) -> None:
        """Have the order made anew by the next `sync`."""
        self._signature = None

    def _remove(self, queue: str, group: Hashable, key: Any) -> None:
        groups = self._groups[queue]
        entries = groups[group]
        at = bisect_left(entries, (key,))
        del entries[at]
        if not entries:
            del groups[group]

    def queues(self) -> list[str]:
        """The queues in which jobs wait."""
        return [name for name, groups in self._groups.items() if groups]

    def visit(self, queue: str) -> Visit:
        """The jobs of a queue, to be taken in order."""
        groups = self._groups.get(queue, {})
        return Visit(queue, list(groups), list(groups.values()))

    def group_of(self, job: Job) -> Hashable:
        """The group in which a waiting job stands; None for others."""
        where = self._where.get(job._uid)
        return where[1] if where is not None else None


_UNADMITTED = ("", JobPhase.PENDING)


def group_of(job: Job) -> Hashable:
    """What makes waiting jobs hopeless together: the one class of all their waiting tasks; else the job itself."""
    first: Task | None = None
    for task in job._by_status[0].values():
        if task._best_effort:
            continue
        if first is None:
            first = task
        if task._class is not first._class or task._gates or task._invalid or task._nominated:
            return job._uid
    if first is None or job._sub_jobs or job.topology is not None:
        return job._uid
    return first._class.id


class Visit:
    """One pass over the waiting jobs of a queue."""

    __slots__ = ("_groups", "_heap", "_keys", "_queue", "last")

    def __init__(self, queue: str, keys: list[Hashable], groups: list[list[Entry]]) -> None:
        self._queue, self._keys, self._groups = queue, keys, groups
        self._heap: list[tuple[Any, int, int, Job]] = [
            (entries[0][0], n, 0, entries[0][1]) for n, entries in enumerate(groups)
        ]
        heapify(self._heap)
        self.last: tuple[int, int] = (-1, 0)
        """Group and place of the job that was taken last."""

    def __bool__(self) -> bool:
        return bool(self._heap)

    def pop(self) -> Job:
        """The first job that is left."""
        _, group, place, job = heappop(self._heap)
        self.last = (group, place)
        if group >= 0:
            entries = self._groups[group]
            if place + 1 < len(entries):
                key, following = entries[place + 1]
                heappush(self._heap, (key, group, place + 1, following))
        return job

    @property
    def shared(self) -> bool:
        """Do other jobs stand behind the one taken last in its group?"""
        group, place = self.last
        return group >= 0 and place + 1 < len(self._groups[group])

    @property
    def of_class(self) -> bool:
        """Are all waiting tasks of the job that was taken last of one class, for the first time in this visit?"""
        group, _ = self.last
        return group >= 0 and not isinstance(self._keys[group], str)

    def push(self, key: Any, job: Job) -> None:
        """Put a job back that was served and wants more."""
        heappush(self._heap, (key, -1, 0, job))

    def drop(self) -> list[Entry]:
        """Pass over the rest of the group of the job that was taken last; returns what was passed over."""
        group, place = self.last
        if group < 0 or place + 1 >= len(self._groups[group]):
            return []
        self._heap = [e for e in self._heap if e[1] != group]
        heapify(self._heap)
        return self._groups[group][place + 1 :]

    def pass_over(self, refusals: Refusals, job: Job, refusal: Refusal) -> None:
        """Refuse the job taken last and those behind it in its group, for what their common class alone decides."""
        passed = self.drop()
        refusals.add(job, refusal)
        if passed:
            key = self._keys[self.last[0]]
            refusals.add_class(self._queue, key, lambda: [j for _, j in passed], refusal)

    def rest(self) -> Iterator[Job]:
        """Every job that is left, in no order."""
        for _, group, place, job in self._heap:
            yield job
            if group >= 0:
                yield from (j for _, j in self._groups[group][place + 1 :])
