"""The data of the watches, with the ways to find them; and the observers of changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from pumice.kube.kinds import RESOURCES, Resource, declare
from pumice.model.api import (
    AnyObject,
    Metadata,
    NamespaceObject,
    OwnerReference,
    PodGroup,
    PodSpec,
    PriorityClass,
    QueueSpec,
)
from pumice.model.events import ClusterEvent, Gone, Seen
from pumice.model.quantity import whole_number
from pumice.model.task import GROUP_ANNOTATION, group_named
from pumice.workloads.grouping import OWN_GROUP
from pumice.workloads.lifecycle import PodSeen
from pumice.workloads.vcjob import JOB_VERSION, TASK_INDEX, VcJobSpec

BATCH = "batch.volcano.sh/v1alpha1"


class _Struct(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    pass


class Owner(OwnerReference, frozen=True):
    api_version: str = ""
    block_owner_deletion: bool | None = None


class OwnedMeta(Metadata, frozen=True):
    owner_references: list[Owner] | None = None  # type: ignore[assignment]

    @property
    def controller(self) -> Owner | None:
        """The owner that looks after the object."""
        return next((owner for owner in self.owner_references or () if owner.controller), None)


class _Ended(_Struct):
    exit_code: int = 0


class _State(_Struct):
    terminated: _Ended | None = None


class _ContainerStatus(_Struct):
    restart_count: int = 0
    state: _State = msgspec.field(default_factory=_State)


class _PodStatus(_Struct):
    phase: str = ""
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None


class OwnedPod(AnyObject, frozen=True):
    """A pod, with who owns it and how its containers fared."""

    kind_name = "OwnedPod"
    metadata: OwnedMeta = msgspec.field(default_factory=OwnedMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)

    @property
    def job(self) -> Owner | None:
        """The vcjob that owns it; None: none does."""
        owner = self.metadata.controller
        return owner if owner is not None and owner.kind == "Job" and owner.api_version == BATCH else None

    @property
    def grouped(self) -> bool:
        """Whether it belongs to a PodGroup."""
        return bool(group_named(self.metadata.annotations, self.spec))

    @property
    def own_group(self) -> str:
        """The PodGroup that it gets if nobody groups it: called after its controller, else after itself."""
        owner = self.metadata.controller
        return f"{OWN_GROUP}{owner.uid if owner is not None else self.metadata.uid}"

    @property
    def in_own_group(self) -> bool:
        """Whether it is in the PodGroup that it gets if nobody groups it."""
        return (self.metadata.annotations or {}).get(GROUP_ANNOTATION) == self.own_group

    def seen(self, role: str, leaving: bool) -> PodSeen:
        """The pod as the rules about jobs see it."""
        notes = self.metadata.annotations or {}
        containers = self.status.container_statuses or ()
        ended = [c.state.terminated.exit_code for c in containers if c.state.terminated is not None]
        return PodSeen(
            name=self.metadata.name,
            uid=self.metadata.uid,
            role=role,
            index=_number(notes.get(TASK_INDEX) or self.metadata.name.rpartition("-")[2]),
            version=_number(notes.get(JOB_VERSION, "")),
            phase=self.status.phase,
            leaving=leaving or self.metadata.deletion_timestamp is not None,
            exit_code=next((code for code in ended if code), 0),
            restarts=sum(c.restart_count for c in (*containers, *(self.status.init_container_statuses or ()))),
        )


class VcJob(AnyObject, frozen=True):
    """A job of Volcano's; its status as it stands on the server."""

    kind_name = "Job"
    metadata: OwnedMeta = msgspec.field(default_factory=OwnedMeta)
    spec: VcJobSpec = msgspec.field(default_factory=lambda: VcJobSpec(tasks=[]))
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class FollowedQueue(AnyObject, frozen=True):
    kind_name = "FollowedQueue"
    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class Command(AnyObject, frozen=True):
    """A user's command for a job or a queue (``vcctl`` writes these)."""

    kind_name = "Command"
    action: str = ""
    target: Owner = msgspec.field(default_factory=Owner)


for _cls in (OwnedPod, VcJob, FollowedQueue, Command):
    declare(_cls)

JOBS = Resource("Job", f"/apis/{BATCH}", "jobs")
COMMANDS = Resource("Command", "/apis/bus.volcano.sh/v1alpha1", "commands", needed=False)
PODS = Resource("OwnedPod", RESOURCES["Pod"].prefix, RESOURCES["Pod"].plural)
QUEUES = Resource("FollowedQueue", RESOURCES["Queue"].prefix, RESOURCES["Queue"].plural)
GROUPS = RESOURCES["PodGroup"]
NAMESPACES = RESOURCES["Namespace"]
PRIORITIES = RESOURCES["PriorityClass"]
FOLLOWED = (PRIORITIES, NAMESPACES, QUEUES, GROUPS, COMMANDS, JOBS, PODS)


def owner_of(job: VcJob) -> dict[str, Any]:
    """How things that we make for a job refer to it."""
    meta = job.metadata
    whose: dict[str, Any] = {"apiVersion": BATCH, "kind": "Job", "name": meta.name, "uid": meta.uid}
    return {**whose, "controller": True, "blockOwnerDeletion": True}


def _number(text: str) -> int:
    number = whole_number(text)
    return -1 if number is None else number


T = TypeVar("T", bound=AnyObject)
Changed = Callable[[AnyObject], None]


