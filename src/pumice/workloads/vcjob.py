"""A ``batch.volcano.sh/v1alpha1`` Job as written, with Volcano's defaults, and what is wrong with it."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec

from pumice.errors import InvalidInput, decoder_words
from pumice.model import api, keys
from pumice.model.task import GROUP_ANNOTATION, ROLE_KEY

ANY = "*"


POD_FAILED, POD_EVICTED = "PodFailed", "PodEvicted"


TASK_COMPLETED, TASK_FAILED = "TaskCompleted", "TaskFailed"


JOB_UNKNOWN = "JobUnknown"


EVENTS = frozenset((ANY, POD_FAILED, POD_EVICTED, TASK_COMPLETED, TASK_FAILED, JOB_UNKNOWN))
"""The events of policies."""


class Reaction(Enum):
    """The reactions of a job controller to an event. Values are Volcano's names of actions."""

    RESTART_POD = "RestartPod"
    RESTART_TASK = "RestartTask"
    RESTART_JOB = "RestartJob"
    ABORT_JOB = "AbortJob"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"
    """Only an aborted job can be resumed; a policy that says so changes nothing else."""


class Policy(msgspec.Struct, rename="camel", kw_only=True):
    """One policy as a manifest writes it."""

    action: str
    event: str = ""
    events: list[str] | None = None
    exit_code: int | None = None
    timeout: Any = None

    @property
    def about(self) -> list[str]:
        """Every event that it names."""
        return [*([self.event] if self.event else []), *(self.events or [])]


Answers = Mapping[str, Reaction]
"""Policies by what they are about, in the order in which they were written: an event, or `exit_key(code)`."""


def exit_key(code: int) -> str:
    """Under what a policy for an exit code is found."""
    return f"exit {code}"


def answers_of(policies: Iterable[Policy] | None) -> dict[str, Reaction]:
    """Policies as a table; of two about the same thing the first counts.

    :raises InvalidInput: an action that nobody knows.
    """
    table: dict[str, Reaction] = {}
    for policy in policies or ():
        try:
            reaction = Reaction(policy.action)
        except ValueError:
            known = ", ".join(r.value for r in Reaction)
            raise InvalidInput(f"policies: action must be one of {known}, got {policy.action!r}") from None
        for event in policy.about:
            table.setdefault(event, reaction)
        if policy.exit_code is not None:
            table.setdefault(exit_key(policy.exit_code), reaction)
    return table


def reaction_to(event: str, *said: Answers, exit_code: int = 0) -> Reaction | None:
    """The first answer to an event among tables in order (a task's own before its job's); None: nobody answers.

    ``*`` stands for every event but a completed task: success is no trouble.
    """
    wanted = {event} if event == TASK_COMPLETED else {event, ANY}
    if event == POD_FAILED and exit_code:
        wanted.add(exit_key(exit_code))
    for table in said:
        for about, reaction in table.items():
            if about in wanted:
                return reaction
    return None


MOST_PODS: Final = 200_000
"""So many pods one job may have: more than any cluster runs, and a list of them still fits in memory."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
MAX_RETRY = 3


class _Struct(msgspec.Struct, rename="camel", kw_only=True):
    pass


class DependsOn(_Struct):
    name: list[str] | None = None
    iteration: str = "all"


class VcJobTask(_Struct):
    """Equal pods of a job. The template stays as written: what we do not know goes to the pods too."""

    name: str = ""
    replicas: int = 1
    min_available: int | None = None
    template: dict[str, Any] = msgspec.field(default_factory=dict)
    policies: list[Policy] | None = None
    max_retry: int = 0
    depends_on: DependsOn | None = None
    topology_policy: str = ""


class JobVolume(_Struct):
    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: dict[str, Any] | None = None


class VcJobSpec(_Struct):
    tasks: list[VcJobTask]
    min_available: int | None = None
    min_success: int | None = None
    queue: str = ""
    scheduler_name: str = ""
    priority_class_name: str = ""
    max_retry: int = MAX_RETRY
    policies: list[Policy] | None = None
    plugins: dict[str, list[str] | None] | None = None
    volumes: list[JobVolume] | None = None
    network_topology: dict[str, Any] | None = None
    ttl_seconds_after_finished: int | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """A task of a job with its defaults filled in."""

    name: str
    replicas: int
    minimum: int
    answers: dict[str, Reaction]
    task: VcJobTask

    @property
    def retries(self) -> int:
        """How often its containers may start again before the task has failed; below 0: without end."""
        return self.task.max_retry or MAX_RETRY


def roles_of(spec: VcJobSpec) -> tuple[Role, ...]:
    """The tasks of a job in order; one without a name is called after its place.

    :raises InvalidInput: a policy with an unknown action.
    """
    return tuple(
        Role(
            name=task.name or f"default{number}",
            replicas=task.replicas,
            minimum=task.replicas if task.min_available is None else task.min_available,
            answers=answers_of(task.policies),
            task=task,
        )
        for number, task in enumerate(spec.tasks)
    )


def minimum_of(spec: VcJobSpec, roles: Sequence[Role]) -> int:
    """How many pods must run: as written, else what its tasks need."""
    return spec.min_available or sum(role.minimum for role in roles)


def pod_name(job: str, role: str, index: int) -> str:
    """The name of a task's pod."""
    return f"{job}-{role}-{index}"


