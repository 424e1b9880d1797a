"""A circuit breaker: after some failures in a row nobody is asked for a while, then one call may try."""

from __future__ import annotations

from collections.abc import Callable


class Breaker:
    """Closed: every call goes out. Open: none does. Half open: one does, and its outcome decides."""

    def __init__(self, failures: int, reset: float, clock: Callable[[], float]) -> None:
        """*failures* in a row open it (0: never), for *reset* seconds of *clock*."""
        self._most, self._reset, self._clock = failures, reset, clock
        self._failed = 0
        self._opened_at: float | None = None
        self._probing = False
        self.opened = 0
        """How often it has opened."""

    @property
    def state(self) -> str:
        """``closed``, ``open`` or ``half-open``."""
        if self._opened_at is None:
            return "closed"
        return "open" if self._clock() - self._opened_at < self._reset else "half-open"

    def admits(self) -> bool:
        """May a call go out now? A yes while half open is for this one call."""
        state = self.state
        if state == "closed":
            return True
        if state == "open" or self._probing:
            return False
        self._probing = True
        return True

    def succeeded(self) -> None:
        """A call was answered."""
        self._failed, self._opened_at, self._probing = 0, None, False

    def failed(self) -> None:
        """A call was not answered."""
        self._failed += 1
        if self._most and (self._probing or (self._failed >= self._most and self._opened_at is None)):
            self._opened_at = self._clock()
            self.opened += 1
        self._probing = False
