"""The pending queue: the jobs that wait, in order by queue, grouped by class, and the verdict on each group.

A job waits first to be let in, then for room. Within one cycle:

    unadmitted --enqueue--> active --pop--> tried --placed, wants more--> active (`requeue`)
                              |               |
                              | `precheck`    | `postcheck`
                              v               v
                          unschedulable(cause): this job and all behind it in its group are refused at once

Parts:
* `PendingQueue`, kept across cycles: queue -> group -> jobs by sort key. Valid but for jobs that changed (`update`).
* `QueueCursor`, one pass of one action over the jobs of one queue.
* `Unschedulable`, the verdict of a group, with its cause. NODES stands across cycles, until a changed row has room
  (`engine/views.py`); CAPACITY and QUOTA stand for the rest of the pass and are asked again in each cycle.
* `QueueLoop`: queues take turns, best first, and one job is served in each turn.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from pumice.engine.diagnosis import FitError
from pumice.framework.points import table as points
from pumice.framework.session.nominations import held_by_others
from pumice.framework.session.outcome import Refusal, Refusals, Stage
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.reason import Reason, Verdict
from pumice.model.status import JobPhase, TaskStatus
from pumice.model.task import Task

if TYPE_CHECKING:
    from pumice.framework.session.session import Session

S = TaskStatus
Entry = tuple[Any, Job]
Grouping = Callable[[Job], Hashable]
_FEW: Final = 8
"""Up to so many new jobs of a group are inserted one by one; beyond, the group is sorted."""
_UNADMITTED: Final = ("", JobPhase.PENDING)


# -- the order ------------------------------------------------------------------------------------------------------
class PendingQueue:
    """Waiting jobs by queue and group, in order. Valid for one *signature*: the plugins with sort keys, and the
    state."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Hashable, list[Entry]]] = {}
        self._where: dict[str, tuple[str, Hashable, Any]] = {}
        self._signature: object = None

    def valid(self, signature: object) -> bool:
        """Report whether the order holds but for jobs that changed; else it is emptied. None is valid once only."""
        if signature is not None and signature == self._signature:
            return True
        self._groups, self._where, self._signature = {}, {}, signature
        return False

    def forget(self) -> None:
        """Have the order made anew by the next `update`."""
        self._signature = None

    def update(
        self, changed: Iterable[Job], waits: Callable[[Job], bool], group: Grouping, key: Callable[[Job], Any]
    ) -> None:
        """Put every changed job that waits in its place, and take out the others."""
        fresh: dict[tuple[str, Hashable], list[Entry]] = {}
        for job in changed:
            old = self._where.pop(job.uid, None)
            if old is not None:
                self._remove(*old)
            if waits(job):
                place = self._where[job.uid] = job.queue, group(job), key(job)
                fresh.setdefault(place[:2], []).append((place[2], job))
        for (queue, of), entries in fresh.items():
            known = self._groups.setdefault(queue, {}).setdefault(of, [])
            if len(entries) < _FEW:
                for entry in entries:
                    insort(known, entry)
            else:
                known += entries
                known.sort()

    def _remove(self, queue: str, group: Hashable, key: Any) -> None:
        entries = self._groups[queue][group]
        del entries[bisect_left(entries, (key,))]
        if not entries:
            del self._groups[queue][group]

    def places(self, signature: object) -> Mapping[str, tuple[str, Hashable, Any]]:
        """Job -> queue, group and sort key as of the last `update`; nothing of another order."""
        return self._where if signature is not None and signature == self._signature else {}

    def group_of(self, job: Job) -> Hashable:
        """The group of a waiting job; None for others."""
        where = self._where.get(job.uid)
        return where[1] if where is not None else None

    def cursors(self) -> dict[str, QueueCursor]:
        """Queue -> one pass over its waiting jobs."""
        return {name: QueueCursor(name, groups) for name, groups in self._groups.items() if groups}


def waits_for_room(job: Job) -> bool:
    """Report whether it was let in and has tasks that ask for something and have no place."""
    return (
        job.in_session
        and not job.left_out
        and len(job.with_status(S.PENDING)) > job.pending_best_effort_count
        and job.phase not in _UNADMITTED
    )


