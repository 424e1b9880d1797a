"""The events of the cluster. A changed object is `Seen`, a removed one `Gone`; outcomes of intents have names."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pumice.model.api import AnyObject


class Seen(msgspec.Struct, frozen=True):
    """An object was added or changed; it is as given now."""

    object: AnyObject


class Gone(msgspec.Struct, frozen=True):
    """An object left the cluster. *key* is ``namespace/name`` or the bare name."""

    kind: str
    key: str


class BindFailed(msgspec.Struct, frozen=True):
    """A bind that we asked for did not happen; the room it held is free again."""

    pod: str
    uid: str
    message: str
    node: str = ""
    """The node that it was sent to. A pod that was sent elsewhere since is not concerned; nothing: wherever it was
    sent."""
    refused: bool = False
    """Whether the cluster said no, so that the same bind would be refused again."""


class EvictFailed(msgspec.Struct, frozen=True):
    """An eviction that we asked for was refused; the task goes on running."""

    pod: str
    uid: str
    message: str
    node: str = ""
    beneficiary: str = ""
    """The job for whose good it was."""
    tried: bool = True
    """False: it was given up because another eviction of the same plan was refused."""
    freed: bool = False
    """Whether the plan had freed room on the node before it was stopped."""


ClusterEvent: TypeAlias = Seen | Gone | BindFailed | EvictFailed