class Template(_Struct):
    """A pod template, as far as a scheduler looks at it."""

    metadata: api.Metadata = msgspec.field(default_factory=api.Metadata)
    spec: api.PodSpec = msgspec.field(default_factory=api.PodSpec)


def template_of(task: VcJobTask) -> Template:
    """The template of a task.

    :raises InvalidInput: a field of the wrong type; names task and field.
    """
    try:
        return msgspec.convert(task.template, Template)
    except msgspec.ValidationError as exc:
        raise InvalidInput(f"task {task.name!r}: template: {decoder_words(exc)}") from exc


def size_problem(count: int) -> str:
    """Why a job cannot have so many pods; nothing if it can."""
    return "" if 0 <= count <= MOST_PODS else f"must have from 0 to {MOST_PODS} pods, got {count}"


def problems_of(name: str, spec: VcJobSpec) -> list[str]:
    """Why a job cannot be run as written; nothing if it can. Volcano's admission asks for the same."""
    found: list[str] = []
    names: set[str] = set()
    for number, task in enumerate(spec.tasks):
        role = task.name or f"default{number}"
        where = f"tasks[{number}]"
        if role in names:
            found.append(f"{where}.name: must be used once, got {role!r} again")
        names.add(role)
        pod = pod_name(name, role, max(task.replicas - 1, 0))
        if not _NAME.fullmatch(pod) or len(pod) > 63:
            found.append(f"{where}: pods would be called {pod!r}, which must be a DNS label of at most 63 characters")
        if task.replicas < 0:
            found.append(f"{where}.replicas: must not be below 0, got {task.replicas}")
        if task.min_available is not None and not 0 <= task.min_available <= task.replicas:
            found.append(f"{where}.minAvailable: must be at most replicas ({task.replicas}), got {task.min_available}")
        found += _policy_problems(f"{where}.policies", task.policies)
        try:
            template_of(task)
        except InvalidInput as exc:
            found.append(f"{where}: {exc}")
    if not spec.tasks:
        found.append("tasks: there must be at least one")
    total = sum(max(task.replicas, 0) for task in spec.tasks)
    if problem := size_problem(total):
        found.append(f"tasks: {problem}")
    if (spec.min_available or 0) > total:
        found.append(f"minAvailable: must be at most the number of pods ({total}), got {spec.min_available}")
    found += _policy_problems("policies", spec.policies)
    found += _dependency_problems(spec)
    return found


def _policy_problems(where: str, policies: list[Policy] | None) -> list[str]:
    found = []
    seen: set[str] = set()
    for number, policy in enumerate(policies or ()):
        here = f"{where}[{number}]"
        try:
            Reaction(policy.action)
        except ValueError:
            found.append(f"{here}.action: must be one of {', '.join(r.value for r in Reaction)}, got {policy.action!r}")
        if bool(policy.about) == (policy.exit_code is not None):
            found.append(f"{here}: must have either an event or an exitCode")
        if policy.exit_code == 0:
            found.append(f"{here}.exitCode: must not be 0, which is no failure")
        about = [*policy.about, *([str(policy.exit_code)] if policy.exit_code is not None else [])]
        found += [f"{here}: {what!r} has a policy already" for what in about if what in seen]
        seen.update(about)
    if ANY in seen and len(seen) > 1:
        found.append(f"{where}: no other policy may stand beside the event {ANY!r}")
    return found


def _dependency_problems(spec: VcJobSpec) -> list[str]:
    needs = {t.name: set((t.depends_on.name if t.depends_on else None) or ()) for t in spec.tasks}
    found = [
        f"task {name!r}: dependsOn: there is no task {other!r}"
        for name, others in needs.items()
        for other in sorted(others - needs.keys())
    ]
    left = dict(needs)
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    if left:
        found.append(f"tasks {', '.join(sorted(left))}: dependsOn: they wait for each other")
    return found


