"""Binds and evictions that the cluster refused, and jobs that a cycle failed at: not tried again at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pumice.model.codes import ReasonCode

WAITS: Final = (2.0, 60.0)
"""Seconds for which a refused write is not tried again: at first, and at most; they double."""
ASIDE: Final = (10.0, 300.0)
"""Seconds for which a job that a cycle failed at is left out: at first ten periods of a second; they double."""
JOB_KEY: Final = "job "
"""What stands before the UID of a job that a cycle failed at, among the UIDs of pods."""
FORGOTTEN_AFTER: Final = 600.0
"""Seconds after which a refusal that nothing followed is forgotten."""


@dataclass(slots=True)
class RefusedWrite:
    """A bind or an eviction of a pod that did not happen, or a job that a cycle failed at."""

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
    failed: bool = False
    """Whether a cycle failed at the job: as long as it stands, no action looks at the job. It has no pod then."""


@dataclass(slots=True)
class Stopped:
    """What the refusals that stand mean for a job."""

    text: str
    code: ReasonCode = ReasonCode.PLAN_REFUSED
    """Why nothing of it is placed for now: a bind was refused, or a cycle failed at it; else it may be placed."""

    @property
    def paused(self) -> bool:
        """Report whether nothing of the job is placed for now."""
        return self.code is not ReasonCode.PLAN_REFUSED


def next_wait(known: RefusedWrite | None, waits: tuple[float, float] = WAITS) -> float:
    """Return for how long what failed just now is not tried again; *known*: its last failure."""
    return min(known.wait * 2, waits[1]) if known is not None and known.wait else waits[0]
