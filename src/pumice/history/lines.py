"""The lines of a history: one JSON object each, with the time and what happened. Fields may be added, none changes."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

VERSION = 1


class _Line(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="is", tag=str.lower):
    at: float
    """Seconds: since 1970 on a cluster, since the start of a simulated run."""


class Begins(_Line, frozen=True):
    """A file begins: what follows at this instant is what is there."""

    version: int = VERSION
    program: str = ""
    goes_on: bool = False
    """Nothing was missed since the file before it."""


class Conf(_Line, frozen=True):
    """The configuration from now on."""

    digest: str
    data: dict[str, Any] = {}


class NodeLine(_Line, frozen=True, tag="node"):
    """A node is there, or is not as it was."""

    name: str
    cpu: int = 0
    """In thousandths."""
    memory: int = 0
    pods: int = 0
    gpus: int = 0
    model: str = ""
    closed: bool = False
    """Takes nothing new."""


class NodeGone(_Line, frozen=True):
    """A node is gone."""

    name: str


class QueueLine(_Line, frozen=True, tag="queue"):
    """A queue is there, or is not as it was; *spec* as a manifest has it."""

    name: str
    spec: dict[str, Any] = {}


class QueueGone(_Line, frozen=True):
    """A queue is gone."""

    name: str


class Pods(msgspec.Struct, frozen=True, omit_defaults=True):
    """Equal pods of a job."""

    count: int
    cpu: int = 0
    memory: int = 0
    gpus: int = 0
    share: int = 1000
    """Thousandths of each of these devices."""
    models: tuple[str, ...] = ()
    """Models that will do; none: any."""


class JobLine(_Line, frozen=True, tag="job"):
    """A job is there, or has more pods than before."""

    job: str
    """``namespace/name``"""
    created: float
    queue: str = ""
    minimum: int = 0
    priority: int = 0
    declared: float = 0.0
    """The run time that its owner announced; 0: none."""
    pods: tuple[Pods, ...] = ()
    picky: bool = False
    """Its pods ask for more than room: selectors, affinities, tolerations, volumes, claims, a topology."""


class Admitted(_Line, frozen=True):
    """A job was let into its queue."""

    job: str


class PodsPlaced(_Line, frozen=True, tag="placed"):
    """Pods of a job got their nodes."""

    job: str
    pods: dict[str, str]
    """Name -> node."""
    found: bool = False
    """They had them when the file began."""


class JobRuns(_Line, frozen=True, tag="runs"):
    """As many pods of a job run as it needs."""

    job: str


class Evicting(_Line, frozen=True):
    """We asked a pod to go, for the good of another job."""

    job: str
    pod: str
    node: str
    action: str
    beneficiary: str = ""


class PodsLeft(_Line, frozen=True, tag="left"):
    """Pods of a job gave their places back."""

    job: str
    pods: tuple[str, ...]
    how: str
    """``succeeded``, ``failed``, ``evicted`` (by us), ``node`` (it went down with it), ``unbound`` (never got there) or
    ``deleted`` (somebody else did it)."""


class Over(_Line, frozen=True):
    """A job has no pods left that wait or run: ``completed``, ``failed`` or ``deleted``."""

    job: str
    how: str


_OfCluster: TypeAlias = Begins | Conf | NodeLine | NodeGone | QueueLine | QueueGone
_OfJob: TypeAlias = JobLine | Admitted | PodsPlaced | JobRuns | Evicting | PodsLeft | Over
Line: TypeAlias = _OfCluster | _OfJob
"""Any line of a history."""
