"""Where a task stands, as KAI tells it, and the sets of stages that its rules speak of."""

from __future__ import annotations

from enum import Enum
from typing import Final


class TaskStage(Enum):
    """The status of a task in a session of KAI."""

    __hash__ = object.__hash__  # sets of stages are asked all the time

    PENDING = "Pending"
    GATED = "Gated"
    ALLOCATED = "Allocated"
    PIPELINED = "Pipelined"
    BINDING = "Binding"
    BOUND = "Bound"
    RUNNING = "Running"
    RELEASING = "Releasing"
    STUCK = "StuckInReleasing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


ALLOCATED: Final = frozenset({TaskStage.ALLOCATED, TaskStage.BINDING, TaskStage.BOUND, TaskStage.RUNNING})
"""Holds room now: counts in its queue."""
ACTIVE: Final = ALLOCATED | {TaskStage.PIPELINED}
"""Has a place or a promised one (active-allocated)."""
USED: Final = ACTIVE | {TaskStage.RELEASING, TaskStage.STUCK}
"""Is on a node, also on its way out (active-used)."""
ALIVE: Final = ACTIVE | {TaskStage.PENDING, TaskStage.GATED}
"""Runs or may still run."""
