"""Time as it is given. `SystemClock` is the only reader of the wall clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time in seconds since the epoch."""

    def now(self) -> float: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()  # noqa: TID251 - the one place that may


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def move_to(self, now: float) -> None:
        """Set the time; it never runs backwards."""
        self._now = max(self._now, now)