def waits_for_admission(job: Job) -> bool:
    """Report whether it has still to be let into its queue."""
    return job.in_session and not job.left_out and job.phase in _UNADMITTED


def group_of(job: Job) -> Hashable:
    """The key of jobs that are unschedulable together: the class of all their pending tasks, and the number that they
    need.

    A job with several classes, sub-jobs or a topology has its UID as key: a group of its own.
    """
    first: Task | None = None
    for task in job.with_status(S.PENDING).values():
        if task.best_effort:
            continue
        if first is None:
            first = task
        if task.klass is not first.klass or task.gates or task.invalid or task.nominated_node:
            return job.uid
    if first is None or job.sub_jobs or job.topology is not None:
        return job.uid
    return first.klass.id, job.min_available, job.ready_count, job.pending_best_effort_count


class QueueCursor:
    """One pass over the waiting jobs of a queue, in order: a heap with the head of each group."""

    __slots__ = ("_group", "_groups", "_heap", "_keys", "_next", "_parked", "_queue", "denied", "key")

    def __init__(self, queue: str, groups: Mapping[Hashable, list[Entry]]) -> None:
        self._queue, self._keys, self._groups = queue, list(groups), list(groups.values())
        self._heap: list[tuple[Any, int, int, Job]] = [(es[0][0], n, 0, es[0][1]) for n, es in enumerate(self._groups)]
        heapify(self._heap)
        self._parked: dict[int, tuple[int, Refusal]] = {}
        """Group -> the first of it that is passed over, and why."""
        self._group, self._next = -1, 0
        """Group of the job that was taken last, and the place behind it; 0 where nobody is behind it."""
        self.key: Any = None
        """The sort key of the job that was taken last."""
        self.denied = True
        """Whether the queue may reject the next job. At first, and from when it rejects one until it takes one."""

    def __bool__(self) -> bool:
        return self._next > 0 or bool(self._heap)

    def pop(self) -> Job:
        """Take the first job that is left."""
        if self._next:
            self._enter(self._group, self._next)
        self.key, self._group, place, job = heappop(self._heap)
        self._next = place + 1 if self._group >= 0 and place + 1 < len(self._groups[self._group]) else 0
        return job

    def _enter(self, group: int, place: int) -> None:
        key, job = self._groups[group][place]
        heappush(self._heap, (key, group, place, job))

    @property
    def shared(self) -> bool:
        """Report whether other jobs stand behind the last taken one in its group."""
        return self._next > 0

    @property
    def of_class(self) -> bool:
        """Report whether all pending tasks of the last taken job are of one class, for the first time in this pass."""
        return self._group >= 0 and not isinstance(self._keys[self._group], str)

    def requeue(self, key: Any, job: Job) -> None:
        """Put a job back that was served and wants more."""
        heappush(self._heap, (key, -1, 0, job))

    def reject_group(self, refusals: Refusals, job: Job, refusal: Refusal) -> None:
        """Refuse the job that was taken last and those behind it in its group."""
        refusals.add(job, refusal)
        self.park(refusal)
        self.flush(refusals)

    def park(self, refusal: Refusal) -> None:
        """Pass over those behind the job that was taken last in its group, until `flush`."""
        if self._next:
            self._parked[self._group] = self._next, refusal
            self._next = 0

    def flush(self, refusals: Refusals, after: Any = None) -> None:
        """Refuse those of the parked groups who come before *after* (None: all); the others are active again."""
        for group, (first, refusal) in self._parked.items():
            entries = self._groups[group]
            until = len(entries) if after is None else bisect_left(entries, (after,), lo=first)
            passed = entries[first:until]  # taken now: the group changes once the session is over

            def jobs(passed: list[Entry] = passed) -> list[Job]:
                return [job for _, job in passed]

            if until < len(entries):
                self._enter(group, until)
                if passed:
                    refusals.add_group(jobs, refusal)
            elif passed:
                refusals.add_class(self._queue, self._keys[group], jobs, refusal)
        self._parked = {}

    def rest(self) -> Iterator[Job]:
        """Every job that is left, in no order."""
        if self._next:
            self._enter(self._group, self._next)
            self._next = 0
        for _, group, place, job in self._heap:
            yield job
            if group >= 0:
                yield from (j for _, j in self._groups[group][place + 1 :])


