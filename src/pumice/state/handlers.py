"""One function per kind of event: what it changes in the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pumice.errors import InvalidInput
from pumice.model.api import (
    AnyObject,
    Metadata,
    NodeObject,
    Pod,
    PodGroup,
    PodSpec,
    PriorityClass,
    QueueObject,
    ResourceQuota,
)
from pumice.model.job import Job, SubJob, parse_bool, sub_job_of
from pumice.model.queue import Queue
from pumice.model.resources import EMPTY, PODS, Resources
from pumice.model.status import TaskStatus
from pumice.model.task import GROUP_ANNOTATION, PREEMPTABLE_KEY, ROLE_KEY, TASK_PRIORITY_ANNOTATION, Task

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

S = TaskStatus
_FINISHED = (S.SUCCEEDED, S.FAILED)


def seen(state: ClusterState, obj: AnyObject) -> None:
    """An object was added or changed. A rule it breaks is remembered as a problem of that object."""
    state.problems.pop((obj.kind_name, obj.key), None)
    try:
        match obj:
            case Pod():
                pod_seen(state, obj)
            case NodeObject():
                node_seen(state, obj)
            case PodGroup():
                group_seen(state, obj)
            case QueueObject():
                queue_seen(state, obj)
            case _:
                other_seen(state, obj)
    except InvalidInput as exc:
        state.problems[obj.kind_name, obj.key] = str(exc)
    state.versions[obj.kind_name] = state.versions.get(obj.kind_name, 0) + 1


def gone(state: ClusterState, kind: str, key: str) -> None:
    """An object left. Unknown ones are ignored: a removal may be told twice."""
    match kind:
        case "Pod":
            pod_gone(state, key)
        case "Node":
            node_gone(state, key)
        case "PodGroup":
            group_gone(state, key)
        case "Queue":
            queue_gone(state, key)
        case _:
            other_gone(state, kind, key)
    state.problems.pop((kind, key), None)
    state.versions[kind] = state.versions.get(kind, 0) + 1


# -- pods ---------------------------------------------------------------------------------------------------------
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
    if task._job_key:
        _join(state, task)
    node = state.table.by_name.get(node_name) if node_name else None
    if status is not S.PENDING:
        state.set_status(task, status, node)
        _orphan(state, task, node_name)


def _join(state: ClusterState, task: Task) -> None:
    """Make a pending task part of its job."""
    job = state.jobs.get(task._job_key)
    if job is None:
        namespace, _, name = task._job_key.partition("/")
        job = state.jobs[task._job_key] = Job(namespace, name)
    task._job = job
    job._tasks[task._uid] = task
    job._index(task, S.PENDING, 1)
    _join_sub_job(job, task)
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


def _join_sub_job(job: Job, task: Task) -> None:
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


def bind_failed(state: ClusterState, uid: str) -> None:
    """A bind did not happen: the task waits again."""
    task = state.assumed.get(uid)
    if task is not None and task._status == S.BINDING:
        unassume(state, task)


def evict_failed(state: ClusterState, uid: str) -> None:
    """An eviction was refused: the task runs on."""
    task = state.assumed.get(uid)
    if task is not None and task._status == S.RELEASING:
        unassume(state, task)


def unassume(state: ClusterState, task: Task) -> None:
    """Go back to what the cluster last said of a task."""
    state.assumed.pop(task._uid, None)
    task._assumed_at = None
    status = pod_status(task._pod)
    state.set_status(task, status, state.table.by_name.get(task._pod.spec.node_name))


# -- nodes --------------------------------------------------------------------------------------------------------
def node_seen(state: ClusterState, obj: NodeObject) -> None:
    """A node was added or changed."""
    allocatable = _allocatable(obj)
    capacity = Resources.parse(obj.status.capacity) if obj.status.capacity else allocatable
    table = state.table
    table.ensure_width()
    name = obj.metadata.name
    node = table.by_name.get(name)
    new = node is None
    if node is None:
        node = table.add(name)
    row = node._row
    previous = node._object if not new else None
    for d in node._dims | allocatable.dims():
        before, after = int(table.allocatable[d, row]), int(allocatable.get(d))
        if before != after:
            table.allocatable[d, row] = after
            table.idle[d, row] += after - before
            state.total[d] = state.total.get(d, 0) + after - before
        table.capacity[d, row] = int(capacity.get(d))
    node._dims = frozenset(allocatable.dims() | capacity.dims() | {PODS})
    table.max_pods[row] = int(allocatable.get(PODS))
    node._object = obj
    node._labels, node._annotations = obj.metadata.labels or {}, obj.metadata.annotations or {}
    node._taints = tuple(obj.spec.taints or ())
    table.unschedulable[row] = obj.spec.unschedulable
    table.set_labels(row, node._labels)
    table.set_taints(row, node._taints)
    state.devices.set_node(node)
    if previous is None or _node_facts(previous) != _node_facts(obj):
        table.changed.add(row)
        table.touched.add(row)
    if new:
        for task in list(state.orphans.pop(name, {}).values()):
            state.set_status(task, task._status, node)


def _node_facts(obj: NodeObject) -> tuple[object, ...]:
    return (obj.metadata.labels, obj.metadata.annotations, obj.spec, obj.status.allocatable, obj.status.images)


def _allocatable(obj: NodeObject) -> Resources:
    """What tasks can have, the oversubscribed part included."""
    base = Resources.parse(obj.status.allocatable)
    notes = obj.metadata.annotations or {}
    extra = dict(base.items())
    for d, key in ((0, "volcano.sh/oversubscription-cpu"), (1, "volcano.sh/oversubscription-memory")):
        written = notes.get(key)
        if written is None:
            continue
        try:
            extra[d] = extra.get(d, 0) + int(float(written))
        except ValueError:
            raise InvalidInput(
                f"node {obj.metadata.name!r}: annotation {key} must be a number, got {written!r}"
            ) from None
    return Resources(extra)


def node_gone(state: ClusterState, name: str) -> None:
    """A node left; its tasks are lost, not releasing, and count for their jobs until their pods go too."""
    node = state.table.by_name.get(name)
    if node is None:
        return
    for task in list(node._tasks.values()):
        if task._status in (S.ALLOCATED, S.BINDING, S.PIPELINED):
            state.assumed.pop(task._uid, None)
            state.set_status(task, S.PENDING, None)
        else:
            state.set_status(task, task._status, None)
            state.orphans.setdefault(name, {})[task._uid] = task
    for d in node._dims:
        state.total[d] = state.total.get(d, 0) - int(state.table.allocatable[d, node._row])
    state.devices.clear_node(node._row)
    state.table.remove(node)


# -- jobs ---------------------------------------------------------------------------------------------------------
def group_seen(state: ClusterState, obj: PodGroup) -> None:
    """A PodGroup was added or changed."""
    key = obj.key
    job = state.jobs.get(key)
    if job is None:
        job = state.jobs[key] = Job(obj.metadata.namespace, obj.metadata.name)
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
            _join_sub_job(job, task)
    job.version += 1
    _enter_queue(state, job)
    if job._problem:
        raise InvalidInput(job._problem)


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
    state.session_jobs.pop(job._uid, None)
    state.note_admission(job)
    state.mark(job)
    state._recontribute(job)


def _enter_queue(state: ClusterState, job: Job) -> None:
    """Count a job in its queue, if it has a PodGroup and its queue exists."""
    queue = state.queues.get(job._queue)
    state.mark(job)
    if job._group is None or queue is None:
        return
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


# -- queues -------------------------------------------------------------------------------------------------------
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
    del state.queues[name]
    state.queue_version += 1


# -- the rest -----------------------------------------------------------------------------------------------------
def other_seen(state: ClusterState, obj: AnyObject) -> None:
    """An object that is only kept, or that changes priorities or quotas."""
    state.kind(obj.kind_name)[obj.key] = obj
    if isinstance(obj, PriorityClass):
        _reprioritise(state)
    elif isinstance(obj, ResourceQuota):
        for what in (obj.spec.hard, obj.status.hard, obj.status.used):
            Resources.parse(what) if what else EMPTY
        state.namespace(obj.metadata.namespace).quotas[obj.metadata.name] = obj


def other_gone(state: ClusterState, kind: str, key: str) -> None:
    """An object that was only kept left."""
    state.kind(kind).pop(key, None)
    if kind == "PriorityClass":
        _reprioritise(state)
    elif kind == "ResourceQuota":
        namespace, _, name = key.partition("/")
        state.namespace(namespace).quotas.pop(name, None)


def _reprioritise(state: ClusterState) -> None:
    for job in state.jobs.values():
        if job._group is not None:
            job._priority = priority_of(state, job._group.spec.priority_class_name)
            job.version += 1
            state.mark(job)