PLUGINS = frozenset(("env", "svc"))
"""Job plugins that do something here."""


def gaps_of(spec: VcJobSpec) -> list[str]:
    """Requests of a job that are not supported; the job runs without them."""
    found = [f"plugin {name!r} is not supported" for name in sorted(spec.plugins or {}) if name not in PLUGINS]
    every = [*(spec.policies or ()), *(p for task in spec.tasks for p in task.policies or ())]
    for event in sorted({e for p in every for e in p.about} - EVENTS):
        found.append(f"policies: the event {event!r} never happens here")
    if any(policy.timeout for policy in every):
        found.append("policies: timeout is not supported, actions are taken at once")
    return found


def blocks_of(spec: VcJobSpec) -> list[str]:
    """Requests of a job that are not supported, and without which it must not run."""
    return [
        f"volumes[{number}]: only existing claims can be mounted, by volumeClaimName"
        for number, volume in enumerate(spec.volumes or ())
        if not volume.volume_claim_name
    ]


FOLDER = "/etc/volcano"
"""The folder in which containers find a file of host names for each task."""
NAME = "svc"


def wants_service(spec: VcJobSpec) -> bool:
    """Whether a job uses the plugin."""
    return NAME in (spec.plugins or {})


def hosts_of(job: str, role: Role) -> list[str]:
    """The names by which the pods of a task are found."""
    spec = role.task.template.get("spec") or {}
    below = spec.get("subdomain") or job
    if spec.get("hostname"):
        return [f"{spec['hostname']}.{below}"]
    return [f"{pod_name(job, role.name, n)}.{below}" for n in range(role.replicas)]


def host_variables(job: str, roles: Sequence[Role]) -> dict[str, str]:
    """Environment variables with the hosts of each task, and how many there are."""
    found: dict[str, str] = {}
    for role in roles:
        hosts = hosts_of(job, role)
        found.update(zip(_variables(role), (",".join(hosts), str(len(hosts))), strict=True))
    return found


def _variables(role: Role) -> tuple[str, str]:
    word = role.name.replace("-", "_").upper()
    return f"VC_{word}_HOSTS", f"VC_{word}_NUM"


def host_files(job: str, roles: Sequence[Role]) -> dict[str, str]:
    """The files in `FOLDER`, by name."""
    return {f"{role.name.replace('-', '_')}.host": "\n".join(hosts_of(job, role)) for role in roles}


def map_name(job: str, uid: str, generation: int) -> str:
    """The ConfigMap that holds the files: a new one for each change of the job, so that it never has to be read."""
    return f"{job}-{NAME}-{uid[:8]}-{generation}"


def address(made: dict[str, Any], job: str, pod: str, roles: Sequence[Role], hosts: str) -> None:
    """Give a pod's spec its name in the job's domain, the names of the others, and the files of the map *hosts*."""
    made["hostname"] = made.get("hostname") or pod
    made["subdomain"] = made.get("subdomain") or job
    volume = {"name": "vcjob-hosts", "configMap": {"name": hosts}}
    made["volumes"] = [*(made.get("volumes") or ()), volume]
    variables = [
        {"name": key, "valueFrom": {"configMapKeyRef": {"name": hosts, "key": key}}}
        for role in roles
        for key in _variables(role)
    ]
    for container in (*(made.get("initContainers") or ()), *(made.get("containers") or ())):
        container["env"] = [*(container.get("env") or ()), *variables]
        mount = {"name": volume["name"], "mountPath": FOLDER}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def service_bodies(
    job: str, namespace: str, spec: VcJobSpec, roles: Sequence[Role], hosts: str
) -> dict[str, dict[str, Any]]:
    """The objects that a job needs, by kind, without their owner: names, a domain, and permitted traffic."""
    arguments = {text.lstrip("-").partition("=")[0]: text for text in (spec.plugins or {}).get(NAME) or ()}

    def on(flag: str) -> bool:
        return flag in arguments and not arguments[flag].endswith("=false")

    members = {keys.JOB_NAME: job, keys.JOB_NAMESPACE: namespace}
    port = {"name": "placeholder-volcano", "port": 1, "protocol": "TCP", "targetPort": 1}
    found: dict[str, dict[str, Any]] = {
        "ConfigMap": {
            "apiVersion": "v1",
            "metadata": {"name": hosts},
            "data": {**host_files(job, roles), **host_variables(job, roles)},
        },
        "Service": {
            "apiVersion": "v1",
            "metadata": {"name": job},
            "spec": {
                "clusterIP": "None",
                "selector": members,
                "publishNotReadyAddresses": on("publish-not-ready-addresses"),
                "ports": [port],
            },
        },
    }
    if not on("disable-network-policy"):
        found["NetworkPolicy"] = {
            "apiVersion": "networking.k8s.io/v1",
            "metadata": {"name": job},
            "spec": {
                "podSelector": {"matchLabels": members},
                "ingress": [{"from": [{"podSelector": {"matchLabels": members}}]}],
                "policyTypes": ["Ingress"],
            },
        }
    return {kind: {**body, "kind": kind} for kind, body in found.items()}


