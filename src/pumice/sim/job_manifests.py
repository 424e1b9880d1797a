"""Manifests for the embedded cluster: objects that are simply there; Jobs, PodGroups and pods as jobs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from pumice import manifests
from pumice.config.durations import SECOND, parse_duration
from pumice.errors import InvalidInput, decoder_words
from pumice.framework.run_times import RUN_TIME_ANNOTATION
from pumice.model import api, keys
from pumice.model.api import AnyObject, Metadata, Pod, PodStatus
from pumice.model.gpu import gpu_request
from pumice.model.native import NativePodGroup, Workload, said_of
from pumice.model.request import asked_by
from pumice.model.resources import Resources
from pumice.model.task import GPU_ANNOTATIONS, GROUP_ANNOTATION, ROLE_KEY, group_named
from pumice.sim.controller import group_of
from pumice.sim.jobs import (
    SIM_CHECKPOINT_ANNOTATION,
    SIM_FAILS_ANNOTATION,
    SIM_RUN_ANNOTATION,
    JobSpec,
    PodKind,
    Work,
    demand_of,
)
from pumice.workloads.grouping import (
    EqualPods,
    group_topology,
    is_grouped_by_kai,
    kai_group,
    least_members,
    least_resources,
    pod_queue,
)
from pumice.workloads.vcjob import (
    Answers,
    Template,
    VcJobSpec,
    answers_of,
    identity_labels,
    minimum_of,
    pod_name,
    roles_of,
    size_problem,
    template_of,
)


def expanded(spec: JobSpec) -> Iterator[AnyObject]:
    """The PodGroup and the pods that a job has at first, all pending."""
    group = group_of(spec, spec.submit_s)
    yield group
    pods = [(kind, name) for kind in spec.kinds for name in kind.names]
    for kind, name in pods[: spec.parallelism or len(pods)]:
        meta = Metadata(
            name=name,
            namespace=spec.namespace,
            uid=f"{spec.namespace}/{name}",
            creation_timestamp=group.metadata.creation_timestamp,
            labels=kind.labels,
            annotations=kind.annotations,
        )
        yield Pod(metadata=meta, spec=kind.spec, status=PodStatus(phase="Pending"))


def objects_in(text: str, name: str = "job.yaml") -> list[AnyObject]:
    """The PodGroups and pods of manifests, and of the Jobs among them; *name* stands in what is said about them.

    :raises InvalidInput: it is no manifest; says why.
    """
    if not text.strip():
        raise InvalidInput("there is no manifest")
    found = manifests.parse(text, name)
    objects = [placed.object for placed in found.objects]
    for document in found.jobs:
        objects += expanded(read_job(document.data, document.place, 0.0))
    return objects


_OWNER_LABELS = (keys.JOB_NAME, keys.BATCH_JOB_NAME, keys.BATCH_JOB_NAME_OLD)
_OF_RUNS = (RUN_TIME_ANNOTATION, SIM_RUN_ANNOTATION, SIM_FAILS_ANNOTATION, SIM_CHECKPOINT_ANNOTATION)
_FAILS = re.compile(r"(?P<after>\S+?)(?:\s*x\s*(?P<times>[0-9]+))?")


class _BatchJobSpec(msgspec.Struct, rename="camel", kw_only=True):
    template: Template
    parallelism: int = 1
    completions: int | None = None
    backoff_limit: int = 6


class _Job(msgspec.Struct, rename="camel", kw_only=True):
    metadata: api.Metadata
    spec: dict[str, Any]


@dataclass(slots=True)
class JobManifests:
    """The content of manifests: existing objects, and jobs."""

    objects: list[api.AnyObject] = field(default_factory=list)
    jobs: list[JobSpec] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    """Kinds that nothing here reads."""


def read_manifests(path: Path, submit_s: float = 0.0, run_s: float | None = None) -> JobManifests:
    """Everything in a file of manifests. *run_s*: how long pods run that do not say.

    :raises InvalidInput: the file cannot be read, or a document breaks a rule; names file and line.
    """
    there = manifests.read([path])
    found = JobManifests(unread=there.unread)
    groups: dict[str, api.PodGroup] = {}
    pods: dict[str, list[tuple[api.Pod, str]]] = {}
    above: dict[str, api.AnyObject] = {}
    for obj, place in there.objects:
        match obj:
            case NativePodGroup():
                groups.setdefault(obj.key, obj)
            case api.PodGroup():
                groups[obj.key] = obj
            case api.Pod():
                if obj.status.phase not in ("Succeeded", "Failed") and obj.metadata.deletion_timestamp is None:
                    pods.setdefault(_group_key(obj), []).append((obj, place))
            case _:
                found.objects.append(obj)
                if isinstance(obj, Workload):
                    above[obj.key] = obj
    running = jobs_of(pod for members in pods.values() for pod, _ in members)
    for document in there.jobs:
        job = read_job(document.data, document.place, submit_s, run_s)
        if job.key in running:
            continue
        joining = joining_pods(document.data, job)
        if joining is None:
            found.jobs.append(job)
        for pod in joining or ():
            if not group_named(pod.metadata.annotations, pod.spec):
                raise InvalidInput(
                    f"{document.place}: Job {job.name!r}: {keys.KAI_SKIP_GROUPER} is set, so its template must name a "
                    f"PodGroup ({keys.POD_GROUP_ANNOTATION})"
                )
            pods.setdefault(_group_key(pod), []).append((pod, document.place))
    for key, members in pods.items():
        try:
            group = groups.get(key)
            workload = above.get(group.workload_key) if isinstance(group, NativePodGroup) else None
            found.jobs.append(_pods(group, workload, key, members, submit_s, run_s))
        except InvalidInput as exc:
            raise InvalidInput(f"{members[0][1]}: pods of {key}: {exc}") from exc
    return found


# -- jobs ---------------------------------------------------------------------------------------------------------
def read_job(document: Mapping[str, Any], origin: str, submit_s: float = 0.0, run_s: float | None = None) -> JobSpec:
    """A Job of Volcano or of Kubernetes, ready to be submitted.

    :raises InvalidInput: it breaks a rule; names place and job.
    """
    read = _vcjob if str(document.get("apiVersion", "")).startswith("batch.volcano.sh/") else _batch_job
    try:
        return read(document, origin, submit_s, run_s)
    except (InvalidInput, msgspec.ValidationError) as exc:
        meta = document.get("metadata")
        name = meta.get("name", "?") if isinstance(meta, Mapping) else "?"
        raise InvalidInput(f"{origin}: Job {name!r}: {decoder_words(exc)}") from exc


def joining_pods(document: Mapping[str, Any], job: JobSpec) -> list[api.Pod] | None:
    """The pods of a Job of Kubernetes that join a PodGroup of another name, as their template says.

    None: the Job has a PodGroup of its own. The pods name no PodGroup where KAI's grouper is told to pass the Job by.
    """
    if str(document.get("apiVersion", "")).startswith("batch.volcano.sh/"):
        return None
    template = msgspec.convert(document["spec"]["template"], Template)
    notes, above = template.metadata.annotations or {}, job.annotations or {}
    skipped = {keys.KAI_SKIP_GROUPER: "true"} if above.get(keys.KAI_SKIP_GROUPER) == "true" else {}
    if not skipped and not group_named(notes, template.spec):
        return None
    said = {key: value for key, value in above.items() if key in _OF_RUNS}
    return [
        api.Pod(
            metadata=api.Metadata(
                name=name,
                namespace=job.namespace,
                uid=f"{job.namespace}/{name}",
                labels=kind.labels,
                annotations={**skipped, **said, **notes},
            ),
            spec=kind.spec,
            status=api.PodStatus(phase="Pending"),
        )
        for kind in job.kinds
        for name in kind.names[: job.parallelism or None]
    ]


def jobs_of(pods: Iterable[api.Pod]) -> set[str]:
    """The keys of Jobs that some of the pods belong to: those need not be expanded once more."""
    return {f"{pod.metadata.namespace}/{name}" for pod in pods if (name := job_of(pod))}


def job_of(pod: api.Pod) -> str:
    """The name of the Job that a pod belongs to, or nothing."""
    labels = pod.metadata.labels or {}
    return next((labels[key] for key in _OWNER_LABELS if key in labels), "")


def _vcjob(document: Mapping[str, Any], origin: str, submit_s: float, run_s: float | None) -> JobSpec:
    job = msgspec.convert(document, _Job)
    spec = msgspec.convert(job.spec, VcJobSpec)
    meta = job.metadata
    roles = roles_of(spec)
    for count in (*(role.replicas for role in roles), sum(role.replicas for role in roles)):
        _check_size(count)
    kinds = []
    for role in roles:
        names = tuple(pod_name(meta.name, role.name, n) for n in range(role.replicas))
        labels = identity_labels(meta.name, meta.namespace or "default", role.name)
        template = template_of(role.task)
        if spec.scheduler_name and not template.spec.scheduler_name:
            template = replace(template, spec=replace(template.spec, scheduler_name=spec.scheduler_name))
        kinds.append(_kind(meta, role.name, names, template, labels, run_s, role.answers))
    return _spec(
        meta,
        kinds,
        origin,
        submit_s,
        min_available=minimum_of(spec, roles),
        queue=spec.queue or "default",
        priority_class=spec.priority_class_name,
        roles={role.name: role.minimum for role in roles},
        reactions=answers_of(spec.policies),
        retries=spec.max_retry,
        group=_asking(msgspec.convert(spec.network_topology, api.NetworkTopology) if spec.network_topology else None),
    )


def _check_size(count: int) -> None:
    if problem := size_problem(count):
        raise InvalidInput(problem)


def _batch_job(document: Mapping[str, Any], origin: str, submit_s: float, run_s: float | None) -> JobSpec:
    job = msgspec.convert(document, _Job)
    spec = msgspec.convert(job.spec, _BatchJobSpec)
    meta = job.metadata
    notes = meta.annotations or {}
    count = spec.parallelism if spec.completions is None else spec.completions
    _check_size(count)
    names = tuple(f"{meta.name}-pod-{n}" for n in range(count))
    kind = _kind(meta, "pod", names, spec.template, {keys.BATCH_JOB_NAME_OLD: meta.name}, run_s, {})
    inside = spec.template.metadata
    group: api.PodGroup
    if is_grouped_by_kai(spec.template.spec, meta.labels, notes, inside.labels, inside.annotations):
        group = kai_group(meta.name, meta, inside, spec.template.spec)
    else:
        asked = api.PodGroupSpec(
            min_member=least_members(notes),
            queue=pod_queue(notes) or "default",
            priority_class_name=spec.template.spec.priority_class_name,
            network_topology=group_topology({**notes, **(inside.annotations or {})}),
        )
        group = api.PodGroup(spec=asked)
    return _spec(
        meta,
        [kind],
        origin,
        submit_s,
        min_available=group.spec.min_member,
        queue=group.spec.queue,
        priority_class=group.spec.priority_class_name,
        roles=None,
        reactions={},
        retries=spec.backoff_limit,
        parallelism=spec.parallelism,
        group=group,
    )


def _pods(
    group: api.PodGroup | None,
    workload: api.AnyObject | None,
    key: str,
    members: list[tuple[api.Pod, str]],
    submit_s: float,
    run_s: float | None,
) -> JobSpec:
    """Pods that share a PodGroup, which a Workload may speak for, or one pod by itself, as a job."""
    namespace, _, name = key.partition("/")
    first, origin = members[0]
    notes = first.metadata.annotations or {}
    if group is None and is_grouped_by_kai(first.spec, first.metadata.labels, notes):
        group = kai_group(name, first.metadata, first.metadata, first.spec)
    meta = group.metadata if group is not None else api.Metadata(name=name, annotations=first.metadata.annotations)
    meta = msgspec.structs.replace(meta, name=name, namespace=namespace)
    kinds = []
    placed = {}
    for pod, _ in members:
        role = (pod.metadata.annotations or {}).get(ROLE_KEY) or (pod.metadata.labels or {}).get(ROLE_KEY, "")
        template = Template(metadata=pod.metadata, spec=msgspec.structs.replace(pod.spec, node_name=""))
        kinds.append(_kind(meta, role, (pod.metadata.name,), template, {}, run_s, {}))
        if pod.spec.node_name:
            placed[pod.metadata.name] = pod.spec.node_name
    spec = group.spec if group is not None else None
    return _spec(
        meta,
        kinds,
        origin,
        submit_s,
        min_available=spec.min_member if spec is not None else 1,
        queue=_queue_of(group, workload, notes) or "default",
        priority_class=spec.priority_class_name if spec is not None else first.spec.priority_class_name,
        roles=spec.min_task_member if spec is not None else None,
        reactions={},
        retries=3,
        placed=placed,
        group=group if group is not None else _asking(group_topology(notes)),
    )


def _queue_of(group: api.PodGroup | None, workload: api.AnyObject | None, pod: Mapping[str, str]) -> str:
    """Named by the group; one of Kubernetes' own, or its Workload, does so in a note, and pods where there is none."""
    if group is not None and not isinstance(group, NativePodGroup):
        return group.spec.queue
    return pod_queue(said_of(workload, group)[1] if group is not None else None, pod)


