"""The waiting jobs of every queue in order, kept across sessions and looked at again only where a job changed.

Jobs whose waiting tasks are all of one class, and which need equally many of them, share a *group*: when it fits
nowhere, the whole group is passed over at once. The order is made of sort keys that depend on the job alone; where a
plugin compares pairs instead, the order is made anew for each session.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, Final

from pumice.framework.session.refusals import Refusal, Refusals
from pumice.model.job import Job
from pumice.model.status import JobPhase, TaskStatus
from pumice.model.task import Task

Entry = tuple[Any, Job]
Grouping = Callable[[Job], Hashable]


_FEW: Final = 8
"""So many new jobs of a group are put in their places one by one."""


class Backlog:
    """Waiting jobs, by queue and group."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Hashable, list[Entry]]] = {}
        self._where: dict[str, tuple[str, Hashable, Any]] = {}
        self._signature: object = None

    def stands(self, signature: object) -> bool:
        """Does the order still hold but for jobs that changed? If not, it is empty now and made anew of all jobs.

        A *signature* of None holds for one session only.
        """
        if signature is not None and signature == self._signature:
            return True
        self._groups, self._where = {}, {}
        self._signature = signature
        return False

    def sync(
        self, changed: Iterable[Job], waits: Callable[[Job], bool], group: Grouping, key: Callable[[Job], Any]
    ) -> None:
        """Look at jobs again: those that wait get their place."""
        fresh: dict[tuple[str, Hashable], list[Entry]] = {}
        for job in changed:
            uid = job.uid
            old = self._where.pop(uid, None)
            if old is not None:
                self._remove(*old)
            if waits(job):
                place = (job.queue, group(job), key(job))
                self._where[uid] = place
                fresh.setdefault(place[:2], []).append((place[2], job))
        for (queue, of), entries in fresh.items():
            known = self._groups.setdefault(queue, {}).setdefault(of, [])
            if len(entries) < _FEW:
                for entry in entries:
                    insort(known, entry)
            else:
                known += entries
                known.sort()

    def places(self, signature: object) -> Mapping[str, tuple[str, Hashable, Any]]:
        """Job -> queue, group and sort key, as they were when it was last looked at; nothing of another order."""
        return self._where if signature is not None and signature == self._signature else {}

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
        where = self._where.get(job.uid)
        return where[1] if where is not None else None


_UNADMITTED = ("", JobPhase.PENDING)


def waits_for_room(job: Job) -> bool:
    """Was it let in, and has it tasks that ask for something and have no place?"""
    return (
        job.in_session
        and len(job.with_status(TaskStatus.PENDING)) > job.pending_best_effort_count
        and job.phase not in _UNADMITTED
    )


def waits_for_admission(job: Job) -> bool:
    """Has it still to be let into its queue?"""
    return job.in_session and job.phase in _UNADMITTED


def group_of(job: Job) -> Hashable:
    """What makes waiting jobs hopeless together: the one class of all their waiting tasks, and how many they need.

    Of a job of several classes, or with places of its own, the job itself.
    """
    first: Task | None = None
    for task in job.with_status(TaskStatus.PENDING).values():
        if task.best_effort:
            continue
        if first is None:
            first = task
        if task.klass is not first.klass or task.gates or task.invalid or task.nominated_node:
            return job.uid
    if first is None or job.sub_jobs or job.topology is not None:
        return job.uid
    return first.klass.id, job.min_available, job.ready_count, job.pending_best_effort_count


class Visit:
    """One pass over the waiting jobs of a queue."""

    __slots__ = ("_groups", "_heap", "_keys", "_parked", "_queue", "denied", "last", "shared")

    def __init__(self, queue: str, keys: list[Hashable], groups: list[list[Entry]]) -> None:
        self._queue, self._keys, self._groups = queue, keys, groups
        self._heap: list[tuple[Any, int, int, Job]] = [
            (entries[0][0], n, 0, entries[0][1]) for n, entries in enumerate(groups)
        ]
        heapify(self._heap)
        self._parked: dict[int, tuple[int, Refusal]] = {}
        """Group -> the first of it that is passed over, and why."""
        self.last: tuple[int, int] = (-1, 0)
        """Group and place of the job that was taken last."""
        self.denied = True
        """Might the queue refuse the next job? So at first, and since it last refused one until it takes one."""
        self.shared = False
        """Do other jobs stand behind that one in its group, to be taken or passed over?"""

    def __bool__(self) -> bool:
        return self.shared or bool(self._heap)

    def pop(self) -> Job:
        """The first job that is left."""
        self._line_up()
        _, group, place, job = heappop(self._heap)
        self.last = (group, place)
        self.shared = group >= 0 and place + 1 < len(self._groups[group])
        return job

    def _line_up(self) -> None:
        """The one behind the job that was taken last may be taken."""
        if self.shared:
            self.shared = False
            self._enter(self.last[0], self.last[1] + 1)

    def _enter(self, group: int, place: int) -> None:
        key, job = self._groups[group][place]
        heappush(self._heap, (key, group, place, job))

    @property
    def key(self) -> Any:
        """The sort key of the job that was taken last, if it stands in a group."""
        group, place = self.last
        return self._groups[group][place][0] if group >= 0 else None

    @property
    def of_class(self) -> bool:
        """Are all waiting tasks of the job that was taken last of one class, for the first time in this visit?"""
        group, _ = self.last
        return group >= 0 and not isinstance(self._keys[group], str)

    def push(self, key: Any, job: Job) -> None:
        """Put a job back that was served and wants more."""
        heappush(self._heap, (key, -1, 0, job))

    def pass_over(self, refusals: Refusals, job: Job, refusal: Refusal) -> None:
        """Refuse the job taken last and those behind it in its group, for what their common class alone decides."""
        refusals.add(job, refusal)
        self.park(refusal)
        self.go_on(refusals)

    def park(self, refusal: Refusal) -> None:
        """Pass over those behind the job taken last in its group, until `go_on` says that things have changed."""
        if self.shared:
            self.shared = False
            group, place = self.last
            self._parked[group] = place + 1, refusal

    def go_on(self, refusals: Refusals, after: Any = None) -> None:
        """Those of the parked groups who come before *after* are refused for good, the others are to be taken again.

        Without *after* all are refused.
        """
        for group, (first, refusal) in self._parked.items():
            entries = self._groups[group]
            until = len(entries) if after is None else bisect_left(entries, (after,), lo=first)
            if until > first:
                passed = _between(entries, first, until)
                if until == len(entries):
                    refusals.add_class(self._queue, self._keys[group], passed, refusal)
                else:
                    refusals.add_group(passed, refusal)
            if until < len(entries):
                self._enter(group, until)
        self._parked = {}

    def rest(self) -> Iterator[Job]:
        """Every job that is left, in no order."""
        self._line_up()
        for _, group, place, job in self._heap:
            yield job
            if group >= 0:
                yield from (j for _, j in self._groups[group][place + 1 :])


def _between(entries: list[Entry], first: int, until: int) -> Callable[[], list[Job]]:
    """The jobs of a stretch of a group, taken now: the group changes once the session is over."""
    part = entries[first:until]
    return lambda: [job for _, job in part]
