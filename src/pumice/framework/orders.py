"""The orders of a session: jobs, tasks, queues, sub-jobs; by comparison or by sort key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cmp_to_key
from typing import Any

from pumice.engine.goheap import OrderedQueue
from pumice.framework import answers, folds
from pumice.framework.backlog import Backlog, Grouping, group_of, waits_for_admission, waits_for_room
from pumice.framework.callbacks import Callback
from pumice.framework.chains import Chains, identity
from pumice.model.job import Job, SubJob
from pumice.model.queue import Queue
from pumice.model.task import Task


class Orders(Chains):
    """Who goes first. Mixed into `Session`."""

    def _compare(self, point: str, left: Any, right: Any, *more: Any) -> int:
        def ask(callback: Callback) -> int:
            if callback.sort_key:
                a, b = (self._asked(callback, identity, 0, x) for x in (left, right))
                return (a > b) - (a < b)
            return self._asked(callback, answers.comparison, 0, left, right, *more)

        return folds.first_comparison(self.chain(point), ask)

    def _sort_key(self, point: str, fallback: Callable[[Any], Any]) -> Callable[[Any], Any] | None:
        """A key for an order in which every plugin gives keys; None when one compares pairs."""
        if point not in self._keyed:
            chain = self.chain(point)
            functions = [c.fn for tier in chain for c in tier]
            if all(c.sort_key for tier in chain for c in tier):
                self._keyed[point] = _joined(functions, fallback)
            else:
                self._keyed[point] = None
        return self._keyed[point]

    def job_order(self, left: Job, right: Job) -> int:
        """Below 0: left first. 0: no plugin tells them apart."""
        return self._compare("job_order", left, right)

    def job_less(self) -> Callable[[Job, Job], bool]:
        """The order of jobs, with creation time and UID as last resort."""
        key = self._sort_key("job_order", _job_fallback)
        if key is not None:
            cache = self._job_keys

            def keyed(job: Job) -> Any:
                held = cache.get(job.uid)
                if held is None or held[0] != job.version:
                    held = cache[job.uid] = (job.version, key(job))
                return held[1]

            return lambda left, right: keyed(left) < keyed(right)

        def less(left: Job, right: Job) -> bool:
            c = self.job_order(left, right)
            return c < 0 if c else _job_fallback(left) < _job_fallback(right)

        return less

    def job_key(self) -> Callable[[Job], Any]:
        """A sort key for jobs, whatever shape the plugins give their order in."""
        key = self._sort_key("job_order", _job_fallback)
        if key is not None:
            return key
        less = self.job_less()
        return cmp_to_key(lambda a, b: -1 if less(a, b) else 1)

    def reorder_jobs(self) -> None:
        """What the sort keys of jobs are made of has changed (not the jobs): order all waiting jobs anew."""
        self.runtime.backlog.forget()
        self.runtime.admissions.forget()

    def backlog(self) -> Backlog:
        """The jobs of every queue that wait for room, in order and up to date."""
        state, backlog = self.state, self.runtime.backlog
        changed, state.backlog_changes = state.backlog_changes, {}
        stands = backlog.stands(self._order_signature(lasts=True))
        jobs = changed.values() if stands else state.session_jobs.values()
        backlog.sync(jobs, waits_for_room, group_of, self.job_key())
        return backlog

    def admissions(self, group: Grouping, *, lasts: bool) -> Backlog:
        """The jobs of every queue that wait to be let in, in order; *lasts*: their groups hold until they change."""
        state, admissions = self.state, self.runtime.admissions
        changed, state.admission_changes = state.admission_changes, {}
        stands = admissions.stands(self._order_signature(lasts=lasts)) and changed is not None
        jobs = changed.values() if stands and changed is not None else state.unadmitted.values()
        admissions.sync(jobs, waits_for_admission, group, self.job_key())
        return admissions

    def forget_admissions(self) -> None:
        """Nobody waits to be let in: follow no job until somebody does."""
        self.runtime.admissions.forget()
        self.state.admission_changes = None

    def _order_signature(self, *, lasts: bool) -> object:
        keyed = lasts and self._sort_key("job_order", _job_fallback) is not None
        return (id(self.state), self.signature) if keyed else None

    def task_order(self, left: Task, right: Task) -> int:
        """Below 0: left first. 0: no plugin tells them apart."""
        return self._compare("task_order", left, right)

    def task_less(self, left: Task, right: Task) -> bool:
        """The order of tasks, with pod index, creation time and UID as last resort."""
        c = self.task_order(left, right)
        return c < 0 if c else _task_fallback(left, right) < 0

    def sorted_tasks(self, tasks: Iterable[Task]) -> list[Task]:
        """Tasks in order, first to last."""
        listed = list(tasks)
        if len(listed) < 2:
            return listed
        indexed = all(t.order is not None for t in listed)
        plain = not indexed and all(t.order is None for t in listed)
        key = self._sort_key("task_order", _task_key) if indexed or plain else None
        if key is not None:
            return sorted(listed, key=key)

        def compare(left: Task, right: Task) -> int:
            return -1 if self.task_less(left, right) else 1

        return sorted(listed, key=cmp_to_key(compare))

    def queue_order(self, left: Queue, right: Queue) -> int:
        """Below 0: left first. 0: no plugin tells them apart."""
        return self._compare("queue_order", left, right)

    def queue_less(self, left: Queue, right: Queue) -> bool:
        """The order of queues, with creation time and name as last resort."""
        c = self.queue_order(left, right)
        return c < 0 if c else (left.creation, left.name) < (right.creation, right.name)

    def victim_queue_less(self, left: Queue, right: Queue, preemptor: Queue) -> bool:
        """From which queue victims are taken first."""
        c = self._compare("victim_queue_order", left, right, preemptor)
        return c < 0 if c else not self.queue_less(left, right)

    def sub_job_less(self, left: SubJob, right: SubJob) -> bool:
        """The order of sub-jobs, with match index and UID as last resort."""
        c = self._compare("sub_job_order", left, right)
        return c < 0 if c else (left.match_index, left.uid) < (right.match_index, right.uid)

    def queue_heap(self, queues: Iterable[Queue] = ()) -> OrderedQueue[Queue]:
        """Queues to be popped in order."""
        return OrderedQueue(self.queue_less, queues)

    def job_heap(self, jobs: Iterable[Job] = ()) -> OrderedQueue[Job]:
        """Jobs to be popped in order."""
        return OrderedQueue(self.job_less(), jobs)


def _joined(functions: Sequence[Callable[[Any], Any]], fallback: Callable[[Any], Any]) -> Callable[[Any], Any]:
    if not functions:
        return fallback
    if len(functions) == 1:
        only = functions[0]
        return lambda x: (only(x), fallback(x))
    return lambda x: (*[f(x) for f in functions], fallback(x))


def _job_fallback(job: Job) -> tuple[float, bytes]:
    return job.creation, job.uid.encode()


def _task_key(task: Task) -> tuple[int, float, str]:
    return task.order if task.order is not None else 0, task.creation, task.uid


def _task_fallback(left: Task, right: Task) -> int:
    if left.order is not None and right.order is not None and left.order != right.order:
        return -1 if left.order < right.order else 1
    a, b = (left.creation, left.uid), (right.creation, right.uid)
    return (a > b) - (a < b)
