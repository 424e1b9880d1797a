"""A server that does not answer, told in one line, however many wait for it."""

from __future__ import annotations

import logging
import time

from pumice.kube.errors import ApiRefused, Unreachable

log = logging.getLogger("pumice.kube")

BLIP = 1.0
"""Seconds of an outage of which the end is not worth a line."""


class Outage:
    """Who waits for the API server. Shared by all that read from it; belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self._since = 0.0

    def concerns(self, trouble: Exception) -> bool:
        """Whether it is the server that is in trouble, and not what was asked of it."""
        return isinstance(trouble, Unreachable) or (isinstance(trouble, ApiRefused) and trouble.retryable)

    def began(self, who: str, trouble: Exception) -> None:
        """Somebody got no answer, or none that helps; the first one is told."""
        if self._waiting:
            log.debug("%s waits too: %s", who, trouble)
        else:
            self._since = time.monotonic()
            log.warning("the API server does not answer: %s; waiting for it", trouble)
        self._waiting.add(who)

    def ended(self, who: str) -> None:
        """Somebody got an answer; when nobody waits any more, that is told."""
        if who not in self._waiting:
            return
        self._waiting.discard(who)
        lasted = time.monotonic() - self._since
        if not self._waiting and lasted >= BLIP:
            log.info("the API server answers again, after %.1f s", lasted)
