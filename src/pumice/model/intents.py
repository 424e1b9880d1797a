"""The decisions that the cluster is told. A backend carries intents out and reports back with events."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from pumice.model.codes import ReasonCode


class VolumeChoice(msgspec.Struct, frozen=True):
    """A volume claim must be bound before the pod is."""

    claim: str
    uid: str = ""
    volume: str = ""
    """The volume to bind it to; nothing where one is to be made."""
    node: str = ""
    """The node for which one is to be made, if it is another than the pod's: pods may share a claim."""
    within: float = 600.0
    """Seconds after which it is given up."""


class MadeClaim(msgspec.Struct, frozen=True):
    """A device claim that is made for a pod when it is bound: it asked for extended resources of device classes."""

    requests: tuple[dict[str, Any], ...]
    mappings: tuple[dict[str, str], ...]
    """Which container uses which request for which resource, as the pod's status says it."""


class DeviceChoice(msgspec.Struct, frozen=True):
    """A device claim must have its devices, and the pod among its users, before the pod is bound."""

    claim: str
    uid: str = ""
    allocation: dict[str, Any] | None = None
    """The devices that it gets; None if it has them already."""
    made: MadeClaim | None = None
    """The claim is one for extended resources. If *uid* is empty, it does not exist yet."""


Choice: TypeAlias = VolumeChoice | DeviceChoice


class Bind(msgspec.Struct, frozen=True):
    """Put a pod on a node."""

    pod: str
    uid: str
    node: str
    job: str = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    binder: str = ""
    prepare: tuple[Choice, ...] = ()
    """Preparations for the pod's claims."""
    needed: int = 0
    """How many binds of the job must be possible, or none of this cycle's is to happen; told where there are claims."""


class Evict(msgspec.Struct, frozen=True):
    """Remove a pod, for the good of a beneficiary."""

    pod: str
    uid: str
    node: str
    action: str
    job: str = ""
    beneficiary: str = ""
    beneficiary_pod: str = ""


class Nominate(msgspec.Struct, frozen=True):
    """Room on a node is being freed for this pod; without a node: on none any more."""

    pod: str
    uid: str
    node: str


class StatusUpdate(msgspec.Struct, frozen=True):
    """An object's status changed: phase, counters, conditions (only what is to be written)."""

    kind: str
    key: str
    status: dict[str, Any]
    annotations: dict[str, str | None] = msgspec.field(default_factory=dict)
    """The text to note on the object; None removes the note."""


class Note(msgspec.Struct, frozen=True):
    """Something users should read, as a Kubernetes event."""

    kind: str
    key: str
    type: str
    reason: ReasonCode
    message: str


Intent: TypeAlias = Bind | Evict | Nominate | StatusUpdate | Note
