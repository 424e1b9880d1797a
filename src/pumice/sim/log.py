"""The event log: what happened in a run, line by line. The same run gives the same bytes."""

from __future__ import annotations

import hashlib
from typing import TextIO


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
