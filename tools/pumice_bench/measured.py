"""What was measured of a shape."""

from __future__ import annotations

import resource
from dataclasses import dataclass, field


@dataclass(slots=True)
class Measured:
    """What a shape took."""

    name: str
    tasks: int
    per_cycle: bool
    wall: float
    """Seconds: of all measured cycles, or the median one where a cycle is what counts."""
    cpu: float
    """As *wall*, in CPU seconds."""
    events: float
    """Seconds to take in the events of the measured cycles."""
    decided: int
    peak_mib: float
    timings: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        """Tasks per second."""
        return self.tasks / self.wall if self.wall else 0.0


def peak_mib() -> float:
    """The most memory that this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
