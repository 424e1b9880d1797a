"""The facts behind health, readiness and metrics: independent of the server."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Probes:
    """The input of the endpoints. Each may be called from any thread."""

    trouble: Callable[[], str]
    """Why we should be started anew; nothing if all is well."""
    unready: Callable[[], str]
    """Why we cannot work yet; nothing if we can."""
    metrics: Callable[[], bytes]
    next_cycle: Callable[[], Future[bytes]] | None = None
    """The next cycle, saved; a `PumiceError` says why there is none. None: not offered."""
