"""Pods come, change and go: tasks and everything that counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.errors import InvalidInput
from pumice.model.api import Metadata, Pod, PodSpec
from pumice.model.events import EvictFailed
from pumice.model.job import Job, SubJob, parse_bool, sub_job_of
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.status import TaskStatus
from pumice.model.task import GROUP_ANNOTATION, PREEMPTABLE_KEY, ROLE_KEY, TASK_PRIORITY_ANNOTATION, Task
from pumice.state import writing as w
from pumice.state.ledger import enter, leave
from pumice.state.refused import WAITS, RefusedEviction
from pumice.state.writing import find, put, replace, take, unsealed

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
    return Task(
        pod,
        klass,
        f"{meta.namespace}/{group}" if group else "",
        notes.get(ROLE_KEY) or labels.get(ROLE_KEY, ""),
        priority,
        True if said is None else parse_bool(said),
        invalid,
    )


def pod_seen(state: ClusterState, pod: Pod) -> None:
    """A pod was added or changed."""
    key = pod.key
    known = state.task_by_key.get(key)
    uid = pod.metadata.uid or key
    status = pod_status(pod)
    if known is not None and known.uid != uid:
        pod_gone(state, key)
        known = None
    if known is None:
        _add_task(state, _new_task(state, pod), status, pod.spec.node_name)
        return
    if known.uid in state.assumed:
        under_way = known.status == S.RELEASING or not pod.spec.node_name
        if under_way and status not in (S.RELEASING, *_FINISHED):  # whatever phase somebody wrote into it
            w.set_pod(known, pod)
            return
        del state.assumed[known.uid]
        w.set_assumed_at(known, None)
    fresh = _new_task(state, pod)
    if _same_identity(known, fresh):
        node = state.table.by_name.get(pod.spec.node_name) if pod.spec.node_name else None
        moved = (known.status, known.node) != (status, None if status in _FINISHED else node)
        if known.pod.spec.node_name != pod.spec.node_name:
            moved = True  # perhaps between nodes that we do not know
        if moved:
            _unorphan(state, known)
        w.set_pod(known, pod)
        w.set_nominated_node(known, fresh.nominated_node)
        w.set_labels(known, fresh.labels)
        w.set_annotations(known, fresh.annotations)
        if moved:
            state.set_status(known, status, node)
            _orphan(state, known, pod.spec.node_name)
        return
    _drop_task(state, known)
    _add_task(state, fresh, status, pod.spec.node_name)


def _same_identity(known: Task, fresh: Task) -> bool:
    return (
        known.klass is fresh.klass
        and known.job_key == fresh.job_key
        and (known.role, known.priority, known.preemptable) == (fresh.role, fresh.priority, fresh.preemptable)
        and known.gates == fresh.gates
        and known.labels == fresh.labels
        and known.invalid == fresh.invalid
    )


def _add_task(state: ClusterState, task: Task, status: TaskStatus, node_name: str) -> None:
    state.table.ensure_width()
    replace(state.tasks, task.uid, task)
    state.task_by_key[task.key] = task
    if (status is S.RUNNING or status is S.BOUND) and _enter(state, task, status, node_name):
        return
    if task.job_key:
        _join(state, task)
    if status is not S.PENDING:
        state.set_status(task, status, find(state.table.by_name, node_name))
        _orphan(state, task, node_name)


def _enter(state: ClusterState, task: Task, status: TaskStatus, node_name: str) -> bool:
    """Take in a task that has its place already: as if it had waited and been moved there, only faster.

    False, with nothing changed, where there is more to it. Tens of thousands of pods come this way at a start.
    """
    job: Job | None = find(state.jobs, task.job_key)
    node: Node | None = find(state.table.by_name, node_name)
    klass = task.klass
    if job is None or node is None or klass.requires_gpu or job.policies or not job.in_session:
        return False
    queue: Queue | None = find(state.queues, job.queue)
    if queue is None:
        return False
    row, table = node.row, state.table
    w.set_job(task, job)
    w.set_status(task, status)
    w.set_node(task, node)
    put(job._tasks, task.uid, task)
    put(node.tasks, task.uid, task)
    enter(job, task)
    sums = (job._total, job._allocated, job._held, queue._allocated, queue._held, state.used_total)
    mine = state.namespace(task.namespace)._allocated
    idle, used = table.idle, table.used
    for d, v in klass.items:
        idle[d, row] -= v
        used[d, row] += v
        mine[d] = mine.get(d, 0) + v
        for each in sums:
            each[d] = each.get(d, 0) + v
    state._view(row, klass, 1)
    table.touched.add(row)
    w.set_queue_version(queue, queue.version + 1)
    state.mark(job)
    return True


def _join(state: ClusterState, task: Task) -> None:
    """Make a pending task part of its job."""
    job: Job | None = find(state.jobs, task.job_key)
    if job is None:
        namespace, _, name = task.job_key.partition("/")
        job = Job(namespace, name)
        put(state.jobs, task.job_key, job)
    w.set_job(task, job)
    put(job._tasks, task.uid, task)
    enter(job, task)
    join_sub_job(job, task)
    for d, v in task.klass.items:
        job._total[d] = job._total.get(d, 0) + v
        job._pending[d] = job._pending.get(d, 0) + v
    queue: Queue | None = find(state.queues, job.queue) if job.in_session else None
    if queue is not None:
        for d, v in task.klass.items:
            queue._pending[d] = queue._pending.get(d, 0) + v
        put(queue.waiting, job.uid, job)
        w.set_queue_version(queue, queue.version + 1)
    state.mark(job)


def join_sub_job(job: Job, task: Task) -> None:
    if not job.policies:
        return
    uid, group, index, policy = sub_job_of(job, task)
    sub_job = job._sub_jobs.get(uid)
    if sub_job is None:
        sub_job = SubJob(job, uid, group, index)
        with unsealed(sub_job):
            sub_job.min_available = 1 if policy is None else (policy.sub_group_size or 1)
            sub_job.topology = job.topology if policy is None else policy.network_topology
        put(job._sub_jobs, uid, sub_job)
    w.set_sub_job(task, sub_job)
    put(sub_job._tasks, task.uid, task)
    enter(sub_job, task)


def _drop_task(state: ClusterState, task: Task) -> None:
    """Take a task out of everything that counts it."""
    _unorphan(state, task)
    if task.status is not S.PENDING:
        state.set_status(task, S.PENDING, None)
    state.assumed.pop(task.uid, None)
    state.refused.pop(task.uid, None)
    take(state.tasks, task.uid)
    del state.task_by_key[task.key]
    if not task.job_key:
        return
    job = task.job
    leave(job, task)
    take(job._tasks, task.uid)
    if task.sub_job is not None:
        leave(task.sub_job, task)
        take(task.sub_job._tasks, task.uid)
        if not task.sub_job._tasks:
            take(job._sub_jobs, task.sub_job.uid, None)
    queue = state.queues.get(job.queue) if job.in_session else None
    for d, v in task.klass.items:
        job._total[d] -= v
        job._pending[d] -= v
        if queue is not None:
            queue._pending[d] -= v
    if queue is not None:
        w.set_queue_version(queue, queue.version + 1)
        if not job._by_status[S.PENDING]:
            take(queue.waiting, job.uid, None)
    state.mark(job)
    if not job._tasks and job.group is None:
        take(state.jobs, job.uid)


def _orphan(state: ClusterState, task: Task, node_name: str) -> None:
    """Remember a task whose node we do not know yet."""
    if node_name and task.node is None and task.status not in (S.PENDING, *_FINISHED):
        state.orphans.setdefault(node_name, {})[task.uid] = task


def _unorphan(state: ClusterState, task: Task) -> None:
    name = task.pod.spec.node_name
    if name in state.orphans:
        state.orphans[name].pop(task.uid, None)
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
    if task is not None and task.status == S.BINDING and node in ("", task.node_name):
        unassume(state, task)


def evict_failed(state: ClusterState, event: EvictFailed) -> None:
    """An eviction was refused: the task runs on, and is no victim for a while."""
    task = state.assumed.get(event.uid)
    if task is None or task.status != S.RELEASING:
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
    state.assumed.pop(task.uid, None)
    w.set_assumed_at(task, None)
    status = pod_status(task.pod)
    state.set_status(task, status, state.table.by_name.get(task.pod.spec.node_name))
