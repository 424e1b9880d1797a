"""PodGroups and queues come, change and go: jobs, and the sums of the queue that a job is in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from pumice.errors import InvalidInput
from pumice.model import native
from pumice.model.api import Metadata, Pod, PodGroup, PriorityClass, QueueObject
from pumice.model.job import Job
from pumice.model.keys import QUEUE_ANNOTATION
from pumice.model.mapping import ReadOnlyMap, frozen, labels_of
from pumice.model.native import NativePodGroup
from pumice.model.queue import Queue
from pumice.model.resources import Resources, TooManyNames
from pumice.model.status import JobPhase
from pumice.model.task import Task
from pumice.state import ledger
from pumice.state import writing as w
from pumice.state.classes import Feature
from pumice.state.ledger import fits_nowhere
from pumice.state.pods import join_sub_job
from pumice.state.writing import empty, find, put, take, unsealed

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

_NO_MINIMUMS: Final[ReadOnlyMap[str, int]] = ReadOnlyMap()
_HIDDEN: Final = f"{native.POD_GROUP} {{}}: a PodGroup of Volcano's has this name, and counts"


def group_seen(state: ClusterState, obj: PodGroup) -> None:
    """A PodGroup was added or changed."""
    key = obj.key
    job: Job | None = find(state.jobs, key)
    if job is not None and job.in_session and obj.__class__ is PodGroup and _only_status_differs(job, obj):
        _status_seen(state, job, obj)
        return
    if isinstance(obj, NativePodGroup):
        state.kind(native.POD_GROUP)[key] = obj
        if job is not None and job.group is not None and job.kind != native.POD_GROUP:
            raise InvalidInput(_HIDDEN.format(key))
    elif key in state.kind(native.POD_GROUP):
        state.problems[native.POD_GROUP, key] = _HIDDEN.format(key)
    if job is None:
        job = Job(obj.metadata.namespace, obj.metadata.name)
        put(state.jobs, key, job)
    elif job.in_session and _only_status_differs(job, obj):
        _status_seen(state, job, obj)
        return
    _retake(state, job, obj)


def _retake(state: ClusterState, job: Job, obj: PodGroup) -> None:
    """Make a job what its PodGroup says, with everything that counts it."""
    if job.in_session or job.group is not None:
        _leave_queue(state, job)
    old_policies = job.policies
    _take_over(state, job, obj)
    policies = job.policies
    if policies != old_policies or (policies and not job._sub_jobs):
        empty(job._sub_jobs)
        for task in job._tasks.values():
            w.set_sub_job(task, None)
            if policies:
                ledger.count(join_sub_job(job, task), task, ledger.OUT, task.status)
    _enter_queue(state, job)
    if job.problem:
        raise InvalidInput(job.problem)


def _take_over(state: ClusterState, job: Job, obj: PodGroup) -> None:
    """Make a job what its PodGroup says."""
    meta, spec = obj.metadata, obj.spec
    problem = f"{obj.kind_name} {obj.key}: {obj.fault}" if obj.fault else ""
    facts = _facts_of(state, job, obj)
    minimum: Resources | None = None
    try:
        minimum = Resources.parse(spec.min_resources) if spec.min_resources is not None else None
    except InvalidInput as exc:
        problem = f"PodGroup {obj.key}: minResources: {exc}"
        if isinstance(exc, TooManyNames):
            state.unnamed["PodGroup", obj.key] = obj
    with unsealed(job) as draft:
        draft.join(obj)
        draft.problem = problem
        draft.queue = facts.queue or state.default_queue
        draft.together = facts.together
        draft.min_available = max(spec.min_member, 0)
        draft.role_minimums = frozen(spec.min_task_member) if spec.min_task_member else _NO_MINIMUMS
        draft.role_total = sum(job.role_minimums.values())
        draft.creation = meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0
        draft.labels, draft.annotations = labels_of(facts.labels), labels_of(facts.annotations)
        draft.phase = facts.phase
        draft.min_resources = minimum
        draft.priority = facts.priority
        draft.version += 1
    if isinstance(obj, NativePodGroup) and obj.spec.topology_key:
        state.classes.features.add(Feature.GROUP_DOMAIN)


def _only_status_differs(job: Job, obj: PodGroup) -> bool:
    """Report whether the PodGroup is the known one but for its status. Most often that is our own writing, coming
    back."""
    old = job.group
    if old is None or job.problem or obj.kind_name != old.kind_name:
        return False
    if obj.spec is not old.spec and obj.spec != old.spec:
        return False
    return _says_the_same(obj.metadata, old.metadata)


def _says_the_same(new: Metadata, known: Metadata) -> bool:
    """Report whether it is the same object, with the same labels and annotations."""
    return new is known or (
        new.uid == known.uid
        and new.labels == known.labels
        and new.annotations == known.annotations
        and new.creation_timestamp == known.creation_timestamp
    )


def _status_seen(state: ClusterState, job: Job, obj: PodGroup) -> None:
    was_in_vain = fits_nowhere(job)
    w.set_pod_group(job, obj)
    if obj.status.phase != job.phase and job.kind != native.POD_GROUP:
        queue = state.queues[job.queue]
        w.set_queue_version(queue, queue.version + 1)
        state.set_phase(job, obj.status.phase)
    elif fits_nowhere(job) is not was_in_vain and job.uid not in state.dirty:
        state.recontribute(job)


def member_seen(state: ClusterState, pod: Pod) -> None:
    """A pod of a group of Kubernetes' own was added or changed: it may say what its group does not."""
    task = state.task_by_key.get(pod.key)
    job = task.job if task is not None and task.job_key else None
    if task is not None and job is not None and isinstance(job.group, NativePodGroup) and _changes_facts(job, task):
        _retake(state, job, job.group)