def _asking(topology: api.NetworkTopology | None) -> api.PodGroup | None:
    return api.PodGroup(spec=api.PodGroupSpec(network_topology=topology)) if topology is not None else None


def _spec(
    meta: api.Metadata,
    kinds: list[PodKind],
    origin: str,
    submit_s: float,
    *,
    min_available: int,
    queue: str,
    priority_class: str,
    roles: dict[str, int] | None,
    reactions: Answers,
    retries: int,
    parallelism: int = 0,
    placed: Mapping[str, str] | None = None,
    group: api.PodGroup | None = None,
) -> JobSpec:
    if not meta.name:
        raise InvalidInput("metadata.name must not be empty")
    total = sum(len(kind.names) for kind in kinds)
    if min_available > total and placed is None:  # a PodGroup may wait for pods that are still to come
        raise InvalidInput(f"minAvailable must be at most the number of pods ({total}), got {min_available}")
    notes = meta.annotations or {}
    longest = max((kind.run_s for kind in kinds), default=math.inf)
    return JobSpec(
        name=meta.name,
        namespace=meta.namespace or "default",
        submit_s=submit_s,
        kinds=tuple(kinds),
        min_available=min_available,
        work=Work.EACH,
        run_s=longest if math.isfinite(longest) else None,
        queue=queue,
        user=notes.get(keys.USER_ANNOTATION, ""),
        priority_class=priority_class,
        role_minimums=roles,
        min_resources=_minimum(kinds, min_available, roles or {}),
        labels=meta.labels,
        annotations=meta.annotations,
        reactions=reactions,
        retries=retries,
        checkpoint_s=_seconds(notes, SIM_CHECKPOINT_ANNOTATION, 0.0),
        parallelism=parallelism,
        placed=placed or {},
        origin=origin,
        group=group,
    )


