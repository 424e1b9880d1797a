"""A ``batch.volcano.sh/v1alpha1`` Job as written, with Volcano's defaults, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pumice.errors import InvalidInput, decoder_words
from pumice.model import api
from pumice.workloads.policies import ANY, EVENTS, Policy, Reaction, answers_of

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
    """What the pod of a task is called."""
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
    """What a job asks for that is not done here; the job runs without it."""
    found = [f"plugin {name!r} is not supported" for name in sorted(spec.plugins or {}) if name not in PLUGINS]
    every = [*(spec.policies or ()), *(p for task in spec.tasks for p in task.policies or ())]
    for event in sorted({e for p in every for e in p.about} - EVENTS):
        found.append(f"policies: the event {event!r} never happens here")
    if any(policy.timeout for policy in every):
        found.append("policies: timeout is not supported, actions are taken at once")
    return found


def blocks_of(spec: VcJobSpec) -> list[str]:
    """What a job asks for that is not done here, and without which it would do the wrong thing."""
    return [
        f"volumes[{number}]: only existing claims can be mounted, by volumeClaimName"
        for number, volume in enumerate(spec.volumes or ())
        if not volume.volume_claim_name
    ]
