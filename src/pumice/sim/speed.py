"""How fast a gang works by what it got, and what checkpoints, restarts and changes of its size cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

_TICK = 1e-9
LEAST = 1e-3
"""The fewest seconds of work between two checkpoints; with fewer, none is made."""


@dataclass(frozen=True, slots=True)
class RunningGang:
    """The room of a running job at a moment."""

    key: str
    """``namespace/name`` of the job."""
    queue: str
    pods: int
    """Pods that run."""
    whole: int
    """All pods of the job."""
    models: tuple[str, ...]
    """The GPU model of each pod's node; empty where the node names none."""
    nodes: tuple[str, ...]
    """The node of each pod."""


Speed = Callable[[RunningGang], float]
"""Work that a gang does in a second: 1 is the speed at which its run time is its duration. Above 0."""
Curve = tuple[tuple[float, float], ...]
"""Values by count, ascending; between two counts on a line, before the first and beyond the last constant."""


@dataclass(frozen=True, slots=True)
class SpeedTable:
    """Speed as a product of three factors."""

    pods: Curve = ()
    """Speed by running pods, relative to that of all pods of the job; else the number of pods does not matter."""
    models: Mapping[str, float] = field(default_factory=dict)
    """Speed by GPU model; a gang is as fast as its slowest pod, and a model that is not named has speed 1."""
    nodes: Curve = ()
    """Speed by the number of nodes that the pods are on."""

    def __call__(self, gang: RunningGang) -> float:
        speed = 1.0
        if self.pods:
            speed *= _on(self.pods, gang.pods) / _on(self.pods, gang.whole)
        if self.models:
            speed *= min(self.models.get(model, 1.0) for model in gang.models)
        if self.nodes:
            speed *= _on(self.nodes, len(set(gang.nodes)))
        return speed


LINEAR: Curve = ((0.0, 0.0), (1e9, 1e9))
"""Twice the pods, twice the speed."""


def _on(curve: Curve, count: float) -> float:
    before = curve[0]
    for at, value in curve:
        if count <= at:
            x, y = before
            return value if at == x else y + (value - y) * (count - x) / (at - x)
        before = at, value
    return before[1]


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds in which a job holds what it has and does no work."""

    checkpoint: float = 0.0
    """For each checkpoint."""
    restart: float = 0.0
    """Before work goes on that was interrupted."""
    resize: float = 0.0
    """Before work goes on with more or fewer pods."""

    def done(self, elapsed: float, every: float) -> float:
        """Return the seconds of work in so many seconds, if a checkpoint follows each *every* seconds of work."""
        if not self.checkpoint or every < LEAST or elapsed <= 0:
            return max(elapsed, 0.0)
        whole, rest = divmod(elapsed, every + self.checkpoint)
        return whole * every + min(rest, every)

    def needed(self, work: float, every: float) -> float:
        """Return the seconds that so many seconds of work take; none of the checkpoints is at their end."""
        if not self.checkpoint or every < LEAST or not 0 < work < math.inf:
            return work
        return work + self.checkpoint * max(math.ceil(work / every - _TICK) - 1, 0)

    def kept(self, elapsed: float, every: float) -> float:
        """Return the seconds of work that the last checkpoint saved."""
        if every < LEAST:
            return 0.0
        return math.floor(max(elapsed, 0.0) / (every + self.checkpoint) + _TICK) * every