def _kind(
    meta: api.Metadata,
    role: str,
    names: tuple[str, ...],
    template: Template,
    labels: Mapping[str, str],
    run_s: float | None,
    reactions: Answers,
) -> PodKind:
    given, spec = template.metadata, manifests.completed_spec(template.spec, template.metadata.labels)
    notes = {**(given.annotations or {}), GROUP_ANNOTATION: meta.name}
    if role:
        notes[ROLE_KEY] = role
    said = {**(meta.annotations or {}), **(given.annotations or {})}
    after, times = _failure(said.get(SIM_FAILS_ANNOTATION, ""))
    declared = _seconds(said, RUN_TIME_ANNOTATION, math.inf if run_s is None else run_s)
    return PodKind(
        role=role,
        names=names,
        spec=spec,
        demand=demand_of(spec, _shared(spec, given.annotations)),
        labels={**(given.labels or {}), **labels} or None,
        annotations=notes,
        run_s=_seconds(said, SIM_RUN_ANNOTATION, declared),
        fails_after_s=after,
        failing_attempts=times,
        reactions=reactions,
    )


def _shared(spec: api.PodSpec, notes: Mapping[str, str] | None) -> int | None:
    """Thousandths of GPUs where a pod asks for parts of devices; None where it asks for whole ones."""
    requests, _, _ = asked_by(spec)
    asked = gpu_request(requests, [(notes or {}).get(name) for name in GPU_ANNOTATIONS])
    return None if asked is None or asked.whole or asked.memory else asked.devices * asked.milli