JOB_NAME, JOB_NAMESPACE = keys.JOB_NAME, keys.JOB_NAMESPACE
JOB_VERSION, TASK_INDEX = keys.JOB_VERSION, keys.TASK_INDEX
QUEUE_NAME, TEMPLATE_UID = keys.QUEUE_NAME, keys.TEMPLATE_UID
_PREEMPTABLE = keys.PREEMPTABLE_KEY
_NUMA_POLICY = keys.NUMA_POLICY
_FROM_JOB = (
    *(_PREEMPTABLE, keys.REVOCABLE_ZONE),
    *(keys.JDB_MIN_AVAILABLE, keys.JDB_MAX_UNAVAILABLE),
)
INDEX_VARIABLES = ("VC_TASK_INDEX", "VK_TASK_INDEX")
"""Environment variables that the job plugin ``env`` sets."""


def identity_labels(job: str, namespace: str, role: str) -> dict[str, str]:
    """Labels by which pods of a job and of its tasks are found."""
    return {JOB_NAME: job, JOB_NAMESPACE: namespace, ROLE_KEY: role}


def pod_body(
    meta: Mapping[str, Any], spec: VcJobSpec, role: Role, index: int, *, version: int, group: str, scheduler: str
) -> dict[str, Any]:
    """One pod of a job as it is sent to the server, without its owner.

    *meta* is the job's metadata as data, with name and namespace at least; *scheduler* is for templates and jobs
    that name none.
    """
    name, namespace = meta["name"], meta["namespace"]
    template = copy.deepcopy(role.task.template)
    given = template.get("metadata") or {}
    noted = {key: value for key, value in (meta.get("annotations") or {}).items() if key in _FROM_JOB}
    annotations = {
        **(given.get("annotations") or {}),
        **noted,
        ROLE_KEY: role.name,
        GROUP_ANNOTATION: group,
        JOB_NAME: name,
        JOB_VERSION: str(version),
        QUEUE_NAME: spec.queue or "default",
        TASK_INDEX: str(index),
        TEMPLATE_UID: f"{name}-{role.name}",
    }
    if role.task.topology_policy:
        annotations[_NUMA_POLICY] = role.task.topology_policy
    labels = {
        **(given.get("labels") or {}),
        **{key: value for key, value in (meta.get("labels") or {}).items() if key == _PREEMPTABLE},
        **identity_labels(name, namespace, role.name),
        QUEUE_NAME: spec.queue or "default",
        TASK_INDEX: str(index),
    }
    made = template.get("spec") or {}
    made["schedulerName"] = made.get("schedulerName") or spec.scheduler_name or scheduler
    _mount(made, spec)
    if "env" in (spec.plugins or {}):
        _number(made, index)
    if wants_service(spec):
        hosts = map_name(name, meta.get("uid") or "", int(meta.get("generation") or 0))
        address(made, name, pod_name(name, role.name, index), roles_of(spec), hosts)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(name, role.name, index),
            "namespace": namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": made,
    }


def _mount(made: dict[str, Any], spec: VcJobSpec) -> None:
    for number, volume in enumerate(spec.volumes or ()):
        name = f"vcjob-volume-{number}"
        claim = {"name": name, "persistentVolumeClaim": {"claimName": volume.volume_claim_name}}
        made["volumes"] = [*(made.get("volumes") or ()), claim]
        for container in made.get("containers") or ():
            mount = {"name": name, "mountPath": volume.mount_path}
            container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def _number(made: dict[str, Any], index: int) -> None:
    """The job plugin ``env``: every container knows the index of its pod in the task."""
    for container in (*(made.get("initContainers") or ()), *(made.get("containers") or ())):
        others = [v for v in container.get("env") or () if v.get("name") not in INDEX_VARIABLES]
        container["env"] = [*others, *({"name": name, "value": str(index)} for name in INDEX_VARIABLES)]
