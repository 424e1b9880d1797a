"""Pods come, change and go: tasks and everything that counts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import structs

from pumice.errors import InvalidInput, shown
from pumice.model import keys
from pumice.model.api import Metadata, Pod, PodSpec
from pumice.model.job import Job, SubJob, parse_bool, sub_job_of
from pumice.model.mapping import NOTHING
from pumice.model.node import Node
from pumice.model.quantity import whole_number
from pumice.model.resources import TooManyNames
from pumice.model.status import TaskStatus
from pumice.model.task import PREEMPTABLE_KEY, ROLE_KEY, TASK_PRIORITY_ANNOTATION, Task, TaskClass, group_named
from pumice.state import ledger
from pumice.state import writing as w
from pumice.state.devices import GROUP_LABEL
from pumice.state.writing import find, put, replace, take, unsealed

if TYPE_CHECKING:
    from pumice.state.cluster import ClusterState

S = TaskStatus
_FINISHED = (S.SUCCEEDED, S.FAILED)
_GIVEN: Final = frozenset({keys.GPU_INDEX, keys.VGPU_IDS})
"""Annotations that say which GPUs a pod got; KAI's groups are labels or annotations of their own."""


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


class FromLabels(NamedTuple):
    """The labels and annotations of a pod, and their values as read. Pods of one job mostly say the same."""

    annotations: object
    labels: object
    scheduler: str
    namespace: str
    job_key: str
    role: str
    priority: int | None
    preemptable: bool


def _from_labels(state: ClusterState, pod: Pod) -> FromLabels:
    meta, spec, last = pod.metadata, pod.spec, state.last_labels
    notes, labels = meta.annotations, meta.labels
    if (
        last is not None
        and last.annotations is notes  # equal ones are one object
        and last.labels is labels
        and last.scheduler == spec.scheduler_name
        and last.namespace == meta.namespace
        and spec.scheduling_group is None
    ):
        return last
    notes, labels = notes or NOTHING, labels or NOTHING
    ours = state.scheduler_names is None or spec.scheduler_name in state.scheduler_names
    group = group_named(notes, spec) if ours else ""
    override = find(notes, TASK_PRIORITY_ANNOTATION)
    preemptable = find(notes, PREEMPTABLE_KEY, find(labels, PREEMPTABLE_KEY))
    said = FromLabels(
        meta.annotations,
        meta.labels,
        spec.scheduler_name,
        meta.namespace,
        f"{meta.namespace}/{group}" if group else "",
        find(notes, ROLE_KEY) or find(labels, ROLE_KEY, ""),
        whole_number(override, -(2**31), 2**31 - 1) if override is not None else None,
        True if preemptable is None else parse_bool(preemptable),
    )
    state.last_labels = said if spec.scheduling_group is None else None
    return said


def _new_task(state: ClusterState, pod: Pod, known: Task | None = None) -> Task:
    """The task of a pod. An unreadable value makes it invalid; a pod with a place keeps the values that were read
    before."""
    invalid = ""
    try:
        klass, said = state.classes.of(pod), _from_labels(state, pod)
    except Exception as exc:
        invalid = str(exc) if isinstance(exc, InvalidInput) else f"{type(exc).__name__}: {shown(str(exc))}"
        state.problems["Pod", pod.key] = invalid
        if isinstance(exc, TooManyNames):
            state.unnamed["Pod", pod.key] = pod
        if known is not None and known.node is not None:
            was = known.pod
            meta = structs.replace(pod.metadata, labels=was.metadata.labels, annotations=was.metadata.annotations)
            spec = structs.replace(was.spec, node_name=pod.spec.node_name)
            pod, klass = structs.replace(pod, metadata=meta, spec=spec), known.klass
        else:
            klass = _readable_class(state, pod)
        said = _from_labels(state, pod)
    priority = said.priority
    if priority is None:
        priority = 1 if pod.spec.priority is None else pod.spec.priority
    return Task(pod, klass, said.job_key, said.role, priority, said.preemptable, invalid)


def _readable_class(state: ClusterState, pod: Pod) -> TaskClass:
    """The class of an invalid pod: if it has a place, what it asks for without its annotations; else nothing."""
    meta = Metadata(name=pod.metadata.name, namespace=pod.metadata.namespace)
    if pod.spec.node_name:
        with suppress(InvalidInput):
            return state.classes.of(structs.replace(pod, metadata=meta))
    return state.classes.of(Pod(metadata=meta, spec=PodSpec()))


def _with_its_gpus(known: Task, pod: Pod) -> Pod:
    """The pod with what it asked and got of GPUs, as it was when it got its place: its owner may write anything."""
    if known.node is None:
        return pod
    bound = known.pod.spec.node_name == pod.spec.node_name

    def is_fixed(key: str) -> bool:
        return key in keys.GPU_ANNOTATIONS or (bound and (key in _GIVEN or key.startswith(GROUP_LABEL)))

    told: dict[str, Mapping[str, str] | None] = {}
    for name in ("labels", "annotations"):
        was, now = getattr(known.pod.metadata, name) or NOTHING, getattr(pod.metadata, name) or NOTHING
        fixed = {key: value for key, value in was.items() if is_fixed(key)}
        if fixed != {key: value for key, value in now.items() if is_fixed(key)}:
            told[name] = {**{key: value for key, value in now.items() if not is_fixed(key)}, **fixed}
    return structs.replace(pod, metadata=structs.replace(pod.metadata, **told)) if told else pod


