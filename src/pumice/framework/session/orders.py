"""The orders of a session over jobs, tasks, queues and sub-jobs, by comparison or by sort key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, TypeVar

from pumice.engine.heap import GoHeap
from pumice.framework import quota
from pumice.framework.points import table as t
from pumice.framework.points.point import Point
from pumice.framework.session.outcome import Refusal, Stage
from pumice.model.job import Job, SubJob
from pumice.model.queue import Queue
from pumice.model.task import Task

if TYPE_CHECKING:
    from pumice.framework.session.session import Session

T = TypeVar("T")
ASKS = (t.JOB_ORDER, t.TASK_ORDER, t.QUEUE_ORDER, t.SUB_JOB_ORDER)


class Orders:
    """Puts things in order, as the plugins of one session say and by age and name where they do not."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._job_keys: dict[str, tuple[int, Any]] = {}

    # -- jobs -------------------------------------------------------------------------------------------------------
    def compare_jobs(self) -> Callable[[Job, Job], int]:
        """Which of two jobs comes first as plugins say: below 0 the left one, 0 where they do not tell them apart."""
        ssn = self._ssn
        keyed = self._keyed()
        if keyed is None:
            return ssn.job_order

        def compare(left: Job, right: Job) -> int:
            a, b = keyed(left)[:-1], keyed(right)[:-1]
            try:
                return -1 if a < b else int(a != b)
            except TypeError:
                return ssn.job_order(left, right)

        return compare

    def worst_job_first(self, listed: list[Task]) -> list[Task]:
        """Tasks of the last job first, as they are where plugins do not tell their jobs apart."""
        keyed = self._keyed()
        if keyed is not None:

            def of_job(task: Task) -> Any:
                return keyed(task.job)[:-1]

            try:
                return sorted(listed, key=of_job, reverse=True)
            except TypeError:
                pass  # keys that cannot be compared with each other
        order = self.compare_jobs()

        def compare(left: Task, right: Task) -> int:
            return 0 if left.job is right.job else -order(left.job, right.job)

        return sorted(listed, key=cmp_to_key(compare))

    def _keyed(self) -> Callable[[Job], Any] | None:
        """The sort key of a job with what settles ties at its end, kept until the job changes; None without keys."""
        key = self._ssn.sort_key(t.JOB_ORDER, _job_fallback)
        if key is None or not self._ssn.anybody(t.JOB_ORDER):
            return None
        cache = self._job_keys

        def keyed(job: Job) -> Any:
            held = cache.get(job.uid)
            if held is None or held[0] != job.version:
                held = cache[job.uid] = (job.version, key(job))
            return held[1]

        return keyed

    def job_less(self) -> Callable[[Job, Job], bool]:
        """The order of jobs, with creation time and UID as last resort."""
        ssn = self._ssn
        keyed = self._keyed()
        if keyed is None:
            order = ssn.job_order

            def less(left: Job, right: Job) -> bool:
                c = order(left, right)
                return c < 0 if c else _job_fallback(left) < _job_fallback(right)

            return less

        def before(left: Job, right: Job) -> bool:
            try:
                return bool(keyed(left) < keyed(right))
            except TypeError:
                return self._mixed(t.JOB_ORDER, lambda: self.job_less()(left, right))

        return before

    def job_key(self) -> Callable[[Job], Any]:
        """A sort key for jobs, whatever shape the plugins give their order in; for `in_order` and the backlog."""
        key = self._ssn.sort_key(t.JOB_ORDER, _job_fallback)
        if key is not None:
            return key
        less = self.job_less()
        return cmp_to_key(lambda a, b: -1 if less(a, b) else 1)

    def sorted_jobs(self, jobs: Iterable[Job]) -> list[Job]:
        """Jobs in order, first to last. The keys of unchanged pending jobs are known."""
        return self._sorted(t.JOB_ORDER, list(jobs), self._kept_key)

    def _kept_key(self) -> Callable[[Job], Any]:
        key, changed = self.job_key(), self._ssn.state.backlog_changes
        known = self._ssn.runtime.pending.places(self.signature())

        def kept(job: Job) -> Any:
            place = known.get(job.uid) if job.uid not in changed else None
            return key(job) if place is None else place[2]

        return kept

    def _sorted(self, point: Point[..., Any, int], listed: list[T], key: Callable[[], Callable[[T], Any]]) -> list[T]:
        try:
            return sorted(listed, key=key())
        except TypeError:
            return self._mixed(point, lambda: sorted(listed, key=key()))

    def _mixed(self, point: Point[..., Any, int], again: Callable[[], T]) -> T:
        """Keys that cannot be compared with each other met: compare them with their kinds from now on."""
        self.rank_keys(point)
        return again()

    def rank_keys(self, point: Point[..., Any, int]) -> None:
        """Compare the keys of a point with their kinds from now on, and order the pending jobs anew."""
        self._ssn.mixed_keys(point)
        self._job_keys.clear()
        self._reorder_jobs()

    def order_jobs_by(self, plugin: str, basis: object) -> None:
        """The sort keys that a plugin gives jobs are made of *basis* too; of another one, all are ordered anew."""
        bases = self._ssn.runtime.order_bases
        if bases.get(plugin) != basis:
            bases[plugin] = basis
            self._reorder_jobs()

    def _reorder_jobs(self) -> None:
        self._ssn.runtime.pending.forget()
        self._ssn.runtime.admissions.forget()

    def signature(self) -> object:
        """Return for what an order of jobs is valid beside the jobs: None if plugins compare pairs."""
        ssn = self._ssn
        keyed = ssn.sort_key(t.JOB_ORDER, _job_fallback) is not None
        return (id(ssn.state), ssn.signature) if keyed else None

    # -- tasks ------------------------------------------------------------------------------------------------------
    def task_less(self, left: Task, right: Task) -> bool:
        """The order of tasks, with pod index, creation time and UID as last resort."""
        c = self._ssn.task_order(left, right)
        return c < 0 if c else _task_fallback(left, right) < 0

    def sorted_tasks(self, tasks: Iterable[Task]) -> list[Task]:
        """Tasks in order, first to last."""
        listed = list(tasks)
        if len(listed) < 2:
            return listed
        indexed = len([task for task in listed if task.order is not None])
        if indexed in (0, len(listed)):
            key = self._ssn.sort_key(t.TASK_ORDER, _task_key)
            if key is not None:
                try:
                    return sorted(listed, key=key)
                except TypeError:
                    return self._mixed(t.TASK_ORDER, lambda: self.sorted_tasks(listed))

        def compare(left: Task, right: Task) -> int:
            return -1 if self.task_less(left, right) else 1

        return sorted(listed, key=cmp_to_key(compare))

    # -- queues and sub-jobs ----------------------------------------------------------------------------------------
    def queue_less(self, left: Queue, right: Queue) -> bool:
        """The order of queues, with creation time and name as last resort."""
        c = self._ssn.queue_order(left, right)
        return c < 0 if c else (left.creation, left.name) < (right.creation, right.name)

    def victim_queue_less(self, left: Queue, right: Queue, preemptor: Queue) -> bool:
        """From which queue victims are taken first."""
        c = self._ssn.victim_queue_order(left, right, preemptor)
        return c < 0 if c else not self.queue_less(left, right)

    def victims(self, tasks: Iterable[Task], preemptor: Task) -> list[Task]:
        """Candidates in the order in which they are to be evicted for *preemptor*, first to go first.

        Within a job the last task goes first; within a queue tasks of the worst job; between queues
        `victim_queue_order` decides. Tasks of no job in the session go before all others.
        """
        listed = list(tasks)
        if len(listed) < 2:
            return listed
        job, queues = preemptor.job, self._ssn.queues
        queue = queues.get(job.queue) if job is not None and job.in_session else None
        by_queue: dict[str, list[Task]] = {}
        for task in listed:
            job = task.job
            by_queue.setdefault(job.queue if job is not None and job.in_session else "", []).append(task)
        ordered = self.sorted_tasks(by_queue.pop("", ()))[::-1]
        if queue is None:
            return ordered + self._worst_first([t for group in by_queue.values() for t in group])
        names = list(by_queue)
        if len(names) > 1:

            def compare(left: str, right: str) -> int:
                return -1 if self.victim_queue_less(queues[left], queues[right], queue) else 1

            names.sort(key=cmp_to_key(compare))
        for name in names:
            ordered += self._worst_first(by_queue[name])
        return ordered

    def _worst_first(self, tasks: list[Task]) -> list[Task]:
        """Tasks of one queue: those of the worst job first, the last task of a job first."""
        tasks = self.sorted_tasks(tasks)[::-1]
        return self.worst_job_first(tasks) if len({t.job_key for t in tasks}) > 1 else tasks

    def sub_job_less(self, left: SubJob, right: SubJob) -> bool:
        """The order of sub-jobs, with match index and UID as last resort."""
        c = self._ssn.sub_job_order(left, right)
        return c < 0 if c else (left.match_index, left.uid) < (right.match_index, right.uid)

    def queue_heap(self, queues: Iterable[Queue] = ()) -> GoHeap[Queue]:
        """Queues to be popped in order. Queues that are not open are left out, and their pending jobs are refused."""
        served = []
        for queue in queues:
            if quota.is_open(queue) or self._ssn.compat.closed_queues:
                served.append(queue)
            else:
                refusal = Refusal.of(Stage.QUEUE, quota.not_open(queue))
                self._ssn.outcome.refusals.add_group(queue.waiting.values, refusal, queue.name)
        return GoHeap(self.queue_less, served)

    def job_heap(self, jobs: Iterable[Job] = ()) -> GoHeap[Job]:
        """Jobs to be popped in order."""
        return GoHeap(self.job_less(), jobs)


def _job_fallback(job: Job) -> tuple[float, bytes]:
    return job.creation, job.uid.encode()


def _task_key(task: Task) -> tuple[int, float, str]:
    return task.order or 0, task.creation, task.uid


def _task_fallback(left: Task, right: Task) -> int:
    if left.order is not None and right.order is not None and left.order != right.order:
        return -1 if left.order < right.order else 1
    a, b = (left.creation, left.uid), (right.creation, right.uid)
    return (a > b) - (a < b)