def workload_seen(state: ClusterState, key: str) -> None:
    """A Workload was added, changed or removed: what it says of its groups is another."""
    for group in list(state.kind(native.POD_GROUP).values()):
        if isinstance(group, NativePodGroup) and group.workload_key == key:
            job = state.jobs.get(group.key)
            if job is not None and job.group is group:
                _retake(state, job, group)


def _leave_queue(state: ClusterState, job: Job) -> None:
    """Take a job out of its queue's sums."""
    queue: Queue | None = find(state.queues, job.queue) if job.in_session else None
    if queue is not None:
        ledger.count_job(queue, job, -1)
    w.set_in_session(job, False)
    take(state.queueless, job.uid, None)
    take(state.session_jobs, job.uid, None)
    state.note_admission(job)
    state.mark(job)
    state.recontribute(job)


def _enter_queue(state: ClusterState, job: Job) -> None:
    """Count a job in its queue, if it has a PodGroup and its queue exists."""
    queue: Queue | None = find(state.queues, job.queue)
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
    ledger.count_job(queue, job, 1)


def group_gone(state: ClusterState, key: str, kind: str = PodGroup.kind_name) -> None:
    """A PodGroup left; its pods, if any, wait for a new one. One of another kind that it hid takes its place."""
    job = state.jobs.get(key)
    state.kind(native.POD_GROUP).pop(key, None) if kind == native.POD_GROUP else None
    if job is None or job.kind != kind:
        return
    _leave_queue(state, job)
    with unsealed(job) as draft:
        draft.join(None)
        draft.phase = ""
        draft.min_resources = None
        draft.together = False
    hidden = state.kind(native.POD_GROUP).get(key)
    if isinstance(hidden, NativePodGroup):
        state.problems.pop((native.POD_GROUP, key), None)
        group_seen(state, hidden)
    elif not job._tasks:
        take(state.jobs, key)


