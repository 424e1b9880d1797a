"""Time that passes when nothing else happens: whoever waits for a minute has waited for it at once.

For what talks to nobody: an answer over a socket takes real time, in which the virtual one would run away.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar
from unittest import mock

T = TypeVar("T")


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
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
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
