"""Evictions that the cluster did not allow: remembered, so that the next plan is another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WAITS: Final = (2.0, 60.0)
"""Seconds for which a task is no victim whose eviction was refused: at first, and at most; they double."""
FORGOTTEN_AFTER: Final = 600.0
"""Seconds after which a refusal that nothing followed is forgotten."""


@dataclass(slots=True)
class RefusedEviction:
    """What is known of an eviction that did not happen."""

    pod: str
    node: str
    beneficiary: str
    """The job for whose good it was."""
    message: str
    wait: float
    """For how long it is not tried again; 0 for one that was given up because of another."""
    until: float
    freed: bool = False
    """Whether its plan had freed room on the node before it was stopped."""
    fresh: bool = True
    """No session has looked at it yet."""