def pending_jobs(ssn: Session) -> PendingQueue:
    """Return the jobs that wait for room, in order and up to date."""
    state, pending = ssn.state, ssn.runtime.pending
    changed, state.backlog_changes = state.backlog_changes, {}
    valid = pending.valid(ssn.orders.signature())
    _update(ssn, pending, changed.values() if valid else None, waits_for_room, group_of)
    return pending


def unadmitted_jobs(ssn: Session, group: Grouping) -> PendingQueue:
    """Return the jobs that wait to be let in, in order and up to date; their groups are valid until they change."""
    state, admissions = ssn.state, ssn.runtime.admissions
    changed, state.admission_changes = state.admission_changes, {}
    valid = admissions.valid(ssn.orders.signature()) and changed is not None
    _update(ssn, admissions, changed.values() if valid and changed is not None else None, waits_for_admission, group)
    return admissions


def _update(
    ssn: Session, queue: PendingQueue, changed: Iterable[Job] | None, waits: Callable[[Job], bool], group: Grouping
) -> None:
    """Update the order for the jobs that changed, or make it anew of all jobs (None)."""
    jobs = ssn.state.unadmitted if waits is waits_for_admission else ssn.state.session_jobs
    try:
        queue.update(jobs.values() if changed is None else changed, waits, group, ssn.orders.job_key())
    except TypeError:  # keys that cannot be compared with each other
        ssn.orders.rank_keys(points.JOB_ORDER)
        queue.valid(None)
        queue.update(jobs.values(), waits, group, ssn.orders.job_key())


def forget_unadmitted(ssn: Session) -> None:
    """Follow no changed job until one waits to be let in again."""
    ssn.runtime.admissions.forget()
    ssn.state.admission_changes = None


# -- the verdict of a group -----------------------------------------------------------------------------------------
class Cause(Enum):
    """The cause of a group's verdict."""

    NODES = "nodes"
    """Its class fits no node."""
    CAPACITY = "capacity"
    """All nodes together have too little room for as many tasks as are needed."""
    QUOTA = "quota"
    """Its queue may not take as many."""


@dataclass(slots=True)
class Unschedulable:
    """The verdict on a group."""

    refusal: Refusal
    cause: Cause


class QueueDenied(FitError):
    """A task that its queue may not take. It says nothing about nodes, so it does not keep equal tasks back."""

    __slots__ = ("_refusal",)

    def __init__(self, refusal: Refusal, nodes: int) -> None:
        super().__init__(count=lambda: ({Reason(refusal.plugin, refusal.text): nodes}, nodes))
        self._refusal = refusal

    @property
    def text(self) -> str:
        """The answer of the queue."""
        return self._refusal.text

    def __str__(self) -> str:
        return "; ".join([self.text, *map(str, self._refusal.limits)])


def first_waiting(job: Job) -> Task | None:
    """A waiting task that asks for something."""
    return next((t for t in job.with_status(S.PENDING).values() if not t.best_effort), None)


def denied(queue: Queue, verdict: Verdict) -> Refusal:
    """The refusal of a queue that may not take a task."""
    return Refusal.of(Stage.QUEUE, verdict, otherwise=f"queue {queue.name} may not take it")


def precheck(ssn: Session, queue: Queue, job: Job, task: Task, *, ask_queue: bool = True) -> Unschedulable | None:
    """The verdict on the job's group as far as it is known without looking at nodes one by one; None: try the job.

    *ask_queue*: also ask whether the queue may take a single task; trying the job begins with that question.
    """
    why_not = ssn.search.chooser.why_not
    error = why_not.known_hopeless(task)
    if error is not None:
        return Unschedulable(Refusal(Stage.NODES, error=error), Cause.NODES)
    needed = ssn.needed_to_keep(job)
    if needed < 2:
        refusal = _task_denied(ssn, queue, job, task) if ask_queue else None
    elif (short := why_not.short_of(task, needed)) is not None:
        text = f"{short[0]} of {needed} required tasks have a place"
        return Unschedulable(Refusal(Stage.READY, text, error=short[1], placed=short[0]), Cause.CAPACITY)
    else:
        refusal = _gang_denied(ssn, queue, job, task, needed)
    return None if refusal is None else Unschedulable(refusal, Cause.QUOTA)


