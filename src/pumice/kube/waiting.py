"""How long to wait before trying again."""

from __future__ import annotations

import random


class Backoff:
    """Waits that double up to a limit, with some chance in them so that clients do not march in step."""

    def __init__(self, first: float = 0.1, most: float = 10.0) -> None:
        self._first, self._most = first, most
        self._next = first

    def again(self, asked: float = 0.0) -> float:
        """The next wait in seconds; at least what the server asked for."""
        wait = self._next * random.uniform(0.5, 1.0)
        self._next = min(self._next * 2, self._most)
        return max(wait, asked)

    def reset(self) -> None:
        """It worked: start small again."""
        self._next = self._first
