"""Cyclic garbage of plugins in a run during which the garbage collector rests."""

from __future__ import annotations

import gc
from typing import Final

OFTEN: Final = 4096
"""Cycles between two looks while something is found, and before the first one."""
SELDOM: Final = 8 * OFTEN
"""Cycles between two looks at the most."""


class Garbage:
    """Looks for garbage now and then: half as often each time that there is none, as at first once there is."""

    def __init__(self) -> None:
        self._between = self.next_look = OFTEN
        """How many cycles are between two looks, and the cycle after which the next one is due."""

    def look(self) -> None:
        """Free what nobody can reach, of what was made since the last look."""
        self._between = OFTEN if gc.collect(0) else min(2 * self._between, SELDOM)
        self.next_look += self._between
