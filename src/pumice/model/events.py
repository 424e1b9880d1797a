"""What the cluster tells us. A changed object is `Seen`, a removed one `Gone`; outcomes of intents have names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pumice.model.api import AnyObject


@dataclass(frozen=True, slots=True)
class Seen:
    """An object was added or changed; it is as given now."""

    object: AnyObject


@dataclass(frozen=True, slots=True)
class Gone:
    """An object left the cluster. *key* is ``namespace/name`` or the bare name."""

    kind: str
    key: str


@dataclass(frozen=True, slots=True)
class BindFailed:
    """A bind that we asked for did not happen; the room it held is free again."""

    pod: str
    uid: str
    message: str
    node: str = ""
    """Where it was to go. A pod that was sent elsewhere since is not concerned; nothing: wherever it was sent."""


@dataclass(frozen=True, slots=True)
class EvictFailed:
    """An eviction that we asked for was refused; the task goes on running."""

    pod: str
    uid: str
    message: str


ClusterEvent: TypeAlias = Seen | Gone | BindFailed | EvictFailed
