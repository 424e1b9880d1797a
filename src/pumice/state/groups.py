"""PodGroups and queues come, change and go: jobs, and the sums of the queue that a job is in."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pumice.errors import InvalidInput
from pumice.model.api import PodGroup, PriorityClass, QueueObject
from pumice.model.job import Job
from pumice.model.mapping import frozen, labels_of
from pumice.model.queue import Queue
from pumice.model.resources import Resources, TooManyNames
from pumice.state import ledger
from pumice.state import writing as w
from pumice.state.pods import join_sub_job
from pumice.state.writing import empty, put, take, unsealed

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState


def group_seen(state: ClusterState, obj: PodGroup) -> None:
    """A PodGroup was added or changed."""
    key = obj.key
    job = state.jobs.get(key)
    if job is None:
        job = Job(obj.metadata.namespace, obj.metadata.name)
        put(state.jobs, key, job)
    elif job.in_session and _only_status_differs(job, obj):
        _status_seen(state, job, obj)
        return
    _leave_queue(state, job)
    old_policies = job.policies
    _take_over(state, job, obj)
    if job.policies != old_policies or (job.policies and not job._sub_jobs):
        empty(job._sub_jobs)
        for task in job._tasks.values():
            w.set_sub_job(task, None)
            if job.policies:
                ledger.count(join_sub_job(job, task), task, ledger.OUT, task.status)
    _enter_queue(state, job)
    if job.problem:
        raise InvalidInput(job.problem)


def _take_over(state: ClusterState, job: Job, obj: PodGroup) -> None:
    """Make a job what its PodGroup says."""
    meta, spec = obj.metadata, obj.spec
    problem = ""
    minimum: Resources | None = None
    try:
        minimum = Resources.parse(spec.min_resources) if spec.min_resources is not None else None
    except InvalidInput as exc:
        problem = f"PodGroup {obj.key}: minResources: {exc}"
        if isinstance(exc, TooManyNames):
            state.unnamed["PodGroup", obj.key] = obj
    if spec.min_member < 0:
        problem = f"PodGroup {obj.key}: minMember must not be negative, got {spec.min_member}"
    with unsealed(job):
        job.group = obj
        job.problem = problem
        job.queue = spec.queue or state.default_queue
        job.min_available = max(spec.min_member, 0)
        job.role_minimums = frozen(spec.min_task_member or {})
        job.role_total = sum(job.role_minimums.values())
        job.creation = meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0
        job.labels, job.annotations = labels_of(meta.labels), labels_of(meta.annotations)
        job.phase = obj.status.phase
        job.min_resources = minimum
        job.priority = priority_of(state, spec.priority_class_name)
        job.version += 1


def _only_status_differs(job: Job, obj: PodGroup) -> bool:
    """Is the PodGroup the one we know but for its status? Most often that is our own writing, coming back."""
    old = job.group
    if old is None or job.problem or obj.spec != old.spec:
        return False
    new, known = obj.metadata, old.metadata
    return (
        new.uid == known.uid
        and new.labels == known.labels
        and new.annotations == known.annotations
        and new.creation_timestamp == known.creation_timestamp
    )


def _status_seen(state: ClusterState, job: Job, obj: PodGroup) -> None:
    w.set_pod_group(job, obj)
    if obj.status.phase != job.phase:
        queue = state.queues[job.queue]
        w.set_queue_version(queue, queue.version + 1)
        state.set_phase(job, obj.status.phase)


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
    queue = state.queues.get(job.queue) if job.in_session else None
    if queue is not None:
        ledger.tally_job(queue, job, -1)
    w.set_in_session(job, False)
    take(state.queueless, job.uid, None)
    take(state.session_jobs, job.uid, None)
    state.note_admission(job)
    state.mark(job)
    state.recontribute(job)


def _enter_queue(state: ClusterState, job: Job) -> None:
    """Count a job in its queue, if it has a PodGroup and its queue exists."""
    queue = state.queues.get(job.queue)
    state.mark(job)
    if job.group is None:
        return
    if queue is None:
        put(state.queueless, job.uid, job)
        return
    take(state.queueless, job.uid, None)
    w.set_in_session(job, True)
    put(state.session_jobs, job.uid, job)
    state.note_admission(job)
    ledger.tally_job(queue, job, 1)


def group_gone(state: ClusterState, key: str) -> None:
    """A PodGroup left; its pods, if any, wait for a new one."""
    job = state.jobs.get(key)
    if job is None:
        return
    _leave_queue(state, job)
    with unsealed(job):
        job.group = None
        job.phase = ""
        job.min_resources = None
    if not job._tasks:
        take(state.jobs, key)


def queue_seen(state: ClusterState, obj: QueueObject) -> None:
    """A queue was added or changed."""
    name = obj.metadata.name
    queue = state.queues.get(name)
    state.queue_version += 1
    if queue is not None:
        with unsealed(queue):
            queue._take_over(obj)
            queue.version += 1
        return
    put(state.queues, name, Queue(obj))
    for job in state.jobs.values():
        if not job.in_session and job.group is not None and job.queue == name:
            _enter_queue(state, job)


def queue_gone(state: ClusterState, name: str) -> None:
    """A queue left; its jobs wait for a new one."""
    queue = state.queues.get(name)
    if queue is None:
        return
    for job in list(queue._jobs.values()):
        _leave_queue(state, job)
        put(state.queueless, job.uid, job)
    take(state.queues, name)
    state.queue_version += 1


def reprioritise(state: ClusterState) -> None:
    for job in state.jobs.values():
        if job.group is not None:
            w.set_priority(job, priority_of(state, job.group.spec.priority_class_name))
            w.set_group_version(job, job.version + 1)
            state.mark(job)