def pod_seen(state: ClusterState, pod: Pod) -> None:
    """A pod was added or changed."""
    key = pod.key
    known = state.task_by_key.get(key)
    uid = pod.metadata.uid or key
    status = pod_status(pod)
    if known is not None and known.uid != uid:
        pod_gone(state, key)
        known = None
    if known is not None:
        pod = _with_its_gpus(known, pod)
    if known is None:
        if (other := find(state.tasks, uid)) is not None:
            raise InvalidInput(f"Pod {key}: its UID {uid} is that of pod {other.key}")
        _add_task(state, _new_task(state, pod), key, status)
        return
    if known.uid in state.assumed:
        under_way = known.status == S.RELEASING or not pod.spec.node_name
        if under_way and status not in (S.RELEASING, *_FINISHED):  # whatever phase somebody wrote into it
            if same_but_for_its_place(known, pod):  # else it is looked at when what is under way is over
                w.set_pod(known, pod)
            return
        del state.assumed[known.uid]
        w.set_assumed_at(known, None)
    fresh = None if same_but_for_its_place(known, pod) else _new_task(state, pod, known)
    if fresh is not None and not _same_identity(known, fresh):
        stays = known.node is not None and known.node_name == pod.spec.node_name and fresh.klass.gpu == known.klass.gpu
        devices = known.devices if stays else ()
        groups = state.devices.groups_of(known, known.node.row) if devices and known.node is not None else ()
        _drop_task(state, known)
        _add_task(state, fresh, key, status, devices)
        if groups and fresh.node is not None:
            state.devices.name_groups(fresh.devices, groups, fresh.node.row)
        return
    node = state.table.by_name.get(pod.spec.node_name) if pod.spec.node_name else None
    moved = (known.status, known.node) != (status, None if status in _FINISHED else node)
    if known.pod.spec.node_name != pod.spec.node_name:
        moved = True  # perhaps between nodes that we do not know
    if moved:
        _unorphan(state, known)
    w.set_pod(known, pod if fresh is None else fresh.pod)
    w.set_nominated_node(known, pod.status.nominated_node_name)
    if fresh is not None:
        w.set_labels(known, fresh.labels)
        w.set_annotations(known, fresh.annotations)
    if moved:
        state.set_status(known, status, node)
        _orphan(state, known, pod.spec.node_name)


_SPEC: Final = attrgetter(*(name for name in PodSpec.__struct_fields__ if name != "node_name"))
"""Everything that a pod's spec says but for where it is."""


def same_but_for_its_place(known: Task, pod: Pod) -> bool:
    """Report whether a pod is as before, its node and its status aside. This includes its start and its end."""
    before, now = known.pod.metadata, pod.metadata
    same = before is now or (before.labels == now.labels and before.annotations == now.annotations)
    return same and not known.invalid and bool(_SPEC(known.pod.spec) == _SPEC(pod.spec))


def _same_identity(known: Task, fresh: Task) -> bool:
    return (
        known.klass is fresh.klass
        and known.job_key == fresh.job_key
        and (known.role, known.priority, known.preemptable) == (fresh.role, fresh.priority, fresh.preemptable)
        and known.gates == fresh.gates
        and known.labels == fresh.labels
        and known.invalid == fresh.invalid
    )


def _add_task(state: ClusterState, task: Task, key: str, status: TaskStatus, devices: Sequence[int] = ()) -> None:
    replace(state.tasks, task.uid, task)
    state.task_by_key[key] = task
    node_name = task.pod.spec.node_name
    node: Node | None = find(state.table.by_name, node_name)
    state.table.ensure_width()
    if task.job_key:
        _join(state, task)
    ledger.shift(state, task, ledger.OUT, status, node, devices=devices)
    _orphan(state, task, node_name)


def _join(state: ClusterState, task: Task) -> None:
    """Make a task one of its job's own; nothing counts it yet."""
    job: Job | None = find(state.jobs, task.job_key)
    if job is None:
        namespace, _, name = task.job_key.partition("/")
        job = Job(namespace, name)
        put(state.jobs, task.job_key, job)
    w.set_job(task, job)
    put(job._tasks, task.uid, task)
    if job.group is not None and job.policies:
        join_sub_job(job, task)


def join_sub_job(job: Job, task: Task) -> SubJob:
    """The sub-job of a task of a job with policies, with the task as one of its own; it does not count it yet."""
    uid, group, index, policy = sub_job_of(job, task)
    sub_job = job._sub_jobs.get(uid)
    if sub_job is None:
        sub_job = SubJob(job, uid, group, index)
        with unsealed(sub_job) as draft:
            draft.min_available = 1 if policy is None else (policy.sub_group_size or 1)
            draft.topology = job.topology if policy is None else policy.network_topology
        put(job._sub_jobs, uid, sub_job)
    w.set_sub_job(task, sub_job)
    put(sub_job._tasks, task.uid, task)
    return sub_job


def _drop_task(state: ClusterState, task: Task) -> None:
    """Take a task out of everything that counts it."""
    _unorphan(state, task)
    ledger.shift(state, task, task.status, ledger.OUT, None)
    state.assumed.pop(task.uid, None)
    state.refused.pop(task.uid, None)
    take(state.tasks, task.uid)
    del state.task_by_key[task.key]
    if not task.job_key:
        return
    job, sub_job = task.job, task.sub_job
    take(job._tasks, task.uid)
    if sub_job is not None:
        take(sub_job._tasks, task.uid)
        if not sub_job._tasks:
            take(job._sub_jobs, sub_job.uid, None)
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
