"""Time that passes when nothing else happens: whoever waits for a minute has waited for it at once.

Servers and clients of the same loop may talk over real sockets: time passes when nothing has come for some real
milliseconds. What another thread or process does takes real time, in which the virtual one would run away.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar
from unittest import mock

T = TypeVar("T")
GRACE = 0.003
"""So long what was sent over loopback may be on its way, in real seconds."""
TICK = 1e-6
"""What a turn of the loop takes: time never stands still."""


class _Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        return self.seconds


class _Selector(selectors.DefaultSelector):
    """Where the loop would sleep until its next timer, the clock is set to it instead, unless something came."""

    def __init__(self, clock: _Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._clock.seconds += TICK
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(min(timeout, GRACE))
        if not ready:
            self._clock.seconds += timeout
        return ready


def run(story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; everything that asks for the steady clock within is told the virtual time."""
    clock = _Clock()
    with (
        mock.patch("time.monotonic", clock.now),
        asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_Selector(clock))) as runner,
    ):
        return runner.run(story)
