"""What controllers follow: objects with the fields that they read."""

from __future__ import annotations

from typing import Any

import msgspec

from pumice.kube.kinds import RESOURCES, AnyObject, Resource, declare
from pumice.model.api import Metadata, OwnerReference, PodSpec, QueueSpec
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
    """What somebody wants to be done with a job or a queue (``vcctl`` writes these)."""

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
