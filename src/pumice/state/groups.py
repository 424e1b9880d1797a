"""PodGroups and queues come, change and go: jobs, and the sums of the queue that a job is in."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pumice.errors import InvalidInput
from pumice.model.api import PodGroup, PriorityClass, QueueObject
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.resources import Resources
from pumice.state.pods import join_sub_job

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState


def group_seen(state: ClusterState, obj: PodGroup) -> None:
    """A PodGroup was added or changed."""
    key = obj.key
    job = state.jobs.get(key)
    if job is None:
        job = state.jobs[key] = Job(obj.metadata.namespace, obj.metadata.name)
    elif job.in_session and _only_status_differs(job, obj):
        _status_seen(state, job, obj)
        return
    _leave_queue(state, job)
    old_policies = job.policies
    meta, spec = obj.metadata, obj.spec
    job._problem = ""
    minimum: Resources | None = None
    try:
        minimum = Resources.parse(spec.min_resources) if spec.min_resources is not None else None
    except InvalidInput as exc:
        job._problem = f"PodGroup {key}: minResources: {exc}"
    if spec.min_member < 0:
        job._problem = f"PodGroup {key}: minMember must not be negative, got {spec.min_member}"
    job._group = obj
    job._queue = spec.queue or state.default_queue
    job._min_available = max(spec.min_member, 0)
    job.role_minimums = dict(spec.min_task_member or {})
    job.role_total = sum(job.role_minimums.values())
    job._creation = meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0
    job._labels, job._annotations = meta.labels or {}, meta.annotations or {}
    job._phase = obj.status.phase
    job._min_resources = minimum
    job._priority = priority_of(state, spec.priority_class_name)
    if job.policies != old_policies or (job.policies and not job._sub_jobs):
        job._sub_jobs.clear()
        for task in job._tasks.values():
            task._sub_job = None
            join_sub_job(job, task)
    job.version += 1
    _enter_queue(state, job)
    if job._problem:
        raise InvalidInput(job._problem)


def _only_status_differs(job: Job, obj: PodGroup) -> bool:
    """Is the PodGroup the one we know but for its status? Most often that is our own writing, coming back."""
    old = job._group
    if old is None or job._problem or obj.spec != old.spec:
        return False
    new, known = obj.metadata, old.metadata
    return (
        new.uid == known.uid
        and new.labels == known.labels
        and new.annotations == known.annotations
        and new.creation_timestamp == known.creation_timestamp
    )


def _status_seen(state: ClusterState, job: Job, obj: PodGroup) -> None:
    job._group = obj
    if obj.status.phase != job._phase:
        job._phase = obj.status.phase
        job.version += 1
        state.queues[job._queue].version += 1
        state.note_admission(job)
        state.mark(job)


def priority_of(state: ClusterState, class_name: str) -> int:
    """The value of a priority class; of none: the global default, else 0."""
    classes = state.kind("PriorityClass")
    named = classes.get(class_name) if class_name else None
    if named is not None:
        return cast(PriorityClass, named).value
    for other in classes.values():
        if cast(PriorityClass, other).global_default:
            return cast(PriorityClass, other).value
    return 0


def _leave_queue(state: ClusterState, job: Job) -> None:
    """Take a job out of its queue's sums."""
    queue = state.queues.get(job._queue) if job.in_session else None
    if queue is not None:
        queue._jobs.pop(job._uid, None)
        queue._waiting.pop(job._uid, None)
        for into, what in (
            (queue._allocated, job._allocated),
            (queue._held, job._held),
            (queue._pending, job._pending),
        ):
            for d, v in what.items():
                into[d] = into.get(d, 0) - v
        queue.version += 1
    job.in_session = False
    state.queueless.pop(job._uid, None)
    state.session_jobs.pop(job._uid, None)
    state.note_admission(job)
    state.mark(job)
    state._recontribute(job)


def _enter_queue(state: ClusterState, job: Job) -> None:
    """Count a job in its queue, if it has a PodGroup and its queue exists."""
    queue = state.queues.get(job._queue)
    state.mark(job)
    if job._group is None:
        return
    if queue is None:
        state.queueless[job._uid] = job
        return
    state.queueless.pop(job._uid, None)
    job.in_session = True
    state.session_jobs[job._uid] = job
    state.note_admission(job)
    queue._jobs[job._uid] = job
    if job._by_status[0]:
        queue._waiting[job._uid] = job
    for into, what in ((queue._allocated, job._allocated), (queue._held, job._held), (queue._pending, job._pending)):
        for d, v in what.items():
            into[d] = into.get(d, 0) + v
    queue.version += 1


def group_gone(state: ClusterState, key: str) -> None:
    """A PodGroup left; its pods, if any, wait for a new one."""
    job = state.jobs.get(key)
    if job is None:
        return
    _leave_queue(state, job)
    job._group = None
    job._phase = ""
    job._min_resources = None
    if not job._tasks:
        del state.jobs[key]


def queue_seen(state: ClusterState, obj: QueueObject) -> None:
    """A queue was added or changed."""
    name = obj.metadata.name
    queue = state.queues.get(name)
    state.queue_version += 1
    if queue is not None:
        queue.update(obj)
        queue.version += 1
        return
    queue = state.queues[name] = Queue(obj)
    for job in state.jobs.values():
        if job._queue == name and not job.in_session:
            _enter_queue(state, job)


def queue_gone(state: ClusterState, name: str) -> None:
    """A queue left; its jobs wait for a new one."""
    queue = state.queues.get(name)
    if queue is None:
        return
    for job in list(queue._jobs.values()):
        _leave_queue(state, job)
        state.queueless[job._uid] = job
    del state.queues[name]
    state.queue_version += 1


def reprioritise(state: ClusterState) -> None:
    for job in state.jobs.values():
        if job._group is not None:
            job._priority = priority_of(state, job._group.spec.priority_class_name)
            job.version += 1
            state.mark(job)