class Store:
    """Objects as last seen. Our own writes count as seen, so a late watch takes nothing back."""

    def __init__(self, followed: Iterable[Resource] = FOLLOWED) -> None:
        self._objects: dict[str, dict[str, AnyObject]] = {r.kind: {} for r in FOLLOWED}
        self._unlisted = {r.kind for r in followed}
        self._pods_of: dict[str, dict[str, OwnedPod]] = {}
        self._pods_in: dict[str, dict[str, OwnedPod]] = {}
        self._groups_in: dict[str, dict[str, PodGroup]] = {}
        self._listeners: list[Changed] = []
        self.synced = asyncio.Event()
        """Every kind was listed."""

    @property
    def missing(self) -> list[str]:
        """Kinds that were not listed yet."""
        return sorted(self._unlisted)

    def listen(self, changed: Changed) -> None:
        """Call *changed* with every object that came, changed or went: once as it was, once as it is."""
        self._listeners.append(changed)

    # -- told by the watches ----------------------------------------------------------------------------------------
    def first(self, kind: str, events: Sequence[ClusterEvent]) -> None:
        """The first list of a kind."""
        self.put(events)
        self._unlisted.discard(kind)
        if not self._unlisted:
            self.synced.set()

    def put(self, events: Sequence[ClusterEvent]) -> None:
        """Something happened."""
        for event in events:
            match event:
                case Seen(object=obj):
                    self.take(obj)
                case Gone(kind=kind, key=key):
                    self.drop(kind, key)

    def take(self, obj: AnyObject) -> None:
        """An object as it is now, unless something newer is known."""
        known = self._objects[obj.kind_name].get(obj.key)
        if known is not None and known.metadata.uid == obj.metadata.uid and not _newer(obj, known):
            return
        if known is not None:
            self._index(known, False)
        self._objects[obj.kind_name][obj.key] = obj
        self._index(obj, True)
        for told in self._listeners:
            if known is not None:
                told(known)
            told(obj)

    def drop(self, kind: str, key: str) -> None:
        """An object is gone."""
        known = self._objects[kind].pop(key, None)
        if known is not None:
            self._index(known, False)
            for told in self._listeners:
                told(known)

    def _index(self, obj: AnyObject, present: bool) -> None:
        if isinstance(obj, OwnedPod) and obj.job is not None:
            _put(self._pods_of, f"{obj.metadata.namespace}/{obj.job.uid}", obj.key, obj if present else None)
        elif isinstance(obj, OwnedPod):
            _put(self._pods_in, f"{obj.metadata.namespace}/{obj.own_group}", obj.key, obj if present else None)
        elif isinstance(obj, PodGroup):
            _put(self._groups_in, obj.spec.queue or "default", obj.key, obj if present else None)

    # -- asked by the controllers -----------------------------------------------------------------------------------
    def has(self, obj: AnyObject) -> bool:
        """Report whether this object exists, and not another one of its name."""
        known = self._objects[obj.kind_name].get(obj.key)
        return known is not None and known.metadata.uid == obj.metadata.uid

    def _get(self, cls: type[T], key: str) -> T | None:
        found = self._objects[cls.kind_name].get(key)
        return found if isinstance(found, cls) else None

    def job(self, key: str) -> VcJob | None:
        return self._get(VcJob, key)

    def pod(self, key: str) -> OwnedPod | None:
        return self._get(OwnedPod, key)

    def group(self, key: str) -> PodGroup | None:
        return self._get(PodGroup, key)

    def queue(self, name: str) -> FollowedQueue | None:
        return self._get(FollowedQueue, name)

    def queues(self) -> list[FollowedQueue]:
        return [q for q in self._objects[FollowedQueue.kind_name].values() if isinstance(q, FollowedQueue)]

    def pods_of(self, namespace: str, uid: str) -> list[OwnedPod]:
        """The pods that a job owns, by name; an owner reference counts only within its namespace."""
        return [pod for _, pod in sorted(self._pods_of.get(f"{namespace}/{uid}", {}).items())]

    def pods_in(self, group: str) -> list[OwnedPod]:
        """The pods that are in a PodGroup made for them, or will be, by name."""
        return [pod for _, pod in sorted(self._pods_in.get(group, {}).items())]

    def groups_in(self, queue: str) -> list[PodGroup]:
        """The PodGroups of a queue."""
        return list(self._groups_in.get(queue, {}).values())

    def priority(self, name: str) -> int:
        """The value of a priority class; 0 if there is none of that name."""
        found = self._get(PriorityClass, name)
        return found.value if found is not None else 0

    def namespace_notes(self, name: str) -> Mapping[str, str]:
        """The annotations of a namespace."""
        found = self._get(NamespaceObject, name)
        return (found.metadata.annotations if found is not None else None) or {}

    def commands_for(self, kind: str, name: str, namespace: str) -> list[Command]:
        """The commands in a namespace about an object, in the order of their names."""
        return [
            command
            for _, command in sorted(self._objects["Command"].items())
            if isinstance(command, Command)
            and (command.target.kind, command.target.name) == (kind, name)
            and command.metadata.namespace == namespace
        ]


def _newer(obj: AnyObject, known: AnyObject) -> bool:
    new, old = obj.metadata.resource_version, known.metadata.resource_version
    return int(new) > int(old) if new.isdecimal() and old.isdecimal() else new != old


def _put(index: dict[str, dict[str, T]], at: str, key: str, obj: T | None) -> None:
    if obj is not None:
        index.setdefault(at, {})[key] = obj
    elif at in index:
        index[at].pop(key, None)
        if not index[at]:
            del index[at]
