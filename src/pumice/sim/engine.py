"""Virtual time: a queue of things that will happen, and the order of things that happen at one instant."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Callable
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, TextIO

from pumice.clock import ManualClock
from pumice.errors import InvalidInput


class EventLog:
    """Takes lines in order, hands them to a stream where there is one, and knows their digest."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self._lines: list[str] = []
        self._time, self._stamp = 0.0, "0.000"
        """When the last thing happened, and how that is written: much happens at one instant."""
        self.count = 0

    def write(self, time: float, text: str) -> None:
        """One thing that happened at *time*."""
        if time != self._time:
            self._time, self._stamp = time, f"{time:.3f}"
        self._lines.append(f"{self._stamp} {text}\n")
        if len(self._lines) >= 1000:
            self.flush()

    def flush(self) -> None:
        """Hand over what was collected."""
        if not self._lines:
            return
        text = "".join(self._lines)
        self.count += len(self._lines)
        self._lines = []
        self._hash.update(text.encode())
        if self._stream is not None:
            self._stream.write(text)

    @property
    def digest(self) -> str:
        """SHA-256 of all lines so far."""
        self.flush()
        return self._hash.hexdigest()


class Rank(IntEnum):
    """The order of events at one instant: room is freed before a new job asks for it."""

    PODS = 0
    """Pods start and end, evictions come to their end."""
    NODES = 1
    """Nodes join, fail, return; faults."""
    ARRIVALS = 2
    WAKE = 3
    """Nothing but another cycle."""


class Timeline:
    """A queue of calls on virtual time. Calls of one instant run by rank, then in the order they were asked for."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = clock if clock is not None else ManualClock()
        self.now = self.clock.now()
        """The present instant, in seconds."""
        self._heap: list[tuple[float, int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._made = 0
        self._stamp = datetime.fromtimestamp(self.now, UTC)
        self._stamped = self.now

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def stamp(self) -> datetime:
        """The present instant as objects carry it; what happens at one instant shares it."""
        if self._stamped != self.now:
            self._stamp, self._stamped = datetime.fromtimestamp(self.now, UTC), self.now
        return self._stamp

    def at(self, time: float, rank: Rank, call: Callable[..., None], *arguments: Any) -> None:
        """Let *call* happen at *time*; a time of infinity is never.

        :raises InvalidInput: the time is past.
        """
        if time == math.inf:
            return
        if not time >= self.now:
            raise InvalidInput(f"timeline: {time:g} s must not be before the present, {self.now:g} s")
        self._made += 1
        heapq.heappush(self._heap, (time, rank, self._made, call, arguments))

    def next_time(self) -> float | None:
        """When something happens next; None if nothing will."""
        return self._heap[0][0] if self._heap else None

    def advance(self) -> float:
        """Go to the next instant and let everything of it happen, what it causes at once included; returns the time."""
        heap = self._heap
        time = heap[0][0]
        self.clock.move_to(time)
        self.now = time
        while heap and heap[0][0] <= time:
            _, _, _, call, arguments = heapq.heappop(heap)
            call(*arguments)
        return time
