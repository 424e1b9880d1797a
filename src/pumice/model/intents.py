"""What we tell the cluster. A backend carries intents out and reports back with events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pumice.model.codes import ReasonCode


@dataclass(frozen=True, slots=True)
class VolumeChoice:
    """A volume claim must be bound before the pod is."""

    claim: str
    uid: str = ""
    volume: str = ""
    """The volume to bind it to; nothing where one is to be made."""
    node: str = ""
    """The node for which one is to be made, if it is another than the pod's: pods may share a claim."""
    within: float = 600.0
    """Seconds after which it is given up."""


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """A device claim must have its devices, and the pod among its users, before the pod is bound."""

    claim: str
    uid: str = ""
    allocation: dict[str, Any] | None = None
    """What it gets; None where it has its devices already."""


Choice: TypeAlias = VolumeChoice | DeviceChoice


@dataclass(frozen=True, slots=True)
class Bind:
    """Put a pod on a node."""

    pod: str
    uid: str
    node: str
    job: str = ""
    annotations: dict[str, str] = field(default_factory=dict)
    binder: str = ""
    prepare: tuple[Choice, ...] = ()
    """What must be done for the pod's claims first."""
    needed: int = 0
    """How many binds of the job must be possible, or none of this cycle's is to happen; told where there are claims."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Remove a pod, for the good of a beneficiary."""

    pod: str
    uid: str
    node: str
    action: str
    job: str = ""
    beneficiary: str = ""
    beneficiary_pod: str = ""


@dataclass(frozen=True, slots=True)
class Nominate:
    """Room on a node is being freed for this pod; without a node: on none any more."""

    pod: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """An object's status changed: phase, counters, conditions (only what is to be written)."""

    kind: str
    key: str
    status: dict[str, Any]
    annotations: dict[str, str | None] = field(default_factory=dict)
    """What is to be noted on the object itself; None: noted no more."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something users should read, as a Kubernetes event."""

    kind: str
    key: str
    type: str
    reason: ReasonCode
    message: str


Intent: TypeAlias = Bind | Evict | Nominate | StatusUpdate | Note
