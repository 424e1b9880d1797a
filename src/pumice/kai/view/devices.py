"""Shared GPUs and claimed ones of one node: who has how much of each, and what that leaves of whole ones."""

from __future__ import annotations

from typing import TypeAlias

from pumice.kai.view.stage import TaskStage
from pumice.model.gpu import DEVICE


class SharedGpu:
    """One physical GPU that tasks share, in units of `DEVICE`.

    In the node's amounts it stands as a whole: taken while somebody is on it, being released when all who are on it
    are on their way out and nobody waits for it, and owed by what is being released while only promises are on it.
    """

    __slots__ = ("holds",)

    def __init__(self) -> None:
        self.holds: dict[str, tuple[int, bool, bool]] = {}
        """What is booked -> (units, is promised, is being released)."""

    @property
    def allocated(self) -> int:
        """Held now."""
        return sum(m for m, promised, _ in self.holds.values() if not promised)

    @property
    def releasing(self) -> int:
        """Being given back, less what is promised of it."""
        return sum(-m if promised else m for m, promised, leaving in self.holds.values() if promised or leaving)

    @property
    def used(self) -> int:
        """Held or promised."""
        return sum(m for m, _, _ in self.holds.values())

    def whole(self) -> tuple[int, int]:
        """What it takes from the node's idle GPUs, and adds to those being released."""
        if not self.holds:
            return 0, 0
        held = [leaving for _, promised, leaving in self.holds.values() if not promised]
        promised = len(held) < len(self.holds)
        if not held:
            return 0, -1
        return -1, int(all(held) and not promised)

    @property
    def is_held(self) -> bool:
        """Has somebody a part of it now, and not only a promise?"""
        return any(not promised for _, promised, _ in self.holds.values())

    def takes(self, share: int) -> bool:
        """Report whether it has room for a share beside those who are on it, when what is leaving has left."""
        if not self.holds or self.whole()[1] == 1:
            return False
        return DEVICE - self.allocated + self.releasing >= share

    def unused(self) -> int:
        """Units that no task has or waits for, or that are being given back; nothing where it counts as a whole."""
        if self.whole()[1] == 1:
            return 0
        return max(DEVICE - self.allocated + self.releasing, 0)

    def unheld(self) -> int:
        """Units that no task has or that are being given back; nothing where it counts as a whole."""
        allocated, releasing = self.allocated, self.releasing
        free = DEVICE - allocated if allocated else 0
        return free + (releasing if releasing > 0 and self.whole()[1] != 1 else 0)

    def left_over(self) -> float:
        """As `unheld`, as a part of the device, with what is taken or given back rounded up to hundredths."""
        allocated, releasing = self.allocated, self.releasing
        free = 1 - _hundredths(allocated) if allocated else 0.0
        if releasing > 0 and self.whole()[1] != 1:
            free += _hundredths(releasing)
        return free


def _hundredths(units: int) -> float:
    return -(-units * 100 // DEVICE) / 100


def booking_marks(stage: TaskStage) -> tuple[bool, bool]:
    """(is promised, is being released) of what a task of a stage holds."""
    return stage is TaskStage.PIPELINED, stage is TaskStage.RELEASING


ClaimHolds: TypeAlias = dict[str, tuple[bool, bool]]
"""Who has a claim on a node -> whether it is only promised, and whether the holder is leaving."""


def held_together(holds: ClaimHolds) -> tuple[int, int]:
    """How often the GPUs of a claim count as idle and as being given back, with these holders."""
    there = [leaving for promised, leaving in holds.values() if not promised]
    waits = any(promised for promised, _ in holds.values())
    if not there:
        return 0, -1 if waits else 0
    return -1, 1 if all(there) and not waits else 0
