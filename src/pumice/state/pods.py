"""Pods come, change and go: tasks and everything that counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.errors import InvalidInput
from pumice.model.api import Metadata, Pod, PodSpec
from pumice.model.events import EvictFailed
from pumice.model.job import Job, SubJob, parse_bool, sub_job_of
from pumice.model.status import TaskStatus
from pumice.model.task import GROUP_ANNOTATION, PREEMPTABLE_KEY, ROLE_KEY, TASK_PRIORITY_ANNOTATION, Task
from pumice.state.refused import WAITS, RefusedEviction

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

S = TaskStatus
_FINISHED = (S.SUCCEEDED, S.FAILED)


def pod_status(pod: Pod) -> TaskStatus:
    """The status of a pod as the cluster tells it."""
    deleted = pod.metadata.deletion_timestamp is not None
    match pod.status.phase:
        case "Running":
            return S.RELEASING if deleted else S.RUNNING
        case "Pending":
            if deleted:
                return S.RELEASING
            return S.BOUND if pod.spec.node_name else S.PENDING
        case "Succeeded":
            return S.SUCCEEDED
        case "Failed":
            return S.FAILED
        case _:
            return S.UNKNOWN


def _new_task(state: ClusterState, pod: Pod) -> Task:
    meta = pod.metadata
    notes = meta.annotations or {}
    labels = meta.labels or {}
    invalid = ""
    try:
        klass = state.classes.of(pod)
    except InvalidInput as exc:
        invalid = str(exc)
        klass = state.classes.of(Pod(metadata=Metadata(name=meta.name, namespace=meta.namespace), spec=PodSpec()))
        state.problems["Pod", pod.key] = invalid
    ours = state.scheduler_names is None or pod.spec.scheduler_name in state.scheduler_names
    group = notes.get(GROUP_ANNOTATION, "") if ours else ""
    priority = 1 if pod.spec.priority is None else pod.spec.priority
    override = notes.get(TASK_PRIORITY_ANNOTATION)
    if override is not None and override.lstrip("+-").isdigit() and -(2**31) <= int(override) < 2**31:
        priority = int(override)
    said = notes.get(PREEMPTABLE_KEY, labels.get(PREEMPTABLE_KEY))
    task = Task(
        pod,
        klass,
        f"{meta.namespace}/{group}" if group else "",
        notes.get(ROLE_KEY) or labels.get(ROLE_KEY, ""),
        priority,
        True if said is None else parse_bool(said),
    )
    if invalid:  # nobody knows what it asks for, so it is not one that asks for nothing
        task._invalid, task._best_effort = invalid, False
    return task


def pod_seen(state: ClusterState, pod: Pod) -> None:
    """A pod was added or changed."""
    key = pod.key
    known = state.task_by_key.get(key)
    uid = pod.metadata.uid or key
    status = pod_status(pod)
    if known is not None and known._uid != uid:
        pod_gone(state, key)
        known = None
    if known is None:
        _add_task(state, _new_task(state, pod), status, pod.spec.node_name)
        return
    if known._uid in state.assumed:
        if known._status == S.BINDING and not pod.spec.node_name and status in (S.PENDING, S.UNKNOWN):
            known._pod = pod
            return
        if known._status == S.RELEASING and status in (S.RUNNING, S.BOUND):
            known._pod = pod
            return
        del state.assumed[known._uid]
        known._assumed_at = None
    fresh = _new_task(state, pod)
    if _same_identity(known, fresh):
        node = state.table.by_name.get(pod.spec.node_name) if pod.spec.node_name else None
        moved = (known._status, known._node) != (status, None if status in _FINISHED else node)
        if known._pod.spec.node_name != pod.spec.node_name:
            moved = True  # perhaps between nodes that we do not know
        if moved:
            _unorphan(state, known)
        known._pod = pod
        known._nominated = fresh._nominated
        known._labels, known._annotations = fresh._labels, fresh._annotations
        if moved:
            state.set_status(known, status, node)
            _orphan(state, known, pod.spec.node_name)
        return
    _drop_task(state, known)
    _add_task(state, fresh, status, pod.spec.node_name)


def _same_identity(known: Task, fresh: Task) -> bool:
    return (
        known._class is fresh._class
        and known._job_key == fresh._job_key
        and (known._role, known._priority, known._preemptable) == (fresh._role, fresh._priority, fresh._preemptable)
        and known._gates == fresh._gates
        and known._labels == fresh._labels
        and known._invalid == fresh._invalid
    )


def _add_task(state: ClusterState, task: Task, status: TaskStatus, node_name: str) -> None:
    state.table.ensure_width()
    state.tasks[task._uid] = task
    state.task_by_key[task.key] = task
    if (status is S.RUNNING or status is S.BOUND) and _enter(state, task, status, node_name):
        return
    if task._job_key:
        _join(state, task)
    node = state.table.by_name.get(node_name) if node_name else None
    if status is not S.PENDING:
        state.set_status(task, status, node)
        _orphan(state, task, node_name)


def _enter(state: ClusterState, task: Task, status: TaskStatus, node_name: str) -> bool:
    """Take in a task that has its place already: as if it had waited and been moved there, only faster.

    False, with nothing changed, where there is more to it. Tens of thousands of pods come this way at a start.
    """
    job, node, klass = state.jobs.get(task._job_key), state.table.by_name.get(node_name), task._class
    if job is None or node is None or klass.requires_gpu or job.policies or not job.in_session:
        return False
    queue = state.queues.get(job._queue)
    if queue is None:
        return False
    row, table = node._row, state.table
    task._job, task._status, task._node, task._row = job, status, node, row
    job._tasks[task._uid] = node._tasks[task._uid] = task
    job._index(task, status, 1)
    sums = (job._total, job._allocated, job._held, queue._allocated, queue._held, state.used_total)
    mine = state.namespace(task._namespace)._allocated
    idle, used = table.idle, table.used
    for d, v in klass.items:
        idle[d, row] -= v
        used[d, row] += v
        mine[d] = mine.get(d, 0) + v
        for each in sums:
            each[d] = each.get(d, 0) + v
    state._view(row, klass, 1)
    table.touched.add(row)
    queue.version += 1
    state.mark(job)
    return True


def _join(state: ClusterState, task: Task) -> None:
    """Make a pending task part of its job."""
    job = state.jobs.get(task._job_key)
    if job is None:
        namespace, _, name = task._job_key.partition("/")
        job = state.jobs[task._job_key] = Job(namespace, name)
    task._job = job
    job._tasks[task._uid] = task
    job._index(task, S.PENDING, 1)
    join_sub_job(job, task)
    for d, v in task._class.items:
        job._total[d] = job._total.get(d, 0) + v
        job._pending[d] = job._pending.get(d, 0) + v
    queue = state.queues.get(job._queue) if job.in_session else None
    if queue is not None:
        for d, v in task._class.items:
            queue._pending[d] = queue._pending.get(d, 0) + v
        queue._waiting[job._uid] = job
        queue.version += 1
    state.mark(job)


def join_sub_job(job: Job, task: Task) -> None:
    if not job.policies:
        return
    uid, group, index, policy = sub_job_of(job, task)
    sub_job = job._sub_jobs.get(uid)
    if sub_job is None:
        sub_job = job._sub_jobs[uid] = SubJob(job, uid, group, index)
        sub_job._min_available = 1 if policy is None else (policy.sub_group_size or 1)
        sub_job.topology = job.topology if policy is None else policy.network_topology
    task._sub_job = sub_job
    sub_job._tasks[task._uid] = task
    sub_job._index(task, task._status, 1)


def _drop_task(state: ClusterState, task: Task) -> None:
    """Take a task out of everything that counts it."""
    _unorphan(state, task)
    if task._status is not S.PENDING:
        state.set_status(task, S.PENDING, None)
    state.assumed.pop(task._uid, None)
    state.refused.pop(task._uid, None)
    del state.tasks[task._uid]
    del state.task_by_key[task.key]
    job = task._job
    if job is None:
        return
    job._index(task, S.PENDING, -1)
    del job._tasks[task._uid]
    if task._sub_job is not None:
        task._sub_job._index(task, S.PENDING, -1)
        del task._sub_job._tasks[task._uid]
        if not task._sub_job._tasks:
            job._sub_jobs.pop(task._sub_job._uid, None)
    queue = state.queues.get(job._queue) if job.in_session else None
    for d, v in task._class.items:
        job._total[d] -= v
        job._pending[d] -= v
        if queue is not None:
            queue._pending[d] -= v
    if queue is not None:
        queue.version += 1
        if not job._by_status[0]:
            queue._waiting.pop(job._uid, None)
    state.mark(job)
    if not job._tasks and job._group is None:
        del state.jobs[job._uid]


def _orphan(state: ClusterState, task: Task, node_name: str) -> None:
    """Remember a task whose node we do not know yet."""
    if node_name and task._node is None and task._status not in (S.PENDING, *_FINISHED):
        state.orphans.setdefault(node_name, {})[task._uid] = task


def _unorphan(state: ClusterState, task: Task) -> None:
    name = task._pod.spec.node_name
    if name in state.orphans:
        state.orphans[name].pop(task._uid, None)
        if not state.orphans[name]:
            del state.orphans[name]


def pod_gone(state: ClusterState, key: str) -> None:
    """A pod left the cluster."""
    task = state.task_by_key.get(key)
    if task is not None:
        _drop_task(state, task)


def bind_failed(state: ClusterState, uid: str, node: str = "") -> None:
    """A bind did not happen: the task waits again, unless it was sent to another node since."""
    task = state.assumed.get(uid)
    if task is not None and task._status == S.BINDING and node in ("", task.node_name):
        unassume(state, task)


def evict_failed(state: ClusterState, event: EvictFailed) -> None:
    """An eviction was refused: the task runs on, and is no victim for a while."""
    task = state.assumed.get(event.uid)
    if task is None or task._status != S.RELEASING:
        return
    unassume(state, task)
    known = state.refused.get(event.uid)
    wait = 0.0
    if event.tried:
        wait = min(known.wait * 2, WAITS[1]) if known is not None and known.wait else WAITS[0]
    state.refused[event.uid] = RefusedEviction(
        event.pod, event.node, event.beneficiary, event.message, wait, state.now + wait, event.freed
    )
    helped = state.jobs.get(event.beneficiary)
    if helped is not None:
        state.mark(helped)


def unassume(state: ClusterState, task: Task) -> None:
    """Go back to what the cluster last said of a task."""
    state.assumed.pop(task._uid, None)
    task._assumed_at = None
    status = pod_status(task._pod)
    state.set_status(task, status, state.table.by_name.get(task._pod.spec.node_name))