def postcheck(ssn: Session, queue: Queue, job: Job) -> Unschedulable | None:
    """The verdict on the job's group after the job was tried in vain; None where nothing is certain."""
    if len(job.with_status(S.PENDING)) <= job.pending_best_effort_count:
        return None  # all have a promised place
    task = first_waiting(job)
    if task is None:
        return None
    if ssn.allocatable_by_class():
        with held_by_others(ssn, queue, job):
            verdict = ssn.allocatable(queue, task)
        if not verdict:
            return Unschedulable(denied(queue, verdict), Cause.QUOTA)
    error = ssn.search.chooser.why_not.hopeless(task)
    return Unschedulable(Refusal(Stage.NODES, error=error), Cause.NODES) if error is not None else None


def _task_denied(ssn: Session, queue: Queue, job: Job, task: Task) -> Refusal | None:
    """Why the queue may not take the one task for which a job waits."""
    alone = len(job.with_status(S.PENDING)) == job.pending_best_effort_count + 1
    if not alone or ssn.state.rooms or not ssn.allocatable_by_class() or ssn.anybody(points.PRE_JOB_ALLOCATION):
        return None
    verdict = ssn.allocatable(queue, task)
    if verdict:
        return None
    refusal = denied(queue, verdict)
    ssn.outcome.unfit(job, task, QueueDenied(refusal, len(ssn.nodes)))
    return refusal


def _gang_denied(ssn: Session, queue: Queue, job: Job, task: Task, needed: int) -> Refusal | None:
    """Why the queue may take some of the tasks that a gang needs together, but not all."""
    if not ssn.allocatable_by_class():
        return None
    with held_by_others(ssn, queue, job):
        room = ssn.allocatable_room(queue, task, needed)
        if room >= needed:
            return None
        taken = [task] * room
        ssn.state.count_in_queue(queue, taken, 1)  # in the words of who would refuse the next one
        try:
            verdict = ssn.allocatable(queue, task)
        finally:
            ssn.state.count_in_queue(queue, taken, -1)
    if verdict:
        return None
    each = task.requests.as_written()
    limits = tuple(
        replace(at, holds=at.holds - room * each.get(at.resource, 0), asks=needed * each.get(at.resource, 0))
        for at in verdict.limits
    )
    verdict = verdict._replace(limits=limits)
    return Refusal.of(Stage.QUEUE, verdict, otherwise=f"queue {queue.name} may take {room} of {needed} such tasks")


# -- taking turns ---------------------------------------------------------------------------------------------------
class QueueLoop:
    """Queues take turns, best first. A queue that is not put back is done."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        if "enqueue" not in ssn.actions:
            for waiting in list(ssn.state.unadmitted.values()):
                ssn.state.set_phase(waiting, JobPhase.INQUEUE)
        self._cursors = pending_jobs(ssn).cursors()
        self._queues = ssn.orders.queue_heap([ssn.queues[name] for name in self._cursors])

    def __iter__(self) -> Iterator[tuple[Queue, QueueCursor]]:
        """The queue whose turn it is, with its waiting jobs; those above their share are refused on the way."""
        ssn, queues = self._ssn, self._queues
        while queues:
            queue = queues.pop()
            cursor = self._cursors[queue.name]
            if not cursor:
                continue
            over = ssn.overused(queue)
            if over:
                refusal = Refusal.of(Stage.QUEUE, over, otherwise=f"queue {queue.name} is above its share")
                ssn.outcome.refusals.add_group(cursor.rest, refusal, queue.name)
            else:
                yield queue, cursor

    def put_back(self, queue: Queue) -> None:
        """The queue gets another turn."""
        self._queues.push(queue)