def _minimum(kinds: list[PodKind], least: int, roles: Mapping[str, int]) -> api.ResourceList:
    """The sum of requests of the first *least* pods."""
    parts = [
        EqualPods(len(k.names), min(roles.get(k.role, len(k.names)), len(k.names)), Resources(dict(k.demand.items)))
        for k in kinds
    ]
    return {name: v for name, v in least_resources(parts, least).as_written().items() if name != "pods" and v}


def _seconds(notes: Mapping[str, str], key: str, default: float) -> float:
    text = notes.get(key)
    if text is None:
        return default
    try:
        return parse_duration(text, days=True) / SECOND
    except InvalidInput as exc:
        raise InvalidInput(f"annotation {key}: {exc}") from exc


def _failure(text: str) -> tuple[float, int]:
    if not text:
        return math.inf, 0
    match = _FAILS.fullmatch(text)
    if match is None:
        raise InvalidInput(
            f"annotation {SIM_FAILS_ANNOTATION}: must be a duration, or one with a count (10m x2), got {text!r}"
        )
    return _seconds({"": match["after"]}, "", math.inf), int(match["times"] or 1)


def _group_key(pod: api.Pod) -> str:
    group = group_named(pod.metadata.annotations, pod.spec)
    return f"{pod.metadata.namespace}/{group or pod.metadata.name}"
