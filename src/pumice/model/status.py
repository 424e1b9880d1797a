"""The status of a task, and the one table of moves that a session may make."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final


class TaskStatus(IntEnum):
    """The state of one task. The number is the place of its bit in Volcano's wire format (`bit`)."""

    PENDING = 0
    ALLOCATED = 1
    PIPELINED = 2
    BINDING = 3
    BOUND = 4
    RUNNING = 5
    RELEASING = 6
    SUCCEEDED = 7
    FAILED = 8
    UNKNOWN = 9

    @property
    def bit(self) -> int:
        """The status as Volcano numbers it on the wire."""
        return 1 << self.value

    @property
    def title(self) -> str:
        """The status as users read it: ``Pending``."""
        return self.name.capitalize()

    @property
    def is_held(self) -> bool:
        """Whether a task of this status holds room on a node or was promised some: what event handlers count."""
        return self in HELD_STATUSES


S = TaskStatus
STATUS_COUNT: Final = len(TaskStatus)

ALLOCATED_STATUSES: Final = frozenset({S.BOUND, S.BINDING, S.RUNNING, S.ALLOCATED})
"""Holds room on a node now."""
HELD_STATUSES: Final = ALLOCATED_STATUSES | {S.PIPELINED}
"""The statuses that event handlers count: the task holds room now or will."""
READY_STATUSES: Final = ALLOCATED_STATUSES | {S.SUCCEEDED}
"""Counts towards a gang."""

IS_ALLOCATED: Final = tuple(s in ALLOCATED_STATUSES for s in S)
IS_HELD: Final = tuple(s in HELD_STATUSES for s in S)
IS_READY: Final = tuple(s in READY_STATUSES for s in S)

MOVES: Final[frozenset[tuple[TaskStatus, TaskStatus]]] = frozenset(
    {
        (S.PENDING, S.ALLOCATED),
        (S.PENDING, S.PIPELINED),
        (S.ALLOCATED, S.BINDING),
        (S.BOUND, S.RELEASING),
        (S.RUNNING, S.RELEASING),
        (S.PIPELINED, S.ALLOCATED),
        (S.ALLOCATED, S.PENDING),
        (S.PIPELINED, S.PENDING),
        (S.RELEASING, S.RUNNING),
        (S.RELEASING, S.BOUND),
        (S.BINDING, S.PENDING),
        (S.BINDING, S.ALLOCATED),
        (S.BINDING, S.RELEASING),
        (S.RELEASING, S.BINDING),
    }
)
"""The moves that a session may make; events of the cluster are not bound by it."""


class JobPhase(StrEnum):
    """The phase of a PodGroup."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"
