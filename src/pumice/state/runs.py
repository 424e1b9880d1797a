"""Pods of one job to which the same happens, one after the other: what they share is looked at and added up once.

A gang's pods are made, start and end together. Each task is where it belongs at once; what is counted and summed over
the job follows when anything else happens to the state or the events are over (`ClusterState.apply_all`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.model.api import Pod
from pumice.model.job import Job
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state import writing as w
from pumice.state.counts import OUT
from pumice.state.pods import same_but_for_its_place
from pumice.state.sums import count_moved
from pumice.state.writing import find, put, take

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

S = TaskStatus


class PodRun:
    """Pods of one job that come, start or go, and what has not been counted for them yet."""

    __slots__ = ("_after", "_before", "_state", "_task", "_times", "like")

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.like: Task | None = None
        """The task that was read last, if those of its job that come after it may be like it."""
        self._task: Task | None = None
        self._before = self._after = OUT
        self._times = 0
        """So many tasks like this one went from the one status to the other and are not counted there yet."""

    def take(self, pod: Pod) -> bool:
        """Take in a pod that waits like the one before it, or that was bound and has started.

        False, and nothing happened, where anything else is said of it: it is to be read.
        """
        if self._state.problems:
            return False
        key = pod.key
        known = self._state.task_by_key.get(key)
        return self._comes(pod, key) if known is None else self._starts(pod, key, known)

    def _comes(self, pod: Pod, key: str) -> bool:
        like, state = self.like, self._state
        if like is None:
            return False
        then, meta = like.pod, pod.metadata
        was = then.metadata
        if (
            meta.annotations is not was.annotations  # equal ones are one object
            or meta.labels is not was.labels
            or meta.namespace != was.namespace
            or meta.deletion_timestamp is not None
            or (pod.status is not then.status and pod.status != then.status)
            or (pod.spec is not then.spec and pod.spec != then.spec)
        ):
            return False
        try:
            task = like._beside(pod, key, None)
        except Exception:  # a time or a name that is none: whoever reads it says so
            return False
        if put(state.tasks, task.uid, task) is not task:
            return False
        state.task_by_key[key] = task
        job = like.job
        put(job._tasks, task.uid, task)
        put(job._by_status[S.PENDING], task.uid, task)
        self._count(like, OUT, S.PENDING)
        return True

    def _starts(self, pod: Pod, key: str, task: Task) -> bool:
        state, node, job, uid = self._state, task.node, task.job, task.uid
        spec, meta = pod.spec, pod.metadata
        if (
            task.status is not S.BINDING
            or pod.status.phase != "Running"
            or node is None
            or node.name != spec.node_name
            or meta.deletion_timestamp is not None
            or (meta.uid or key) != uid
            or uid not in state.assumed
            or not _plain(state, task)
            or spec.scheduling_group is not None
            or not same_but_for_its_place(task, pod)
        ):
            return False
        del state.assumed[uid]
        w.set_assumed_at(task, None)
        w.set_pod(task, pod)
        w.set_nominated_node(task, pod.status.nominated_node_name)
        w.set_status(task, S.RUNNING)
        take(job._by_status[S.BINDING], uid)
        put(job._by_status[S.RUNNING], uid, task)
        state.table.touched.add(node.row)
        self._count(task, S.BINDING, S.RUNNING)
        return True

    def lose(self, key: str) -> bool:
        """A pod that ran is gone. False, and nothing happened, where it did not, or more than its job counts it."""
        state = self._state
        task = state.task_by_key.get(key)
        if task is None or task.status is not S.RUNNING or not _plain(state, task) or task.uid in state.assumed:
            return False
        node, job, uid = task.node, task.job, task.uid
        if node is None or task.evicted or state.problems or state.refused:
            return False
        self._count(task, S.RUNNING, OUT)
        row = node.row
        state.table.place(row, task.klass, -1)
        take(node.tasks, uid)
        w.set_node(task, None)
        if task.klass.requires_gpu:
            state.devices.give_back(task, row)
        take(state.tasks, uid)
        del state.task_by_key[key]
        take(job._by_status[S.RUNNING], uid)
        take(job._tasks, uid)
        return True

    def _count(self, task: Task, before: int, after: int) -> None:
        last = self._task
        if (
            last is None
            or last.job is not task.job
            or last.klass is not task.klass
            or last.role != task.role
            or self._before != before
            or self._after != after
        ):
            self._add_up()
            self._state.settle()
            self._task, self._before, self._after = task, before, after
        self._times += 1

    def settle(self) -> None:
        """Something else is about to happen: count those that were not counted yet, and have the next one read."""
        self.like = None
        if self._task is not None:
            self._add_up()

    def _add_up(self) -> None:
        task = self._task
        if task is None:
            return
        state, job, times = self._state, task.job, self._times
        self._task, self._times = None, 0
        count_moved(state, task, self._before, self._after, times)
        if self._after == OUT:
            _forget_empty(state, job)


def _plain(state: ClusterState, task: Task) -> bool:
    """Does nobody but its job count a task, beside its node and its queue?"""
    return bool(task.job_key) and task.sub_job is None and not (state.orphans or state.rooms)


def _forget_empty(state: ClusterState, job: Job) -> None:
    """A job of which nothing is left is forgotten."""
    if not job._tasks and job.group is None and find(state.jobs, job.uid) is job:
        take(state.jobs, job.uid)
