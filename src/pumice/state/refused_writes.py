"""Binds and evictions that the cluster refused: remembered, so that they are not sent again at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WAITS: Final = (2.0, 60.0)
"""Seconds for which a refused write is not tried again: at first, and at most; they double."""
FORGOTTEN_AFTER: Final = 600.0
"""Seconds after which a refusal that nothing followed is forgotten."""


@dataclass(slots=True)
class RefusedWrite:
    """A bind or an eviction of a pod that did not happen."""

    pod: str
    node: str
    beneficiary: str
    """The job for whose good it was; of a bind, the pod's own."""
    message: str
    wait: float
    """For how long it is not tried again; 0 for one that was given up because of another."""
    until: float
    freed: bool = False
    """Whether its plan had freed room on the node before it was stopped."""
    fresh: bool = True
    """No session has looked at it yet."""
    bind: bool = False
    """Whether it is a bind: as long as it stands, its job is not placed."""


@dataclass(slots=True)
class Stopped:
    """What the refusals that stand mean for a job."""

    text: str
    paused: bool
    """Whether nothing of it is placed for now, because a bind was refused."""