def queue_seen(state: ClusterState, obj: QueueObject) -> None:
    """A queue was added or changed."""
    name = obj.metadata.name
    queue = state.queues.get(name)
    if queue is not None and _only_its_counters_differ(queue.object, obj):
        w.set_queue_object(queue, obj)
        return
    state.queue_version += 1
    if queue is not None:
        with unsealed(queue) as draft:
            draft._take_over(obj)
            draft.version += 1
        return
    put(state.queues, name, Queue(obj))
    for job in state.jobs.values():
        if not job.in_session and job.group is not None and job.queue == name:
            _enter_queue(state, job)


def _only_its_counters_differ(old: QueueObject, new: QueueObject) -> bool:
    """Report whether it is the known queue but for a controller's counts in its status. That decides nothing."""
    return (
        new.__class__ is old.__class__
        and new.spec == old.spec
        and new.status.state == old.status.state
        and _says_the_same(new.metadata, old.metadata)
    )


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
    """A PriorityClass came, changed or went: jobs have the priority that it gives them now."""
    for job in state.jobs.values():
        priority = _facts_of(state, job, job.group).priority if job.group is not None else job.priority
        if priority != job.priority:
            w.set_priority(job, priority)
            w.set_group_version(job, job.version + 1)
            state.mark(job)


# -- where the facts of a job come from -------------------------------------------------------------------------------
class JobFacts(NamedTuple):
    """The facts of a job that its PodGroup, its Workload, its pods, its namespace or a PriorityClass gives."""

    queue: str
    """Its queue; empty if none of them names one."""
    priority: int
    phase: str
    labels: Mapping[str, str] | None
    annotations: Mapping[str, str] | None
    together: bool = False


def _facts_of(state: ClusterState, job: Job, group: PodGroup) -> JobFacts:
    """Return the facts of a job: from its PodGroup, else from the other objects."""
    meta, spec = group.metadata, group.spec
    if not isinstance(group, NativePodGroup):
        priority = priority_of(state, spec.priority_class_name)
        return JobFacts(spec.queue, priority, group.status.phase, meta.labels, meta.annotations)
    workload = state.kind(native.WORKLOAD).get(group.workload_key)
    labels, notes = native.said_of(workload, group)
    queue = notes.get(QUEUE_ANNOTATION) or min(filter(None, map(_named_queue, job._tasks.values())), default="")
    if not queue:
        namespace = state.kind("Namespace").get(meta.namespace)
        queue = (namespace.metadata.annotations or {}).get(QUEUE_ANNOTATION, "") if namespace is not None else ""
    same = isinstance(job.group, NativePodGroup) and job.group.metadata.uid == meta.uid
    phase = (job.phase if same else "") or JobPhase.PENDING
    return JobFacts(queue, _native_priority(state, job, group), phase, labels, notes, group.spec.together)


def _changes_facts(job: Job, task: Task) -> bool:
    """Report whether a pod gives its job, in a group of Kubernetes' own, a queue or priority that it lacks."""
    spec = cast(NativePodGroup, job.group).spec
    if spec.priority is None and not spec.priority_class_name and (task.pod.spec.priority or 0) > job.priority:
        return True
    queue = _named_queue(task)
    return bool(queue) and queue != job.queue and QUEUE_ANNOTATION not in job.annotations


def _named_queue(task: Task) -> str:
    return task.annotations.get(QUEUE_ANNOTATION, "")


def _native_priority(state: ClusterState, job: Job, group: NativePodGroup) -> int:
    """Return the priority of the group, else that of its class, else the highest of its pods."""
    spec = group.spec
    if spec.priority is not None:
        return spec.priority
    if spec.priority_class_name:
        return priority_of(state, spec.priority_class_name)
    given = [task.pod.spec.priority for task in job._tasks.values() if task.pod.spec.priority is not None]
    return max(given) if given else priority_of(state, "")


def priority_of(state: ClusterState, class_name: str) -> int:
    """Return the value of a priority class; without a class the global default, else 0."""
    classes = state.kind("PriorityClass")
    named = classes.get(class_name) if class_name else None
    if named is not None:
        return cast(PriorityClass, named).value
    for other in classes.values():
        if cast(PriorityClass, other).global_default:
            return cast(PriorityClass, other).value
    return 0
